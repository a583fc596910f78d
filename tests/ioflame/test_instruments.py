"""Each instrument says of itself all that is made of it; the files that whose gives requests to."""

from __future__ import annotations

import argparse
import struct
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from ground.errors import UsageError
from ground.results.files import Files
from ground.results.request_attribution import StoredListing
from ground.results.run import Run
from ground.system.atomic_files import write_json
from ioflame.commands.arguments import collectors
from ioflame.instruments import INSTRUMENTS, iolat, ladder, null, offcpu, perf, pmp, requests, runqlat, tail, writes
from ioflame.instruments.instrument import Instrument, add_backend
from ioflame.instruments.requests import listing_of
from ioflame.measure.job import Planned
from ioflame.present.formats import FORMATS, Asked, format_of
from ioflame.present.parts import all_parts
from ioflame.present.stacks import Stacks
from ioflame.stages.observed import analyse_observed
from tests.ioflame.asked import options
from tests.places import ROOT
from tests.records import run_record, window
from tests.requests import row, told
from tests.viz.observers import run_queue
from viz.flame.stacks import Stack
from workloads.registry import file_kinds, files_reader
from workloads.scales import Scale

FIRST = (perf, iolat, ladder, offcpu, runqlat, pmp, requests, null, tail, writes)


def test_every_file_is_found_in_the_order_of_the_windows() -> None:
    files = {path.stem for path in (ROOT / "ioflame" / "instruments").glob("*.py")} - {"__init__", "instrument"}
    assert set(INSTRUMENTS) == files
    first = [module.INSTRUMENT for module in FIRST]
    assert [one for one in INSTRUMENTS.values() if one in first] == first
    orders = [one.order for one in INSTRUMENTS.values()]
    assert orders == sorted(set(orders)), "two instruments have one place"
    assert all(name == one.name for name, one in INSTRUMENTS.items())


@pytest.mark.parametrize("one", INSTRUMENTS.values(), ids=INSTRUMENTS)
def test_what_an_instrument_leaves_is_analysed_shown_and_listed(one: Instrument) -> None:
    assert all(all_parts()[name] is part for name, part in one.parts.items())
    assert all(panel.collector == one.name and set(panel.files) <= set(one.reads) for panel in one.panels)
    # What the page shows is in the summary and in `show` as well.
    assert bool(one.panels) == bool(one.parts) == (one.analyse is not None)
    assert not (one.by_default and (one.names or one.holds))


def test_a_result_that_cannot_be_read_is_a_failed_check_of_its_instrument(tmp_path: Path) -> None:
    run = Run.create(tmp_path, run_record())
    for name in (Files.IO_LATENCY, Files.RUN_QUEUE):
        run.path(name).write_text("{")
    assert [(check.name, check.verdict.value) for check in analyse_observed(run)] == [
        ("iolat", "failed"), ("runqlat", "failed"),
    ]  # fmt: skip


def test_a_turn_that_was_not_watched_is_a_failed_check(tmp_path: Path) -> None:
    begun = [window("runqlat", 1.0, "", begin) for begin in (100, 105, 110)]
    run = Run.create(tmp_path, run_record(windows=[window("plain", 5.0, "", 101), *begun]))
    # Each is open a little longer than its window.
    turns = [(one.start_ns - 10**6, one.end_ns + 10**6) for one in begun]
    for seen, failed in ((3, []), (2, ["2.0 of its 3.0 s were seen"])):
        queue = replace(run_queue(), start_ns=turns[0][0], end_ns=turns[-1][1], turns=turns[:seen])
        write_json(run.path(Files.RUN_QUEUE), queue)
        assert queue.seconds == pytest.approx(seen * 1.002)
        assert [one.value for one in analyse_observed(run) if one.name == "runqlat window"] == failed


def test_requests_of_children_alone_have_no_reason_and_a_table(tmp_path: Path) -> None:
    """Stacks are of the first process: where it sent nothing, the recording holds none."""
    rows = [row(), row()]
    write_json(tmp_path / Files.REQUESTS, told(rows, reasons=1, children=True))
    (tmp_path / Files.REQUEST_ROWS).write_bytes(b"".join(struct.pack("<QQIIIIIIIBBBB", *one) for one in rows))
    (tmp_path / Files.REQUEST_STACKS).write_bytes(b"without a sample")
    write_json(tmp_path / Files.STORED_FILES, StoredListing())
    assert requests.INSTRUMENT.alone is not None
    text, _ = requests.INSTRUMENT.alone.show(tmp_path / Files.REQUESTS)
    assert "process 42 and children" in text and "Why they were sent" not in text


def test_a_backend_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EBPF", "bpftrace")
    parser = argparse.ArgumentParser()
    add_backend(parser, ("co-re", "bpftrace"))
    assert parser.parse_args([]).backend == "bpftrace" and parser.parse_args(["--backend=co-re"]).backend == "co-re"


def test_each_kind_of_file_has_the_weight_of_its_stacks_and_its_title() -> None:
    found = Stacks([Stack(("main", "work"), 70, 7, "", -1), Stack(("main",), 30, 3, "", -1)], "cycles", "cycles")
    for end, kind in FORMATS.items():
        assert format_of(f"x{end}") is kind
        if kind.render is not None:
            text = kind.render(found, Asked("what it is called", "cycles"))
            assert "what it is called" in text and "work" in text
    assert format_of("x.txt") is None


def test_files_of_both_readings_are_listed_with_their_folders(tmp_path: Path) -> None:
    relations = tmp_path / "base" / "5"
    relations.mkdir(parents=True)
    (relations / "1249").touch()
    (tmp_path / "postgresql.conf").touch()
    begun = time.monotonic_ns()
    before = files_reader("postgresql").stored_files(tmp_path)
    (relations / "1249").unlink()
    (relations / "1250").touch()
    (tmp_path / "pg_wal").mkdir()
    (tmp_path / "pg_wal" / ("0" * 24)).touch()
    found = listing_of(tmp_path, "postgresql", before, begun)
    assert {file.name: file.kind for file in found.files} == {
        "base/5/1249": "relation", "base/5/1250": "relation", "postgresql.conf": "configuration",
        f"pg_wal/{'0' * 24}": "wal",
    }  # fmt: skip
    assert [(folder.path, folder.name) for folder in found.folders] == [
        ("", tmp_path.name), ("base/5", "5"), ("pg_wal", "pg_wal"),
    ]  # fmt: skip
    assert found.folders[1].inode == relations.stat().st_ino
    assert begun == found.begun_ns <= found.ended_ns and found.kinds == file_kinds("postgresql")
    # By a link it is the same folder, under its own name.
    (tmp_path.parent / f"{tmp_path.name}-link").symlink_to(tmp_path)
    again = listing_of(tmp_path.parent / f"{tmp_path.name}-link", "postgresql", before, begun)
    assert again.folders == found.folders


def test_files_that_have_other_links_are_listed_with_their_inodes(tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "000011.sst").touch()
    (tmp_path / "db" / "000012.log").touch()
    (tmp_path / "000011.sst").hardlink_to(tmp_path / "db" / "000011.sst")
    before = files_reader("leveldb").stored_files(tmp_path / "db")
    found = listing_of(tmp_path / "db", "leveldb", before, 0)
    assert found.linked == {"000011.sst": (tmp_path / "000011.sst").stat().st_ino}
    # A service's files are those of the engine within it.
    assert file_kinds("rocksdb") and file_kinds("myrocks") == file_kinds("rocksdb")


def test_a_directory_that_is_gone_is_said(tmp_path: Path) -> None:
    before = files_reader("postgresql").stored_files(tmp_path)
    tmp_path.rmdir()
    with pytest.raises(UsageError, match="is not a directory"):
        listing_of(tmp_path, "postgresql", before, 0)
    tmp_path.mkdir()  # pytest removes it


def test_what_is_named_is_asked_for_and_what_a_scale_has_is_not() -> None:
    """TAIL=1 named it, and where it did not start the exit code was 0."""
    for words, asked in (([], set()), (["--tail=1"], {"tail"}), (["--collect=perf iolat"], {"perf", "iolat"})):
        assert _asked(("perf", "ladder"), (), *words) == asked
    # What an experiment's file names is the experiment's own; --collect takes its place.
    assert _asked(("perf", "ladder"), ("ladder",)) == {"ladder"}
    assert _asked(("perf",), (), "--collect=perf") == {"perf"}


def _asked(collect: tuple[str, ...], named: tuple[str, ...], *words: str) -> set[str]:
    scale = Scale("", collect=collect, named=named)
    plan = replace(Planned(options(*words), *[cast(Any, None)] * 6), scale=scale)
    return {name for name in INSTRUMENTS if plan.is_asked(name)}


def test_an_instrument_is_known_by_its_former_name() -> None:
    assert collectors("whose perf") == ("perf", "requests")
    assert window("whose", 5).kind == "requests"
