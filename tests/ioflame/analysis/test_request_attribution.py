"""Whose a request is: by hand-made requests and files, whose sums a reader can do in their head."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ground.results.request_attribution import RequestAttribution, StoredFolder, StoredListing
from ground.results.requests import NOTHING, Request
from ground.results.stored_files import FileSection, StoredFile
from ioflame.analysis.request_attribution import UNSAMPLED, attribute_requests
from tests.requests import DATABASE, FOLDER, META, READAHEAD, row, told

# A table of four parts: 100,000 B of data, which no block of the disk ends with.
SECTIONS = (
    FileSection(100_000, "data"), FileSection(104_000, "filter"), FileSection(140_000, "index"),
    FileSection(140_500, "footer"),
)  # fmt: skip
TABLE = StoredFile("000011.sst", "sst", 2, "default", sections=SECTIONS, made_by="flush")
LISTING = StoredListing(
    "rocksdb", "/var/db", [StoredFolder("", "db", DATABASE), StoredFolder("base/5", "5", FOLDER)],
    [TABLE, StoredFile("000012.log", "wal"), StoredFile("base/5/1249", "relation", title="app.public.accounts")],
    {r"\d+\.dbtmp": "temporary"}, 900, 2100,
)  # fmt: skip


def sorted_(
    *rows: Request, listing: StoredListing = LISTING, reasons: dict[int, str] | None = None
) -> RequestAttribution:
    return attribute_requests(told(rows, reasons=8), rows, listing, reasons or {}, {"get": "Get: one key"})


def one(*rows: Request, listing: StoredListing = LISTING) -> tuple[str, str, int | None, str]:
    """Owner, kind, level and part of requests that are alike."""
    (found,) = sorted_(*rows, listing=listing).rows
    assert found.requests == len(rows)
    return found.owner, found.kind, found.level, found.holds


def test_a_request_is_given_to_the_file_of_the_database_by_inode_of_its_folder() -> None:
    assert one(row(), row()) == ("database", "sst", 2, "data")
    assert one(row(file=1, operation=1)) == ("database", "wal", None, "")
    assert one(row(file=4)) == ("database", "relation", None, "")
    found = sorted_(row(file=4)).files[0]
    assert (found.name, found.title) == ("base/5/1249", "app.public.accounts")


def test_a_file_that_the_kernel_knows_by_another_link_is_found_by_its_inode() -> None:
    """As the arms of a comparison share their files: the kernel has one name of each, in the folder of one arm."""
    other_arm = replace(LISTING, folders=[StoredFolder("", "B", DATABASE + 1000)])
    assert one(row(), listing=other_arm)[0] == "process"
    assert one(row(), listing=replace(other_arm, linked={"000011.sst": 11})) == ("database", "sst", 2, "data")
    # Another file's number, or another name: it is not that one.
    assert one(row(), listing=replace(other_arm, linked={"000011.sst": 12}))[0] == "process"
    assert one(row(), listing=replace(other_arm, linked={"000013.sst": 11}))[0] == "process"


@pytest.mark.parametrize(
    ("offset", "size", "holds"),
    [
        (0, 8192, "data"),
        (90_112, 8192, "data"),
        # The last block of data: what is read ends in the filter's first block.
        (94_208, 8192, "data"),
        # The filter begins at 100,000: what is read begins up to a block early.
        (98_304, 8192, "filter"),
        # An index of 36,000 B, read with whole blocks around it.
        (102_400, 40_960, "index"),
        (0, 110_592, "several"),
        # By blocks of 512 B the borders are nearer.
        (99_840, 4608, "filter"),
        # One block with the index's end and the footer: either may have been asked for.
        (139_264, 4096, "several"),
        # Beyond its end as it was listed.
        (200_704, 4096, "footer"),
    ],
)  # fmt: skip
def test_what_lies_there_is_told_although_direct_reads_begin_early(offset: int, size: int, holds: str) -> None:
    assert one(row(offset=offset, bytes=size))[3] == holds


def test_whose_it_is_without_a_file_of_the_database() -> None:
    assert one(row(file=2)) == ("process", "", None, "")
    assert one(row(file=2, submitter=0, thread=3)) == ("others", "", None, "")
    # Written later by the kernel: whose it was is not known any more, but it is no file of the database.
    assert one(row(file=2, submitter=2, thread=2, found=0, operation=1)) == ("others", "", None, "")
    assert sorted_(row(file=2)).files[0].name == "/home/x"
    # A tree that a file system keeps as a file without a name.
    assert one(row(found=0, file=3, flags=META)) == ("file system", "metadata", None, "")
    unnamed = sorted_(row(found=0, file=3))
    assert (unnamed.unnamed, unnamed.rows[0].owner) == (1, "process")
    nothing = {"file": NOTHING}
    assert one(row(found=2, flags=META, **nothing)) == ("file system", "metadata", None, "")
    assert one(row(found=2, submitter=2, thread=4, operation=1, **nothing)) == ("file system", "journal", None, "")
    assert one(row(found=3, operation=1, bytes=0, **nothing)) == ("no data", "sync", None, "")
    assert one(row(found=3, operation=2, bytes=0, **nothing)) == ("no data", "flush", None, "")
    assert one(row(found=3, operation=3, **nothing)) == ("no data", "discard", None, "")
    assert one(row(found=4, submitter=2, thread=2, **nothing)) == ("others", "swap", None, "")
    assert one(row(found=5, **nothing)) == ("unknown", "", None, "")
    assert one(row(found=5, submitter=0, thread=3, **nothing)) == ("others", "", None, "")
    # The database's files are its own, whoever asks.
    found = sorted_(row(submitter=0, thread=3), row(), row(submitter=2, thread=2, operation=1, found=0))
    assert {(one.submitter, one.owner, one.requests) for one in found.rows} == {
        ("others", "database", 1), ("process", "database", 1), ("kernel", "database", 1),
    }  # fmt: skip


def test_a_file_that_was_moved_is_under_the_level_that_it_had_then() -> None:
    # From 900 to 2,100: a quarter of it is 1,200.
    moved = StoredFile("000011.sst", "sst", 3, moved_from=2, moved_at=0.25)
    listing = StoredListing("rocksdb", "/db", LISTING.folders, [moved], begun_ns=900, ended_ns=2100)
    found = sorted_(row(ended=1100), row(ended=1300), row(ended=1900), listing=listing)
    assert {one.level: one.requests for one in found.rows} == {2: 1, 3: 2}
    assert found.moved == 3 and found.files[0].moved_from == 2


def test_a_file_that_its_engine_has_not_listed_has_a_kind_by_its_name() -> None:
    found = sorted_(row(file=5))
    assert (found.rows[0].owner, found.rows[0].kind, found.unlisted) == ("database", "temporary", 0)
    unknown = sorted_(row(file=5), listing=replace(LISTING, kinds={}))
    assert (unknown.rows[0].owner, unknown.rows[0].kind, unknown.unlisted) == ("database", "other", 1)


def test_without_a_database_files_have_their_paths() -> None:
    found = sorted_(row(), row(file=4, submitter=0, thread=3), listing=StoredListing())
    assert {one.owner: one.requests for one in found.rows} == {"process": 1, "others": 1}
    assert {one.name for one in found.files} == {"/var/db/000011.sst", ".../lib/var/db/5/1249"}


def test_every_request_is_in_one_row_and_sums_are_kept() -> None:
    rows = [row(offset=8192 * place, thread=place % 2, several=place % 2, flags=READAHEAD) for place in range(100)]
    found = sorted_(*rows)
    assert sum(one.requests for one in found.rows) == 100
    assert sum(one.bytes for one in found.rows) == 100 * 8192 == sum(one.read_bytes for one in found.files)
    assert sum(one.device_ns for one in found.rows) == 100 * 50
    assert (found.several_files, found.readahead) == (50, 100)


def test_reasons_stand_for_all_that_the_process_sent() -> None:
    rows = [row(stack=0), row(stack=1), row(stack=0), *[row()] * 9, row(submitter=0, thread=3)]
    found = sorted_(*rows, reasons={0: "get"})
    assert [(one.reason, one.sampled, round(one.requests, 9), one.label) for one in found.reasons] == [
        ("get", 2, 8, "Get: one key"), ("other", 1, 4, ""),
    ]  # fmt: skip
    # What the kernel writes later is for whoever made the file.
    later = sorted_(
        *[row(operation=1, submitter=2, thread=2, found=0)] * 3, row(operation=1, submitter=2, file=1, found=0)
    )
    assert [(one.reason, one.requests, one.label) for one in later.reasons] == [
        ("flush", 3, UNSAMPLED), ("write-back", 1, UNSAMPLED),
    ]  # fmt: skip
