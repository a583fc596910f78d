from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import MeasurementError, UsageError
from ground.results.checks import Check, Verdict, render_checks, worst
from ground.results.files import Files
from ground.results.record import SCHEMA, RunRecord, Window, created_at
from ground.results.run import Run, check_writable, open_run
from ground.text.columns import NO_BREAK, fold_line
from ground.text.moving_line import fitted
from tests.records import counters


def record() -> RunRecord:
    return RunRecord(SCHEMA, "0.1.0", "2026-01-01T00:00:00+0000", "readrandom", "rocksdb", 2, {"scale": "smoke"})


def test_a_record_reads_back_as_it_was_written(tmp_path: Path) -> None:
    run = Run.create(tmp_path, record())
    run.record.windows.append(Window("plain", 1, 5_000_000_001, counters(queries=12.5), "note"))
    run.record.checks.append(Check("steal", Verdict.WARN, "3 %", "noisy", "move"))
    run.save()
    assert open_run(run.directory).record == run.record
    assert run.record.windows[0].seconds == 5.0


def test_two_runs_in_one_second_get_two_directories(tmp_path: Path) -> None:
    directories = {Run.create(tmp_path, record()).directory for _ in range(3)}
    assert len(directories) == 3
    assert all(d.name.endswith(("-readrandom-t2", "-readrandom-t2-2", "-readrandom-t2-3")) for d in directories)


def test_latest_follows_the_newest_and_spares_what_is_not_ours(tmp_path: Path) -> None:
    for _ in range(2):
        run = Run.create(tmp_path, record())
        run.point_latest()
        assert (tmp_path / "latest").resolve() == run.directory
    other = tmp_path / "other"
    (other / "latest").mkdir(parents=True)
    Run.create(other, record()).point_latest()
    assert (other / "latest").is_dir()
    assert not (other / "latest").is_symlink()


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", b'{"schema": "one"}'])
def test_a_broken_record_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / Files.RECORD).write_bytes(content)
    with pytest.raises(MeasurementError, match=r"run\.json"):
        open_run(tmp_path)


def test_a_record_of_another_schema_is_refused(tmp_path: Path) -> None:
    run = Run.create(tmp_path, record())
    run.record.schema = 99
    run.save()
    with pytest.raises(MeasurementError, match="schema 99; this ioflame reads schema 1"):
        open_run(run.directory)


def test_an_out_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for attempt in (check_writable, lambda out: Run.create(out, record())):
        with pytest.raises(UsageError, match="cannot be written to"):
            attempt(tmp_path / "file")


@given(st.integers(40, 120), st.lists(st.text("abc def-/", min_size=1, max_size=200), min_size=1, max_size=4))
def test_folded_checks_keep_every_word_within_the_width(width: int, values: list[str]) -> None:
    checks = [Check("name", Verdict.OK, value) for value in values]
    folded = render_checks(checks, width)
    assert folded.split() == render_checks(checks).split()
    assert fold_line("host: 2 x Model, " + "many words " * 9, 60, 9).startswith("host: 2 x Model, many")
    held = fold_line("frames: " + ", ".join(f"name{NO_BREAK}{i}%" for i in range(99)), 60, 8)
    assert NO_BREAK not in held and not re.search(r"^ *\d+%", held, re.MULTILINE) and "name 98%" in held
    units = fold_line("of each window " + "waits took 12 % and 3 us of some " * 9, width, 9)
    assert not re.search(r"\d$|^ *(%|us)", units, re.MULTILINE) and units.count("12 %") == 9
    for line in folded.splitlines():
        assert len(line.rstrip()) <= width or len(max(line.split(), key=len)) > width - 20


def test_a_functions_name_too_wide_beside_the_indent_moves_to_the_left() -> None:
    name = "rocksdb::BlockBasedTable::MaybeReadBlockAndLoadToCache<rocksdb::Block_kData>"
    lines = render_checks(
        [Check("perf and stackfold", Verdict.OK, f"names alike but {name} and more")], 100
    ).splitlines()
    assert [line for line in lines if len(line) > 100] == []
    assert lines[1].strip() == name and lines[2].index("and more") == lines[0].index("names")
    # Beside the indent there is no room for the first word either.
    assert render_checks([Check("perf and stackfold", Verdict.OK, name)], 100).split()[-1] == name


def test_later_lines_stand_below_the_first() -> None:
    lines = render_checks([Check("perf_event_paranoid", Verdict.OK, "word " * 40)], 60).splitlines()
    begins = {line.index("word") for line in lines}
    assert begins == {lines[0].index("word")} and len(lines) > 3


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_the_words_of_a_stage_leave_its_clock_in_sight(columns: int) -> None:
    stage = "offcpu window: eBPF on sched_switch and sched_waking: stacks by time off the CPU"
    shown = fitted(stage, columns)
    assert len(shown) <= max(columns - 32, 20)
    assert shown == stage or (shown.endswith("\u2026") and stage.startswith(shown[:-1]))


def test_checks_print_one_line_each_with_their_command() -> None:
    checks = [Check("a", Verdict.OK, "1"), Check("longer", Verdict.WARN, "2", "follows", "do this")]
    lines = render_checks(checks).splitlines()
    assert lines == ["     ok  a       1", "   warn  longer  2; follows; -> do this"]
    assert worst(checks) is Verdict.WARN
    assert worst([]) is Verdict.OK


def test_a_time_is_read_with_the_zone_that_records_have() -> None:
    """`fromisoformat` of Python 3.10 takes +02:00 alone."""
    zoned = created_at("2026-11-25T20:40:17+0200")
    assert zoned == created_at("2026-11-25T18:40:17+00:00") and created_at("2026-11-25T20:40:17").tzinfo is None
    with pytest.raises(ValueError, match="yesterday"):
        created_at("yesterday")
