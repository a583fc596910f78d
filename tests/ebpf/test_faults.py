"""What goes wrong: clear words, the right exit code, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ebpf.observer import loader_binary
from ground.errors import EXIT_CHECK_FAILED, EXIT_HOST, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE
from ground.results.checks import Verdict
from ground.results.io_latency import read_io_latency
from tests.conftest import Ioflame
from tests.ebpf.conftest import Disk, Start, run_fio
from tests.ebpf.test_iolat import check
from tests.places import ROOT
from tests.until import until

pytestmark = [pytest.mark.needs("co-re"), pytest.mark.needs("loop")]

_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


def in_mount_namespace(command: str) -> tuple[str, ...]:
    """A prefix that runs `command` in a mount namespace of its own first."""
    return ("unshare", "--mount", "sh", "-c", f'{command} && exec "$@"', "sh")


@pytest.fixture
def reader(loop: Disk) -> Iterator[subprocess.Popen[bytes]]:
    """A process that reads the loop device with O_DIRECT for as long as it lives."""
    code = (
        "import os,mmap,sys\n"
        f"f = os.open({loop.path!r}, os.O_RDONLY | os.O_DIRECT)\n"
        "b = mmap.mmap(-1, 4096)\n"
        "print('reading', flush=True)\n"
        "while True: os.preadv(f, [b], 8192)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"reading\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def iolat(reader: subprocess.Popen[bytes], loop: Disk, *more: str) -> list[str]:
    return ["ebpf", "iolat", "--pid", str(reader.pid), "--device", loop.path, "--json", *more]


def our_programs() -> set[int]:
    """Ids of loaded programs that bear the names of ours."""
    listed = json.loads(subprocess.run(["bpftool", "prog", "list", "-j"], capture_output=True, check=True).stdout)
    return {program["id"] for program in listed if program.get("name") in ("io_start", "io_done", "rq_issue")}


@pytest.mark.needs("bpftool")
def test_a_whole_run_leaves_no_program(ioflame: Ioflame, reader: subprocess.Popen[bytes], loop: Disk) -> None:
    before = our_programs()
    code, out, err = ioflame.run(*iolat(reader, loop, "--seconds", "1"))
    assert code == EXIT_OK, err
    latency = json.loads(out)
    assert [row["owner"] for row in latency["rows"] if row["operation"] == "read"] == ["process"]
    assert ioflame.left_behind() == []
    await_gone(before)


def await_gone(before: set[int]) -> None:
    """Programs are freed a moment after their last descriptor; those of other runs beside us end too, and new come."""
    new = our_programs() - before
    deadline = time.monotonic() + 60
    while left := new & our_programs():
        assert time.monotonic() < deadline, f"still loaded: {left}"
        time.sleep(0.1)


def test_not_root(ioflame: Ioflame, reader: subprocess.Popen[bytes], loop: Disk) -> None:
    code, out, err = ioflame.run(*iolat(reader, loop), prefix=_NOBODY)
    assert (code, out) == (EXIT_HOST, "")
    assert "CAP_BPF" in err and "run it as root" in err and "Traceback" not in err


@pytest.mark.needs("unshare")
def test_without_btf_it_says_so(ioflame: Ioflame, reader: subprocess.Popen[bytes], loop: Disk) -> None:
    hidden = in_mount_namespace("mount --bind /dev/null /sys/kernel/btf/vmlinux")
    code, _, err = ioflame.run(*iolat(reader, loop, "--backend", "co-re"), prefix=hidden)
    assert code == EXIT_HOST and "co-re" in err and "Traceback" not in err


@pytest.mark.needs("unshare")
@pytest.mark.needs("bpftrace")
def test_without_its_loader_bpftrace_is_taken(ioflame: Ioflame, reader: subprocess.Popen[bytes], loop: Disk) -> None:
    hidden = in_mount_namespace(f"mount --bind /dev/null {ROOT}/target/release/ioflame-ebpf")
    code, out, err = ioflame.run(*iolat(reader, loop, "--seconds", "1"), prefix=hidden)
    assert code in (EXIT_OK, EXIT_CHECK_FAILED) and out, err
    assert json.loads(out)["backend"] == "bpftrace"


@pytest.mark.needs("unshare")
def test_hidden_tracefs_does_not_matter(ioflame: Ioflame, reader: subprocess.Popen[bytes], loop: Disk) -> None:
    hidden = in_mount_namespace("mount -t tmpfs none /sys/kernel/tracing")
    code, out, err = ioflame.run(*iolat(reader, loop, "--seconds", "1"), prefix=hidden)
    assert code == EXIT_OK, err
    assert json.loads(out)["backend"] == "co-re"


@pytest.mark.needs("unshare")
def test_in_a_pid_namespace_of_its_own(ioflame: Ioflame, loop: Disk) -> None:
    read = (
        f"fio --name=a --filename={loop.path} --direct=1 --rw=randread --size=8m --time_based --runtime=60 >/dev/null &"
    )
    prefix = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", f'{read} "$@"; exit $?', "sh")
    arguments = ["ebpf", "iolat", "--pid", "2", "--children", "--device", loop.path, "--json", "--seconds", "1"]
    code, out, err = ioflame.run(*arguments, prefix=prefix)
    assert code == EXIT_OK, err
    assert any(row["owner"] == "process" for row in json.loads(out)["rows"])


def test_the_process_dies_in_the_middle(ioflame: Ioflame, reader: subprocess.Popen[bytes], loop: Disk) -> None:
    running = ioflame.start(*iolat(reader, loop, "--seconds", "600"))
    await_counting(running)
    reader.kill()
    out, err = running.communicate(timeout=60)
    assert running.returncode in (EXIT_OK, EXIT_CHECK_FAILED)
    assert "every process has ended" in err
    assert json.loads(out)["facts"]["processes_ended"] == 1


def await_counting(running: subprocess.Popen[str]) -> None:
    """Until it says that its window is open."""
    assert running.stderr is not None
    assert running.stderr.readline().startswith("counting for"), running.stderr.read()


def reads_of(disk: Disk) -> int:
    return int(Path("/sys/dev/block/{}:{}/stat".format(*disk.number)).read_text().split()[0])


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_window_with_what_was_counted(
    ioflame: Ioflame, reader: subprocess.Popen[bytes], loop: Disk, signum: int
) -> None:
    running = ioflame.start(*iolat(reader, loop, "--seconds", "600"))
    await_counting(running)
    before = reads_of(loop)
    until(lambda: reads_of(loop) != before)
    running.send_signal(signum)
    out, err = running.communicate(timeout=60)
    assert running.returncode == EXIT_INTERRUPTED, err
    assert json.loads(out)["rows"]


@pytest.mark.needs("bpftool")
def test_after_sigkill_nothing_is_left(ioflame: Ioflame, reader: subprocess.Popen[bytes], loop: Disk) -> None:
    before = our_programs()
    running = ioflame.start(*iolat(reader, loop, "--seconds", "600"))
    await_counting(running)
    running.kill()
    running.communicate()
    await_gone(before)
    until(lambda: not ioflame.left_behind(), every=0.05)


def test_full_maps_are_an_error(tmp_path: Path, loop: Disk) -> None:
    binary, out = loader_binary(), tmp_path / "iolat.json"
    assert binary is not None
    argv = [str(binary), "iolat", "--pid", str(os.getpid()), "--children", "--device", "{}:{}".format(*loop.number)]
    order_read, orders = os.pipe()
    answers, answer_write = os.pipe()
    argv += ["--map-entries", "64", "--control", f"{order_read},{answer_write}", "-o", str(out)]
    tracer = subprocess.Popen(argv, pass_fds=(order_read, answer_write))
    try:
        assert os.read(answers, 64).startswith(b"ready ")
        os.write(orders, b"open\n")
        os.read(answers, 64)
        options = ("--rw=randread", "--bs=4k", "--ioengine=libaio", "--iodepth=256", "--io_size=32m")
        run_fio(loop, *options)
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait()
    latency = read_io_latency(out)
    assert latency.losses["lost_start"] > 0
    assert check(latency, "iolat losses").verdict is Verdict.FAILED


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--pid", "999999999"], "there is no process 999999999"),
        (["--pid", "1", "--device", "/nowhere"], "lsblk"),
        (["--pid", "1", "--device", "/proc"], "no block device"),
        (["--pid", "1", "--seconds", "0"], "--seconds"),
        (["--pid", "1", "--backend", "python-bcc"], "garbage"),
    ],
)
def test_what_makes_no_sense(ioflame: Ioflame, arguments: list[str], words: str) -> None:
    code, _, err = ioflame.run("ebpf", "iolat", *arguments)
    assert code in (EXIT_USAGE, EXIT_HOST) and words in err and "Traceback" not in err


@pytest.mark.parametrize("command", ["ebpf iolat", "ebpf ladder", "ebpf offcpu", "ebpf runqlat", "ebpf whose", "pmp"])
@pytest.mark.parametrize("pid", ["99999999999", "gone"])
def test_a_process_that_is_not_there_is_named(ioflame: Ioflame, tmp_path: Path, command: str, pid: str) -> None:
    if pid == "gone":
        gone = subprocess.Popen(["true"])
        gone.wait()
        pid = str(gone.pid)
    out = ("--out", tmp_path / "runs") if command == "pmp" else ()
    code, _, err = ioflame.run(*command.split(), f"--pid={pid}", *out)
    assert code == EXIT_USAGE and "Traceback" not in err
    assert f"there is no process {pid}" in err
    # Nothing that is gone by the time it is read.
    assert ".log" not in err


def test_what_a_killed_command_left_goes_with_the_next(
    ioflame: Ioflame, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    pid = start("sleep").pid
    killed = ioflame.start("ebpf", "runqlat", "--pid", str(pid), "--seconds", "100")
    assert killed.stderr is not None
    assert any("counting" in line for line in iter(killed.stderr.readline, ""))
    (left,) = place.iterdir()
    # Another one at the same time leaves it alone; so does everything that is not ours.
    others = [place / name for name in ("ioflame-notes", "ioflame-1-1-x.txt", "else")]
    for path in others:
        path.mkdir()
    (place / "ioflame-4194304-1-link").symlink_to(others[0])
    assert ioflame.run("ebpf", "runqlat", "--pid", str(pid), "--seconds", "0.1")[0] == 0
    assert left.exists()
    killed.kill()
    killed.communicate()
    assert left.exists()
    assert ioflame.run("ebpf", "runqlat", "--pid", str(pid), "--seconds", "0.1")[0] == 0
    assert {path.name for path in place.iterdir()} == {*(path.name for path in others), "ioflame-4194304-1-link"}
