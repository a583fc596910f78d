"""Records and files of runs: written whole, read with care where somebody else may write too, printed in columns."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ground.errors import HostError, MeasurementError, UsageError
from ground.results.checks import Check, Verdict, render_checks, worst
from ground.results.created import created_at
from ground.results.files import Files
from ground.results.record import RunRecord, Window
from ground.results.run import Run, check_writable, open_run
from ground.system.atomic_files import read_json, read_whole, write_json, write_whole
from ground.system.process import Children
from ground.text.columns import NO_BREAK, fold_line
from ground.text.moving_line import fitted
from ioflame.cli import main
from tests.records import counters, run_record
from tests.viz import observers
from workloads.checks import disk_checks
from workloads.seeds import SeedLedger

WRITERS: dict[str, Callable[[Path], object]] = {
    "OUT": check_writable,
    "DB_DIR": lambda directory: list(disk_checks(directory)),
    "result": lambda directory: write_whole(directory / "result", b"new"),
    "seeds": lambda directory: SeedLedger(directory).take("load", 1),
}


def made() -> RunRecord:
    return run_record(threads=2, options={"scale": "smoke"})


@pytest.mark.parametrize("writer", WRITERS)
def test_nothing_is_written_through_a_link_that_waits_under_a_name_of_ours(tmp_path: Path, writer: str) -> None:
    precious = tmp_path / "precious"
    precious.write_text("of root")
    place = tmp_path / "place"
    place.mkdir()
    pid = os.getpid()
    names = [f".ioflame-{pid}", f".ioflame-direct-{pid}", "result.part", f"result.{pid}.part", "ioflame-seeds.part"]
    for name in [*names, f"ioflame-seeds.json.{pid}.part"]:
        (place / name).symlink_to(precious)
    WRITERS[writer](place)
    assert precious.read_text() == "of root"


def test_the_probes_leave_nothing_and_find_what_works(tmp_path: Path) -> None:
    check_writable(tmp_path)
    found = {check.name: check.verdict for check in disk_checks(tmp_path)}
    assert found["O_DIRECT"] in (Verdict.OK, Verdict.BLOCKED)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("no_umask")
def test_a_run_is_nobody_elses_to_read_whatever_the_umask(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "runs", made())
    assert run.directory.stat().st_mode & 0o777 == 0o700


@pytest.mark.long
@pytest.mark.needs("perf")
@pytest.mark.usefixtures("no_umask")
def test_a_recording_with_copies_of_stacks_is_its_owners_alone(children: Children, tmp_path: Path) -> None:
    """perf makes it so itself, whatever the umask: said here, because a profile relies on it."""
    data = tmp_path / Files.PERF_DATA
    argv = ["perf", "record", "-q", "-N", "-e", "cpu-clock", "--call-graph", "dwarf", "-o", str(data), "true"]
    assert children.start("perf", argv).wait(60) == 0
    assert data.stat().st_mode & 0o777 == 0o600


@pytest.mark.needs("unshare")
@pytest.mark.parametrize("small_disk", ["64k"], indirect=True)
def test_a_full_disk_leaves_what_was_there_and_is_named_with_the_command_that_shows_it(small_disk: Path) -> None:
    write_whole(small_disk / "file", b"old")
    with pytest.raises(HostError, match="file: No space left on device") as caught:
        write_whole(small_disk / "file", bytes(1 << 20))
    assert f"df -h '{small_disk}'" in caught.value.mend
    assert [entry.name for entry in small_disk.iterdir()] == ["file"]
    assert (small_disk / "file").read_bytes() == b"old"


@pytest.mark.needs("unshare")
@pytest.mark.parametrize("small_disk", ["64k"], indirect=True)
def test_a_command_on_a_full_disk_ends_with_that_error(small_disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run.create(small_disk, made())
    assert main(["report", str(run.directory)]) == 3  # a page of some hundred KB
    err = capsys.readouterr().err
    assert "report.html: No space left on device" in err and "Traceback" not in err
    assert [entry.name for entry in run.directory.iterdir()] == [Files.RECORD]


def test_a_device_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="is no regular file"):
        write_whole(tmp_path / "pipe", b"")
    assert (tmp_path / "pipe").is_fifo()


def test_what_is_no_file_of_a_run_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 40)
    for name in ("pipe", "zero"):
        with pytest.raises(MeasurementError, match="is no regular file"):
            read_whole(tmp_path / name)
    with pytest.raises(MeasurementError, match=r"holds 1\.0 TiB"):
        read_whole(tmp_path / "huge")


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1]", b"[" * 100_000, b"\xff\xfe", b'{"schema": "one"}', b'{"a": 1e999}', b"{}" * 2]
)
def test_json_of_another_form_is_an_error_with_its_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "result.json").write_bytes(content)
    with pytest.raises(MeasurementError, match=r"result\.json is not a thing"):
        read_json(tmp_path / "result.json", list[list[int]], "a thing")
    (tmp_path / Files.RECORD).write_bytes(content)
    with pytest.raises(MeasurementError, match=r"run\.json is not a run record"):
        open_run(tmp_path)


def test_a_name_that_is_no_utf_8_is_refused_by_that_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'/runs/\\udcff' is no UTF-8"):
        write_json(tmp_path / "run.json", {"out": os.fsdecode(b"/runs/\xff")})
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_is_a_link_to_nothing_is_there_already(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.folded").write_text("a;b 1\n")
    (tmp_path / "out.svg").symlink_to(tmp_path / "elsewhere")
    out = str(tmp_path / "out.svg")
    for command in (["flamegraph", str(tmp_path / "a.folded"), "-o"], ["ebpf", "iolat", "--pid", "1", "--out"]):
        assert main([*command, out]) == 2
        assert "is there already" in capsys.readouterr().err
        assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    "value", [observers.ladder(), observers.io_latency(), observers.off_cpu(), observers.run_queue()]
)
def test_a_result_of_another_schema_is_refused_and_one_of_before_there_was_any_is_read(
    tmp_path: Path, value: object
) -> None:
    path = tmp_path / "result.json"
    write_json(path, value)
    content = json.loads(path.read_text())
    assert content.pop("schema") == 1
    path.write_text(json.dumps(content))
    assert read_json(path, type(value)) == value
    path.write_text(json.dumps({**content, "schema": 2}))
    with pytest.raises(MeasurementError, match=r"has schema 2; this ioflame reads schema 1"):
        read_json(path, type(value))


def test_a_record_reads_back_as_it_was_written(tmp_path: Path) -> None:
    run = Run.create(tmp_path, made())
    run.record.windows.append(Window("plain", 1, 5_000_000_001, counters(queries=12.5), "note"))
    run.record.checks.append(Check("steal", Verdict.WARN, "3 %", "noisy", "move"))
    run.save()
    assert open_run(run.directory).record == run.record
    assert run.record.windows[0].seconds == 5.0


def test_two_runs_in_one_second_get_two_directories(tmp_path: Path) -> None:
    directories = {Run.create(tmp_path, made()).directory for _ in range(3)}
    assert len(directories) == 3
    assert all(d.name.endswith(("-readrandom-t2", "-readrandom-t2-2", "-readrandom-t2-3")) for d in directories)


def test_latest_follows_the_newest_and_spares_what_is_not_ours(tmp_path: Path) -> None:
    for _ in range(2):
        run = Run.create(tmp_path, made())
        run.point_latest()
        assert (tmp_path / "latest").resolve() == run.directory
    other = tmp_path / "other"
    (other / "latest").mkdir(parents=True)
    Run.create(other, made()).point_latest()
    assert (other / "latest").is_dir()
    assert not (other / "latest").is_symlink()


def test_a_record_of_another_schema_is_refused(tmp_path: Path) -> None:
    run = Run.create(tmp_path, made())
    run.record.schema = 99
    run.save()
    with pytest.raises(MeasurementError, match="schema 99; this ioflame reads schema 1"):
        open_run(run.directory)


def test_an_out_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for attempt in (check_writable, lambda out: Run.create(out, made())):
        with pytest.raises(UsageError, match="cannot be written to"):
            attempt(tmp_path / "file")


@settings(max_examples=50)
@given(st.integers(40, 120), st.lists(st.text("abc def-/", min_size=1, max_size=200), min_size=1, max_size=4))
def test_folded_checks_keep_every_word_within_the_width(width: int, values: list[str]) -> None:
    checks = [Check("name", Verdict.OK, value) for value in values]
    folded = render_checks(checks, width)
    assert folded.split() == render_checks(checks).split()
    for line in folded.splitlines():
        assert len(line.rstrip()) <= width or len(max(line.split(), key=len)) > width - 20


def test_numbers_stay_with_their_units_and_names_with_theirs() -> None:
    assert fold_line("host: 2 x Model, " + "many words " * 9, 60, 9).startswith("host: 2 x Model, many")
    held = fold_line("frames: " + ", ".join(f"name{NO_BREAK}{i}%" for i in range(99)), 60, 8)
    assert NO_BREAK not in held and not re.search(r"^ *\d+%", held, re.MULTILINE) and "name 98%" in held
    for width in range(40, 121):
        units = fold_line("of each window " + "waits took 12 % and 3 us of some " * 9, width, 9)
        assert not re.search(r"\d$|^ *(%|us)", units, re.MULTILINE) and units.count("12 %") == 9


def test_a_functions_name_too_wide_beside_the_indent_moves_to_the_left() -> None:
    name = "rocksdb::BlockBasedTable::MaybeReadBlockAndLoadToCache<rocksdb::Block_kData>"
    lines = render_checks(
        [Check("perf and stackfold", Verdict.OK, f"names alike but {name} and more")], 100
    ).splitlines()
    assert [line for line in lines if len(line) > 100] == []
    assert lines[1].strip() == name and lines[2].index("and more") == lines[0].index("names")
    # Beside the indent there is no room for the first word either.
    assert render_checks([Check("perf and stackfold", Verdict.OK, name)], 100).split()[-1] == name


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
