"""Files that are written whole and read with care, in directories where somebody else may write too."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ground.errors import HostError, MeasurementError, UsageError
from ground.results.checks import Verdict
from ground.results.files import Files
from ground.results.run import Run, check_writable, open_run
from ground.system.atomic_files import read_json, read_whole, write_json, write_whole
from ground.system.process import Children
from ioflame.cli import main
from tests.conftest import Ioflame
from tests.viz import observers
from tests.viz.runs import record
from workloads.checks import disk_checks
from workloads.seeds import SeedLedger

WRITERS: dict[str, Callable[[Path], object]] = {
    "OUT": check_writable,
    "DB_DIR": lambda directory: list(disk_checks(directory)),
    "result": lambda directory: write_whole(directory / "result", b"new"),
    "seeds": lambda directory: SeedLedger(directory).take("load", 1),
}


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


def test_a_run_is_nobody_elses_to_read_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        run = Run.create(tmp_path / "runs", record())
    finally:
        os.umask(before)
    assert run.directory.stat().st_mode & 0o777 == 0o700


@pytest.mark.needs("perf")
def test_a_recording_with_copies_of_stacks_is_its_owners_alone(tmp_path: Path) -> None:
    """perf makes it so itself, whatever the umask: said here, because a profile relies on it."""
    before = os.umask(0)
    try:
        with Children() as children:
            data = tmp_path / Files.PERF_DATA
            argv = ["perf", "record", "-q", "-N", "-e", "cpu-clock", "--call-graph", "dwarf", "-o", str(data), "true"]
            assert children.start("perf", argv).wait(60) == 0
    finally:
        os.umask(before)
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
def test_a_command_on_a_full_disk_ends_with_that_error(ioflame: Ioflame, small_disk: Path) -> None:
    run = Run.create(small_disk, record())
    code, _, err = ioflame.run("report", run.directory)  # a page of some hundred KB
    assert code == 3, err
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


@pytest.mark.parametrize("content", [b"", b"[" * 100_000, b"\xff\xfe", b'{"a": 1e999}', b"{}" * 2])
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
