"""Whose requests are, on a page and in a terminal: the figures are those of the result."""

from __future__ import annotations

from dataclasses import replace

from tests.viz.markup import rows_of
from tests.viz.observers import whose, whose_row
from viz.page.whose import whose_panel
from viz.terminal.whose import whose_text
from viz.whose_labels import labelled, level_matrix, reason_sums


def test_rows_of_one_label_are_one() -> None:
    twice = replace(
        whose(), rows=[whose_row("read", "others", 3), replace(whose_row("read", "others", 4), submitter="kernel")]
    )
    assert [(one.label, one.requests) for one in labelled(twice, "read")] == [("other processes", 7)]
    assert [one.label for one in labelled(whose(), "read")] == [
        "sst, L2, data", "sst, L1, data", "sst, L2, index", "other processes",
    ]  # fmt: skip
    assert [one.label for one in labelled(whose(), "write")] == [
        "wal", "file system: metadata", "asks for a flush, without data",
    ]  # fmt: skip


def test_who_else_reads_the_database_s_files_is_said_and_column_families_where_there_are_several() -> None:
    by_others = replace(whose_row("read", "database", 3, "sst", 2, "data"), submitter="others", column_family="a")
    found = replace(whose(), rows=[by_others, replace(by_others, column_family="b", requests=1)])
    assert [one.label for one in labelled(found, "read")] == [
        "sst, L2, a, data (by other processes)", "sst, L2, b, data (by other processes)",
    ]  # fmt: skip


def test_levels_and_parts_are_a_table_of_the_reads() -> None:
    assert level_matrix(whose()) == (["data", "index"], [("L1", [40, 0]), ("L2", [400, 30])])
    assert [(one.label, one.requests) for one in reason_sums(whose(), "read")] == [("get", 440), ("compaction", 30)]


def test_the_text_has_shares_of_the_operation() -> None:
    text = whose_text(whose())
    assert "Requests of vda (254:0, 5.0 s), process 42\nfiles of rocksdb in /db\n" in text
    lines = [line.split() for line in text.splitlines()]
    assert ["sst,", "L2,", "data", "400", "83.9", "3.1", "MiB", "50.0"] in lines
    assert ["L2", "400", "30", "430"] in lines
    assert ["get", "440", "93.6", "3.4", "MiB", "50.0"] in lines
    assert "Why they were sent: read (by 59 stacks)" in text
    assert any(line[:2] == ["000012.sst", "sst,"] and "(from" in line for line in lines)


def test_the_page_has_the_same() -> None:
    page = whose_panel(whose())
    assert "477 of 477 reads, 30 of 30 writes, 4 of 4 flushes, as /proc/diskstats counts them." in page
    assert rows_of(page, "Reads by level, and by what is read")[1:] == [
        ["L1", "40 (8.5 %)", "0 (0.0 %)", "40"], ["L2", "400 (85.1 %)", "30 (6.4 %)", "430"],
    ]  # fmt: skip
    assert ["sst, L2, data", "400", "83.9", "3.1 MiB", "50.0"] in rows_of(page, "Requests by what they are for: read")
    assert "Why requests were sent: read" in page and "moved from L1" in page
    assert "No request of vda ended" in whose_panel(replace(whose(), rows=[]))
