"""Files over a window of databases that are made here: moves, what came and went, new MANIFESTs, what LOG adds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ground.results.stored_files import FileSection, StoredFile, StoredFiles
from tests.workloads.log_files import deleted, new_file, numbers
from tests.workloads.made_databases import by_name, compacted, creation, database, event, made
from workloads.engines.rocksdb.log_events import Move, logged_tables, moves
from workloads.engines.rocksdb.stored_files import DatabaseFiles, Form
from workloads.engines.rocksdb.window_files import files_of_window
from workloads.registry import engine_named

ROCKSDB = engine_named("rocksdb")
FLUSH = numbers(2, 7)


def test_a_window_tells_what_moved_what_was_made_and_what_is_gone(tmp_path: Path) -> None:
    edits = [new_file(7, 1), new_file(8, 1), new_file(9, 2)]
    folder = database(tmp_path, edits, [7, 8, 9, 12])
    before = ROCKSDB.stored_files(folder)
    more = [
        FLUSH + new_file(12, 0),
        deleted(7, 1) + new_file(7, 2),
        deleted(8, 1) + deleted(9, 2) + new_file(13, 2),
        deleted(13, 2) + new_file(14, 3) + numbers(400, 15, 1, 1, 0, 0, 0),
        new_file(16, 6),
    ]
    for number in (8, 9):
        (folder / f"{number:06}.sst").unlink()
    database(folder, [*edits, *more], [14, 16])
    (folder / "000015.blob").touch()
    window = ROCKSDB.stored_files_of_window(before, ROCKSDB.stored_files(folder))
    files = by_name(window)
    assert window.notes == ()
    assert made(window, 7, 8, 9, 12, 13, 14, 16) == {
        7: (2, ""), 8: (1, ""), 9: (2, ""), 12: (0, "flush"), 13: (2, "compaction"), 14: (3, "compaction"),
        16: (6, "ingestion"),
    }  # fmt: skip
    assert (files["000015.blob"].level, files["000015.blob"].made_by) == (None, "compaction")
    assert [file.name for file in window.files if file.moved_from is not None] == ["000007.sst"]
    assert (files["000007.sst"].moved_from, files["000007.sst"].moved_at) == (1, None)
    # Its parts were read while it was there; of one that came and went nobody says them.
    assert files["000008.sst"].sections and not files["000013.sst"].sections
    assert files["000013.sst"].kind == "sst" and files["000015.blob"].column_family == "default"


def test_a_new_manifest_begins_with_all_files(tmp_path: Path) -> None:
    edits = [new_file(7, 1), new_file(8, 1)]
    folder = database(tmp_path, edits, [7, 8])
    before = ROCKSDB.stored_files(folder)
    last = [FLUSH + new_file(12, 0), deleted(12, 0) + new_file(13, 1)]
    database(folder, [*edits, *last])
    after_edits = [FLUSH + new_file(7, 2) + new_file(13, 1), FLUSH + new_file(14, 0)]
    database(folder, after_edits, [13, 14], manifest=20)
    after = ROCKSDB.stored_files(folder)
    window = ROCKSDB.stored_files_of_window(before, after)
    files = by_name(window)
    assert window.notes == ()
    assert made(window, 7, 12, 13, 14) == {7: (2, ""), 12: (0, "flush"), 13: (1, "compaction"), 14: (0, "flush")}
    assert files["000007.sst"].moved_from == 1 and files["000008.sst"].level == 1
    (folder / "MANIFEST-000005").unlink()
    window = ROCKSDB.stored_files_of_window(before, after)
    files = by_name(window)
    assert "MANIFEST-000005 was deleted within the window" in window.notes[0]
    assert "000012.sst" not in files and files["000007.sst"].moved_from == 1
    assert made(window, 13) == {13: (1, "")}


def test_log_tells_parts_of_what_is_gone_and_when_a_file_moved(tmp_path: Path) -> None:
    edits = [new_file(7, 1), new_file(8, 1)]
    folder = database(tmp_path, edits, [7, 8])
    (folder / "LOG").write_text(event("compaction_started", 4, 1.0), encoding="ascii")
    before = ROCKSDB.stored_files(folder)
    assert isinstance(before, DatabaseFiles)
    begin = before.at
    with (folder / "LOG").open("a", encoding="ascii") as log:
        log.write(creation(12, 4, begin + 1) + compacted(4, begin + 1.5, 2))
        log.write("2026/11/26-18:25:42.7 7 [default] Moving #7 to level-2 67 bytes\n")
        log.write("2026/11/26-18:25:42.7 7 [default] Moving #8 to level-2 67 bytes\n")
        log.write(event("trivial_move", 5, begin + 2, destination_level=2, files=2))
        log.write(creation(13, 6, begin + 3) + event("flush_finished", 6, begin + 3))
        log.write("2026/11/26-18:25:42.7 7 EVENT_LOG_v1 {not whole")
    more = [deleted(7, 1) + new_file(7, 2) + deleted(8, 1) + new_file(8, 2), new_file(12, 2), deleted(12, 2)]
    database(folder, [*edits, *more])
    # Another process put that LOG aside within the window.
    (folder / "LOG").rename(folder / "LOG.old.1795737752127310")
    (folder / "LOG").write_text(creation(14, 4, begin + 5) + event("flush_started", 4, begin + 5), encoding="ascii")
    after = ROCKSDB.stored_files(folder)
    assert isinstance(after, DatabaseFiles)
    files = by_name(ROCKSDB.stored_files_of_window(before, replace(after, at=begin + 8)))
    assert [files[f"00000{number}.sst"].moved_at for number in (7, 8)] == pytest.approx([0.25, 0.25])
    parts = {"data": 9000, "filter": 9100, "index": 9205, "tail": 10_000}
    sections = tuple(FileSection(end, holds) for holds, end in parts.items())
    whole = StoredFile("000012.sst", "sst", 2, "default", sections=sections, made_by="compaction")
    assert files["000012.sst"] == whole
    # What only LOG knows: files that are in no MANIFEST yet.
    for number in (13, 14):
        file = files[f"0000{number}.sst"]
        assert (file.level, file.column_family, file.made_by) == (0, "new", "flush")


def test_log_says_where_parts_end_only_where_it_knows() -> None:
    log = creation(1, 2, 5.5, compression="LZ4") + creation(3, 2, 6.0, partitions=4)
    found = logged_tables(log)
    parts = {number: [(part.holds, part.end) for part in found[number].sections] for number in (1, 3)}
    assert parts[1] == [("data", 9000), ("filter", 9100), ("tail", 10_000)]
    assert parts[3] == [("data", 9000), ("tail", 10_000)]
    # Whether anything was compressed: up to format_version 6, and from 7 on.
    for compression in ("NoCompression", ";;", "BuiltinV2;;", "LZ4", "BuiltinV2;04;", "BuiltinV2;0407;"):
        holds = [part.holds for part in logged_tables(creation(1, 2, 5.5, compression))[1].sections]
        assert ("index" in holds) == (compression in ("NoCompression", ";;", "BuiltinV2;;")), compression
    assert (found[1].made_by, found[1].level, found[1].at, found[1].size) == ("", None, 5.5, 10_000)
    assert moves("x [a] Moving #7 to level-2 67 bytes\n") == []
    moved = "x [a] Moving #7 to level-2 67 bytes\n" + event("flush_started", 1, 2.0) + event("trivial_move", 5, 3.0)
    assert moves(moved) == [Move(7, 2, 3.0)]


def test_readings_that_were_kept_as_files_alone_are_joined() -> None:
    one, two = StoredFile("000001.sst", "sst", 1), StoredFile("000001.sst", "sst", 2)
    form = Form({}, "default", "sst")
    after = StoredFiles((two, StoredFile("LOG", "log")), ("a", "b"))
    assert files_of_window(StoredFiles((one,), ("a",)), after, form) == after


def test_a_database_that_came_or_went_within_the_window(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    folder.mkdir()
    before = ROCKSDB.stored_files(folder)
    database(folder, [FLUSH + new_file(8, 0), deleted(8, 0) + new_file(9, 1)], [9])
    after = ROCKSDB.stored_files(folder)
    window = ROCKSDB.stored_files_of_window(before, after)
    assert made(window, 8, 9) == {8: (0, "flush"), 9: (1, "compaction")}
    gone = by_name(ROCKSDB.stored_files_of_window(after, before))
    assert gone["000009.sst"].level == 1


def test_what_is_being_written_at_the_end_belongs_to_the_job_that_runs(tmp_path: Path) -> None:
    folder = database(tmp_path, [new_file(7, 1)], [7, 30])
    before = ROCKSDB.stored_files(folder)
    for number in (20, 21):
        (folder / f"{number:06}.sst").write_bytes(b"not whole yet")
    begin = "2026/11/26-18:25:42.7 7 [db/f.cc:890] [default]"
    compacting = f"{begin} [JOB 5] Compacting 4@0 + 3@1 files to L1, score 1.00\n"
    flushing = f"{begin} [JOB 6] Level-0 flush table #21: started\n"
    again = compacting.replace("JOB 5", "JOB 8").replace("to L1", "to L2")
    ended = compacted(8, before.at + 1, 2) if isinstance(before, DatabaseFiles) else ""
    for log, level in (
        (compacting + flushing, 1),
        (compacting + flushing + again, None),
        (compacting + flushing + again + ended, 1),
    ):
        (folder / "LOG").write_text(log, encoding="ascii")
        window = ROCKSDB.stored_files_of_window(before, ROCKSDB.stored_files(folder))
        # 30 is whole, and in no MANIFEST: of whom it is nobody says.
        assert made(window, 7, 20, 21, 30) == {7: (1, ""), 20: (level, "compaction"), 21: (0, "flush"), 30: (None, "")}
    (folder / "LOG").write_text("", encoding="ascii")
    assert made(ROCKSDB.stored_files_of_window(before, ROCKSDB.stored_files(folder)), 20) == {20: (None, "")}
