"""What goes wrong goes wrong clearly: the error, the exit code, what is kept, and no process left behind."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ground.errors import EXIT_CHECK_FAILED
from ground.results.checks import Verdict
from ground.results.files import Files
from ground.results.pmp import read_pmp
from ground.results.record import RunRecord
from ground.results.run import open_run
from ground.system.descendants import having_open
from tests.conftest import Ioflame
from tests.e2e.commands import db_bench_of, held, measured, script, wait_for
from tests.ioflame.asked import asked
from tests.places import ROOT
from tests.recorded_run import assert_reported
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


# A word of the client that reads, among the children of a profile.
READS = "--benchmarks=readrandom,stats"


def only_run(out: Path) -> RunRecord:
    (directory,) = [d for d in out.iterdir() if d.is_dir() and not d.is_symlink()]
    return open_run(directory).record


@pytest.fixture
def unlocked(loaded: Path) -> Iterator[None]:
    """Afterwards no process has the database open."""
    yield
    everybody = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    assert having_open(loaded / "LOCK", everybody) == []


def wrapper(path: Path, program: str) -> Path:
    """Starts the program as its child, and ends with its exit code."""
    return script(path, f'{shutil.which(program)} "$@"\nexit $?')


@pytest.mark.usefixtures("unlocked")
def test_what_is_measured_is_the_engine_and_not_its_wrapper(short: list[str], tmp_path: Path) -> None:
    wrapper(tmp_path / "bin" / "perf", "perf")
    db_bench = wrapper(tmp_path / "bin" / "db_bench", "db_bench")
    path = ("env", f"PATH={tmp_path}/bin:{os.environ['PATH']}")
    words = [*short, "--db-bench", str(db_bench), "--collect", "perf pmp", "--callgraph", "fp"]
    done = measured(tmp_path / "runs", *words, prefix=path)
    record = done.record
    started = {command.name: command for command in record.commands}
    assert record.pid != started["db_bench readrandom"].pid
    assert started["perf record"].argv[0] == f"{tmp_path}/bin/perf"
    assert read_pmp(done.run.directory).pid == record.pid
    # A shell that waits reads nothing: these are the engine's, whose queries read a block each.
    for counted in (w.counters for w in record.windows if w.kind == "plain"):
        assert counted.process_read_bytes == pytest.approx(counted.read_calls * 8192, rel=0.05)
        assert counted.read_calls > 0
    assert_reported(record)


@pytest.mark.usefixtures("unlocked")
def test_an_interrupt_stops_the_engine_behind_its_wrapper_and_keeps_what_was_recorded(
    ioflame: Ioflame, capsys: pytest.CaptureFixture[str], short: list[str], tmp_path: Path
) -> None:
    db_bench, runs = wrapper(tmp_path / "bin" / "db_bench", "db_bench"), tmp_path / "runs"
    # Copies of stacks fill a megabyte with the first hundred samples.
    words = ("--db-bench", db_bench, "--out", runs, "--duration=20", "--config=iobuf", "--callgraph=dwarf")
    process = ioflame.start(*short, *words, "--collect=perf null")
    wait_for(process, "rounds of")
    until(lambda: any(w.round == 3 and w.kind == "perf" for w in only_run(runs).windows), process)
    # perf has written more than the processes and mappings that it begins with.
    until(lambda: any(path.stat().st_size > 1_000_000 for path in runs.glob(f"2*/{Files.PERF_DATA}")), process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130 and "missing:" in err, err
    assert ioflame.left_behind() == []
    record = only_run(runs)
    whole = max(window.round for window in record.windows if window.kind == "null")
    assert whole >= 3 and any(what.startswith("rounds after the first ") for what in record.missing)
    (directory,) = runs.iterdir()
    # The page of perf's first turn is there, and says that it is.
    page = (directory / Files.REPORT).read_text(encoding="utf-8")
    assert "First look: readrandom, of the first " in err and f"{directory / Files.REPORT}" in err
    assert "everything after the first " in page and page.rstrip().endswith("</html>")
    # What perf had recorded by then is whole, and what is said to be possible with it works.
    assert f"ioflame analyse {directory}" in err
    code, out, err = asked(capsys, "analyse", directory)
    assert code == 1 and "Missing from this run" in out, err
    assert "everything after the first " not in (directory / Files.REPORT).read_text(encoding="utf-8")
    # Its figures are of the rounds that it had.
    analysed = only_run(runs)
    assert {cost.kind: cost.qps_ratio.n >= 3 for cost in analysed.costs} == {"perf": True, "null": True}
    assert analysed.intervals["cpuPer"].n >= 3
    assert_reported(analysed)


def test_a_terminal_that_is_closed_before_perf_stops_the_children_too(
    ioflame: Ioflame, short: list[str], tmp_path: Path
) -> None:
    process = ioflame.start(*short, "--out", tmp_path)
    wait_for(process, "warm-up")
    process.send_signal(signal.SIGHUP)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130 and "missing:" in err, err
    assert ioflame.left_behind() == []
    record = only_run(tmp_path)
    assert record.windows == [] and "perf windows" in record.missing[0]
    assert "ioflame analyse" not in err  # there is nothing to fold


def test_a_killed_db_bench_ends_the_run_and_keeps_the_windows(
    ioflame: Ioflame, short: list[str], tmp_path: Path
) -> None:
    process = ioflame.start(*short, "--duration=20", "--out", tmp_path)
    wait_for(process, "rounds of")
    until(lambda: any(what.startswith("rounds after the first ") for what in only_run(tmp_path).missing), process)
    with held(process):
        os.kill(db_bench_of(process, READS), signal.SIGKILL)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1, err
    assert "the workload ended in the middle of the measurement: killed by SIGKILL" in err
    record = only_run(tmp_path)
    assert {w.kind for w in record.windows} == {"warm-up", "plain", "perf"}
    assert any(what.startswith("rounds after the first ") for what in record.missing)
    assert not (tmp_path / "latest").exists()


# What db_bench does with the command line of the workload; the steps before it are left to the real one.
EARLY = {
    "before its first query": "echo 'one line of garbage'; exit 0",
    "s of queries": f'{shutil.which("db_bench")} "$@" --duration=3; echo "one line of garbage"; exit 0',
}


@pytest.mark.parametrize("when", EARLY)
def test_an_engine_that_ends_early_is_blamed_with_its_own_words(
    ioflame: Ioflame, short: list[str], tmp_path: Path, when: str
) -> None:
    real = shutil.which("db_bench")
    fake = script(
        tmp_path / "fake", f'case "$*" in *benchmarks=readrandom,stats*) {EARLY[when]};; esac\nexec {real} "$@"'
    )
    code, _, err = ioflame.run(*short, "--db-bench", fake, "--out", tmp_path / "runs")
    assert code == 1, err
    assert "db_bench readrandom ended " in err and f"{when}, with exit code 0; it was asked for" in err
    assert "one line of garbage" in err
    assert f"to see it again: {fake} " in err
    assert "too busy" not in err


def test_an_engine_that_stands_still_fails_the_run(ioflame: Ioflame, short: list[str], tmp_path: Path) -> None:
    """Stopped in the first window, and let go only to be ended."""
    process = ioflame.start(*short, "--collect", "pmp", "--out", tmp_path)
    wait_for(process, "rounds of")
    with held(process):
        os.kill(db_bench_of(process, READS), signal.SIGSTOP)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 1, err
    checks = {check.name: check for check in only_run(tmp_path).checks}
    assert checks["queries"].verdict is Verdict.FAILED
    count = len([window for window in only_run(tmp_path).windows if window.kind != "warm-up"])
    assert f"in {count} of {count} windows: baseline, pmp" in checks["queries"].value
    assert "the client did not exit by itself" in checks["compaction in the log"].means
    assert "this build prints other statistics" not in out


# Root may write into any directory, but not on a file system that is mounted read-only.
READ_ONLY = "mount --bind {db} {db} && mount -o remount,bind,ro {db}"
SAYS_READ_ONLY = ("{db} cannot be written to", "DB_DIR=<a directory you own>")


@pytest.mark.needs("unshare")
@pytest.mark.parametrize(
    ("words", "mounted", "says"),
    [
        (["profile"], READ_ONLY, SAYS_READ_ONLY),
        (["experiment", "io-efficiency"], READ_ONLY, SAYS_READ_ONLY),
        (["experiment", "wiki"], "mount -t tmpfs none /sys/fs/cgroup", ["no memory limit:"]),
    ],
)
def test_what_the_host_does_not_let_us_do_is_refused_before_anything_is_loaded(
    ioflame: Ioflame, tmp_path: Path, words: list[str], mounted: str, says: Sequence[str]
) -> None:
    db = tmp_path / "db"
    db.mkdir()
    code, out, err = ioflame.run(
        *words, "--scale=smoke", "--db-dir", db, "--out", tmp_path / "out",
        prefix=("unshare", "-m", "bash", "-c", f'{mounted.format(db=db)} && exec "$@"', "bash"),
    )  # fmt: skip
    assert (code, out, "Traceback" in err) == (3, "", False), err
    assert all(one.format(db=db) in err for one in says), err
    assert not (tmp_path / "out").exists() and not list(db.iterdir())


@pytest.mark.needs("seccomp")
def test_a_host_that_refuses_perf_is_refused_with_the_command_that_mends_it(ioflame: Ioflame, tmp_path: Path) -> None:
    prefix = (sys.executable, "-c", REFUSE_PERF)
    code, _, err = ioflame.run("profile", "--out", tmp_path / "r", "--db-dir", tmp_path / "d", prefix=prefix)
    assert code == 3, err
    assert "perf cannot record" in err and "sudo sysctl kernel.perf_event_paranoid=-1" in err
    code, out, _ = ioflame.run("doctor", "--db-dir", tmp_path / "d", prefix=prefix)
    assert code == 3
    assert re.search(r"^blocked +perf ", out, re.MULTILINE)
    assert re.search(r"^ +ok +db_bench ", out, re.MULTILINE)  # the doctor goes on


# Hides the loader, as if clang had been missing at set-up.
HIDE_LOADER = f"mount --bind /dev/null {ROOT}/target/release/ioflame-ebpf"
UNBUILT = ("unshare", "--mount", "sh", "-c", f'{HIDE_LOADER} && exec "$@"', "sh")


@pytest.mark.needs("co-re", "unshare")
def test_an_observer_that_cannot_watch_leaves_the_rest_whole(short: list[str], tmp_path: Path) -> None:
    done = measured(tmp_path, *short, "--duration=1", "--collect=perf offcpu", "--callgraph=fp", prefix=UNBUILT)
    check = done.checks["offcpu"]
    assert (done.code, check.verdict) == (EXIT_CHECK_FAILED, Verdict.FAILED)  # it was asked for by name
    assert "make setup" in check.mend
    assert " ".join(f"-> {check.mend}".split()) in " ".join(done.out.split())
    # The rest: what perf recorded is folded whole, and every window that could be measured was.
    assert_reported(done.record)
    assert {window.kind for window in done.record.windows} == {"warm-up", "plain", "perf"}
    assert done.record.missing == []
