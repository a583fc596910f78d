"""What goes wrong goes wrong clearly: the error, the exit code, what is kept, and no process left behind."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ground.errors import EXIT_CHECK_FAILED
from ground.results.checks import Verdict
from ground.results.files import Files
from ground.results.record import RunRecord
from ground.results.run import open_run
from ground.system.held_process import HeldProcess
from tests.conftest import Ioflame
from tests.ground.system.test_held_process import ran_ns
from tests.places import ROOT
from tests.until import until

pytestmark = [pytest.mark.long, pytest.mark.needs("perf", "db_bench")]

# Makes the kernel refuse perf_event_open with EACCES to us and all our children, as perf_event_paranoid=3 does for an
# ordinary user: perf itself runs, and says what it says on such a host.
REFUSE_PERF = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def op(code, jt, jf, k): return struct.pack("HBBI", code, jt, jf, k)
program = op(0x20, 0, 0, 0) + op(0x15, 0, 1, 298) + op(0x06, 0, 0, 0x00050000 | 13) + op(0x06, 0, 0, 0x7FFF0000)
buffer = ctypes.create_string_buffer(program, len(program))
filter_ = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 4, ctypes.addressof(buffer)))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, filter_, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


def only_run(out: Path) -> RunRecord:
    (directory,) = [d for d in out.iterdir() if d.is_dir() and not d.is_symlink()]
    return open_run(directory).record


def wait_for(process: subprocess.Popen[str], text: str) -> None:
    """Reads the progress until it says `text`; no clock decides."""
    assert process.stderr is not None
    seen = ""
    for line in process.stderr:
        seen += line
        if text in line:
            return
    pytest.fail(f"{text!r} never came: {seen}")


@contextlib.contextmanager
def held(process: subprocess.Popen[str]) -> Iterator[None]:
    """Within: the process is stopped, so that it gets no further, however long that takes; its children run on."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    yield
    process.send_signal(signal.SIGCONT)


def workload_pid(db_dir: str) -> int:
    """The process whose command line reads this database; it is ours, so its directory is known to nobody else."""
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if f"--db={db_dir}".encode() in words and b"--benchmarks=readrandom,stats" in words:
            return int(entry.name)
    pytest.fail("the workload does not run")


@pytest.mark.parametrize(
    ("arguments", "says", "code"),
    [
        (["--db-bench", "/no/such/db_bench"], "DB_BENCH=/no/such/db_bench does not exist", 2),
        (["--db-bench", "/etc/passwd"], "DB_BENCH=/etc/passwd is there but cannot be executed", 2),
        (["--db-bench", "/bin/true"], "/bin/true did not run a one-operation job", 3),
        (["--workload", "readnothing"], "WORKLOAD=readnothing is not known", 2),
        (["--engine", "nosuch"], "ENGINE=nosuch is not known", 2),
        (["--scale", "huge"], "SCALE=huge is not known", 2),
        (["--config", "mmap"], "CONFIG=mmap is not known", 2),
        (["--threads", "0"], "THREADS=0 is out of range", 2),
        (["--num-keys", "1000000000000"], "would fill the disk", 3),
        (["--event", "no-such-event"], "perf cannot record no-such-event", 3),
        (["--out", "/proc/ioflame"], "OUT=/proc/ioflame cannot be written to", 2),
        (["--out", "/dev/null"], "OUT=/dev/null cannot be written to", 2),
        (["--db-dir", "/proc/db"], "0 B are free for /proc/db", 3),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(
    ioflame: Ioflame, tmp_path: Path, arguments: list[str], says: str, code: int
) -> None:
    places = [] if "--out" in arguments else ["--out", str(tmp_path / "runs")]
    places += [] if "--db-dir" in arguments else ["--db-dir", str(tmp_path / "db")]
    got, out, err = ioflame.run("profile", *places, *arguments)
    assert (got, out) == (code, ""), err
    assert says in err
    assert "fix:" in err
    assert "Traceback" not in err
    assert not list(tmp_path.rglob("run.json"))
    assert not list(tmp_path.rglob("*.sst"))


def test_a_killed_db_bench_ends_the_run_and_keeps_the_windows(
    ioflame: Ioflame, short: list[str], tmp_path: Path
) -> None:
    process = ioflame.start(*short, "--out", tmp_path)
    wait_for(process, "perf window")
    with held(process):
        os.kill(workload_pid(next(a for a in short if a.startswith("--db-dir=")).partition("=")[2]), signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert "the workload ended in the middle of the measurement: killed by SIGKILL" in err
    record = only_run(tmp_path)
    assert [w.kind for w in record.windows] == ["warm-up", "plain"]
    assert any("perf window" in what for what in record.missing)
    assert not (tmp_path / "latest").exists()


def interrupted(
    ioflame: Ioflame,
    arguments: list[str],
    within: str,
    signum: signal.Signals,
    ready: Callable[[], bool] = lambda: True,
) -> str:
    """Its last words, once it was interrupted within a stage, when `ready`, and has left no process."""
    process = ioflame.start(*arguments)
    wait_for(process, within)
    until(ready, process)
    process.send_signal(signum)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "missing:" in err
    assert ioflame.left_behind() == []
    return err


@pytest.mark.needs("unshare")
def test_a_disk_that_fills_with_the_run_is_named_with_the_command_that_shows_it(
    ioflame: Ioflame, short: list[str], tmp_path: Path
) -> None:
    mounted = f'mount -t tmpfs -o size=64k none {tmp_path} && exec "$@"'
    code, _, err = ioflame.run(*short, "--out", tmp_path, prefix=("unshare", "--mount", "sh", "-c", mounted, "sh"))
    assert code == 3, err
    assert "No space left on device" in err and f"(df -h {tmp_path}/" in err and "Traceback" not in err


def test_an_interrupt_stops_the_children_and_says_what_is_missing(
    ioflame: Ioflame, short: list[str], tmp_path: Path
) -> None:
    database = next(a for a in short if a.startswith("--db-dir=")).partition("=")[2]
    ran: list[int] = []

    def recorded() -> bool:
        """perf has written more than the processes and mappings that it begins with, and the engine has run since."""
        if any(path.stat().st_size > 1_000_000 for path in tmp_path.glob(f"2*/{Files.PERF_DATA}")):
            ran.append(ran_ns(HeldProcess(workload_pid(database))))
        return bool(ran) and ran[-1] - ran[0] > 50_000_000

    # Copies of stacks fill a megabyte within a second.
    words = [*short, "--duration=5", "--callgraph=dwarf", "--out", str(tmp_path)]
    err = interrupted(ioflame, words, "perf window", signal.SIGINT, recorded)
    record = only_run(tmp_path)
    assert [w.kind for w in record.windows] == ["warm-up", "plain"]
    assert record.missing
    (directory,) = [d for d in tmp_path.iterdir() if d.is_dir()]
    # What perf had recorded by then is whole, and what it says can be done with it works.
    assert (directory / Files.PERF_DATA).stat().st_size > 0
    assert f"ioflame analyse {directory}" in err
    code, out, err = ioflame.run("analyse", directory)
    assert code == 1 and "Missing from this run" in out, err


def test_interrupted_between_two_observers_the_later_ones_are_missing(
    ioflame: Ioflame, short: list[str], tmp_path: Path
) -> None:
    process = ioflame.start(*short, "--collect", "perf null", "--out", tmp_path)
    wait_for(process, "perf window")
    wait_for(process, "plain window")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    record = only_run(tmp_path)
    assert [w.kind for w in record.windows] == ["warm-up", "plain", "perf"]
    expected = ["the plain window after the perf window (interrupted)", "the null window (interrupted)"]
    assert record.missing == expected
    assert f"missing: {'; '.join(expected)}" in err
    assert ioflame.left_behind() == []


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_whatever_ends_it_before_perf_stops_the_children_too(
    ioflame: Ioflame, short: list[str], tmp_path: Path, signum: signal.Signals
) -> None:
    err = interrupted(ioflame, [*short, "--out", str(tmp_path)], "warm-up", signum)
    record = only_run(tmp_path)
    assert record.windows == [] and "perf windows" in record.missing[0]
    assert "ioflame analyse" not in err  # there is nothing to fold


def test_a_killed_ioflame_leaves_no_child(ioflame: Ioflame, short: list[str], tmp_path: Path) -> None:
    process = ioflame.start(*short, "--out", tmp_path)
    wait_for(process, "perf window")
    with held(process):
        workload = os.pidfd_open(workload_pid(next(a for a in short if "--db-dir=" in a).partition("=")[2]))
    process.kill()
    process.communicate()
    assert select.select([workload], [], [], 20)[0]  # a pidfd shows the end of a process that is no child of ours
    os.close(workload)
    until(lambda: not ioflame.left_behind(), every=0.1)  # perf writes its file before it ends
    assert ioflame.left_behind() == []


def test_a_second_run_on_one_database_is_refused(ioflame: Ioflame, short: list[str], tmp_path: Path) -> None:
    first = ioflame.start(*short, "--out", tmp_path / "a")
    wait_for(first, "look at the LSM tree")
    with held(first):
        code, _, err = ioflame.run(*short, "--out", tmp_path / "b")
    assert code == 2
    assert f"in use by the ioflame with pid {first.pid}" in err
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=60)
    assert first.returncode == 130


def test_a_database_of_other_settings_is_refused(ioflame: Ioflame, short: list[str], tmp_path: Path) -> None:
    code, _, err = ioflame.run(*short, "--out", tmp_path, "--num-keys", "500000")
    assert code == 2
    assert "num_keys: 400000 there, 500000 asked" in err
    assert not list(tmp_path.iterdir())


@pytest.mark.needs("seccomp")
def test_a_host_that_refuses_perf_is_refused_with_the_command_that_mends_it(ioflame: Ioflame, tmp_path: Path) -> None:
    refused = (sys.executable, "-c", REFUSE_PERF)
    code, _, err = ioflame.run("profile", "--out", tmp_path / "r", "--db-dir", tmp_path / "d", prefix=refused)
    assert code == 3, err
    assert "perf cannot record" in err
    assert "sudo sysctl kernel.perf_event_paranoid=-1" in err
    code, out, _ = ioflame.run("doctor", "--db-dir", tmp_path / "d", prefix=refused)
    assert code == 3
    assert re.search(r"^blocked +perf ", out, re.MULTILINE)
    assert re.search(r"^ +ok +db_bench ", out, re.MULTILINE)  # the doctor goes on


@pytest.mark.needs("loop")
def test_a_disk_that_fills_during_the_load(ioflame: Ioflame, tmp_path: Path) -> None:
    """A real ext4 with a real end; somebody else takes the rest of it once the load has begun."""
    disk = tmp_path / "disk"
    disk.mkdir()
    script = f"""
        truncate -s 2300M {tmp_path}/image && mkfs.ext4 -q -F -m 0 {tmp_path}/image || exit 77
        mount -o loop {tmp_path}/image {disk} || exit 77
        ( until ls {disk}/db/*.sst >/dev/null 2>&1; do sleep 0.02; done
          fallocate -l 1G {disk}/filler; fallocate -l 1G {disk}/filler2; cat /dev/zero >{disk}/rest ) 2>/dev/null &
        filler=$!
        "$@"
        code=$?
        kill $filler 2>/dev/null
        exit $code
    """
    sizes = ["--num-keys=1500000", "--scale=smoke"]
    code, _, err = ioflame.run(
        "profile", *sizes, "--db-dir", disk / "db", "--out", tmp_path / "runs",
        prefix=("unshare", "-m", "bash", "-c", script, "bash"),
    )  # fmt: skip
    assert code == 3, err
    assert "is full" in err
    assert "NUM_KEYS" in err
    record = only_run(tmp_path / "runs")
    assert [command.name for command in record.commands] == ["db_bench load"]
    assert record.missing
    (tmp_path / "image").unlink()


def test_a_database_on_no_disk_is_refused(ioflame: Ioflame, tmp_path: Path) -> None:
    code, _, err = ioflame.run("profile", "--db-dir", "/dev/shm/ioflame-test/db", "--out", tmp_path, "--scale", "smoke")
    assert code == 3, err
    assert "is on no block device" in err
    assert not Path("/dev/shm/ioflame-test").exists()


# Hides the loader, as if clang had been missing at set-up.
HIDE_LOADER = f"mount --bind /dev/null {ROOT}/target/release/ioflame-ebpf"
UNBUILT = ("unshare", "--mount", "sh", "-c", f'{HIDE_LOADER} && exec "$@"', "sh")


@pytest.mark.needs("co-re", "unshare")
def test_an_observer_that_cannot_watch_leaves_the_rest_whole(
    ioflame: Ioflame, short: list[str], tmp_path: Path
) -> None:
    words = [*short, "--duration=1", "--collect=perf offcpu", "--callgraph=fp", f"--out={tmp_path}"]
    code, text, err = ioflame.run(*words, prefix=UNBUILT)
    assert code == EXIT_CHECK_FAILED, err
    record = open_run(tmp_path / "latest").record
    (check,) = [check for check in record.checks if check.name == "offcpu"]
    assert check.verdict is Verdict.FAILED  # it was asked for by name
    assert "make setup" in check.mend
    assert f"-> {check.mend}" in text
    # The rest: what perf recorded is folded whole, and every window that could be measured was.
    (folded,) = [check for check in record.checks if check.name == "folded = perf report"]
    assert folded.verdict is Verdict.OK
    kinds = [window.kind for window in record.windows]
    assert [kind for kind in kinds if kind not in ("warm-up", "plain")] == ["perf"]
    assert record.missing == []
