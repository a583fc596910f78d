"""A command of the user's, started by `ioflame run`: its output and exit code are its own; each benchmark is a run.

One command with three benchmarks is shared by most tests here; another by those of a script.
"""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from ground.results.categories import read_categories, read_operations
from ground.results.checks import Verdict
from ground.results.command_run import CommandRun
from ground.results.files import Files
from ground.results.run import Run, open_run
from tests.conftest import Ioflame
from tests.e2e.commands import measured, script
from tests.ioflame.asked import asked
from tests.places import ROOT
from tests.until import until

pytestmark = [pytest.mark.long, pytest.mark.needs("perf", "db_bench", "co-re")]

KEYS = 400_000
# `overwrite    :  4.1 micros/op 241234 ops/sec 10.0 seconds 2412340 operations;`
_CLOSING = re.compile(r"^(\w+)\s*:\s+[\d.]+ micros/op (\d+) ops/sec [\d.]+ seconds (\d+) operations;", re.MULTILINE)


@dataclass(frozen=True)
class Ended:
    """What `ioflame run` ended with, what it printed, and what it left in `home`."""

    code: int
    out: str
    err: str
    home: CommandRun
    runs: dict[str, Run]

    @property
    def closing(self) -> dict[str, tuple[int, int]]:
        """Of each benchmark operations a second and in all, as db_bench itself says them."""
        return {name: (int(rate), int(done)) for name, rate, done in _CLOSING.findall(self.out)}


def ended(place: Path, *words: str, options: tuple[str, ...] = ()) -> Ended:
    code, out, err = Ioflame().run("run", "--out", place / "runs", *options, "--", *words)
    (home,) = (CommandRun.open(path) for path in (place / "runs").iterdir() if not path.is_symlink())
    runs = [open_run(home.directory / name) for name in home.record.runs]
    return Ended(code, out, err, home, {run.record.workload: run for run in runs})


def bench(place: Path, benchmarks: str, *more: str) -> list[str]:
    given = [f"--benchmarks={benchmarks}", f"--db={place}/db", f"--num={KEYS}", "--compression_type=none"]
    return ["db_bench", *given, *more]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Load, write and read with a writer beside: in one command, which knows nothing of ioflame."""
    place = tmp_path_factory.mktemp("three")
    words = bench(place, "fillseq,stats,overwrite,readwhilewriting", "--duration=24", "--threads=2")
    words += ["--write_buffer_size=4194304", "--use_direct_reads", "--benchmark_write_rate_limit=4000000"]
    return ended(place, "nice", "-n", "0", *words)


@pytest.mark.xdist_group("three")
def test_what_it_prints_and_returns_is_its_own(three: Ended) -> None:
    assert three.code in (0, 1), three.err
    assert set(three.closing) == {"fillseq", "overwrite", "readwhilewriting"}
    assert "P99" in three.out, "--histogram was added"
    assert "Checks" not in three.out and "ioflame" not in three.out
    assert "added to the command: --report_file=" in three.err
    assert three.home.record.end == "exit code 0"


@pytest.mark.xdist_group("three")
def test_each_benchmark_that_lives_long_enough_is_a_run_with_a_line_of_the_table(three: Ended) -> None:
    assert {"overwrite", "readwhilewriting"} <= three.runs.keys() <= {"fillseq", "overwrite", "readwhilewriting"}
    if "fillseq" not in three.runs:
        assert any(line.startswith("fillseq: ended") for line in three.home.record.left_out)
    for name, run in three.runs.items():
        assert run.path(Files.REPORT).exists() and run.path(Files.SUMMARY).exists()
        assert re.search(rf"^\S+-{name}-t2 +[\d,]+ ", three.err, re.MULTILINE), three.err
    overwrite = three.runs["overwrite"].record
    # On a host where what watches takes long to start, the last have no window; which is said.
    kinds, notes = [w.kind for w in overwrite.windows], overwrite.target.notes if overwrite.target is not None else []
    assert kinds[:3] == ["warm-up", "plain", "perf"]
    assert all("plain" in pair for pair in pairwise(kinds[1:])), kinds
    missing = [kind for kind in ("iolat", "offcpu") if kind not in kinds]
    assert bool(missing) == any(f"too short for {', '.join(missing)}:" in note for note in notes)
    assert (three.home.directory.parent / "latest").resolve() == three.runs["readwhilewriting"].directory


@pytest.mark.xdist_group("three")
@pytest.mark.parametrize("name", ["overwrite", "readwhilewriting"])
def test_its_windows_are_a_part_of_what_db_bench_counts(three: Ended, name: str) -> None:
    run = three.runs[name]
    windows = [window for window in run.record.windows if window.kind != "warm-up"]
    queries = [window.counters.queries or 0.0 for window in windows]
    assert all(queries)
    # db_bench's closing line of a benchmark with a writer is of its readers.
    counted = [w.counters.operations.get("get", w.counters.queries or 0.0) for w in windows]
    assert 0 < sum(counted) <= three.closing[name][1]
    # A report a second: each has a whole one, up to half a second after its begin and before its end.
    assert all(window.seconds >= 0.5 for window in windows[:-1])
    told = run.record.target
    assert told is not None and told.client_qps is not None
    if name == "overwrite":
        # Its last queries have no report, and we see its end later than it does.
        assert told.client_qps.low <= three.closing[name][0]
    metrics = run.record.metrics
    assert metrics["cpuPer"] * metrics["qps"] == pytest.approx(metrics["cores"] * 1e6, rel=1e-6)
    assert ("rx.lat" in metrics) == (name == "overwrite"), "of readers and a writer together there is none"
    for window in windows:
        groups = window.counters.groups
        assert sum(own.cpu_ns for own in groups.values()) == window.counters.cpu_ns


@pytest.mark.xdist_group("three")
def test_of_writes_the_tables_name_the_log_flushes_and_compactions(three: Ended) -> None:
    run = three.runs["overwrite"]
    rows = {row.name: row.share for row in read_categories(run.directory).rows}
    assert {"flush", "compaction"} <= rows.keys() and rows["WAL"] > 0 and rows["memtable insert"] > 0, rows
    assert sum(rows.values()) == pytest.approx(100, abs=0.01)
    assert run.record.target is not None
    assert len(run.record.target.groups["writer"]) == 2 and run.record.target.groups["flush"]
    assert run.record.build.startswith("rocksdb ") and run.record.database.description is not None
    assert "O_DIRECT" in run.record.database.description


@pytest.mark.xdist_group("three")
def test_readers_and_the_writer_are_told_apart_and_counted_apart(three: Ended) -> None:
    run = three.runs["readwhilewriting"]
    assert run.record.target is not None
    assert {name: len(run.record.target.groups[name]) for name in ("reader", "writer")} == {"reader": 2, "writer": 1}
    kinds = {one.name: one for one in read_operations(run.directory)}
    assert {"get", "write"} <= kinds.keys()
    plain = [window for window in run.record.windows if window.kind == "plain"]
    writes = sum(window.counters.operations["write"] for window in plain)
    # The report counts both, db_bench's closing line the readers alone.
    report = (three.home.directory / "db_bench.report.csv").read_text(encoding="ascii").splitlines()[1:]
    reads, every = three.closing["readwhilewriting"][1], sum(int(line.split(",")[1]) for line in report)
    # The last second has no line.
    assert 0 < writes <= every - reads + max(int(line.split(",")[1]) for line in report)


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """A script that starts one db_bench after the other, one of them without a report, and fails."""
    place = tmp_path_factory.mktemp("scripted")
    report = ["--report_interval_seconds=1", "--report_file=own.csv"]
    load = shlex.join(bench(place, "fillseq"))
    reads = shlex.join(bench(place, "readrandom", "--use_existing_db", "--duration=30", *report))
    silent = shlex.join(bench(place, "overwrite", "--use_existing_db", "--duration=30"))
    text = f"cd {shlex.quote(str(place))}\n{load} >/dev/null 2>&1\n{reads} >reads.log\n{silent} >writes.log\n"
    path = script(place / "bench.sh", f"{text}echo done\nexit 3")
    return ended(place, "bash", str(path), options=("--collect=perf",))


def test_each_db_bench_of_a_script_is_a_run_and_the_script_is_left_alone(scripted: Ended) -> None:
    assert (scripted.code, scripted.out) == (3, "done\n"), scripted.err
    assert {"readrandom", "overwrite"} <= scripted.runs.keys()
    assert (
        "is a db_bench without a report" in scripted.err and "--count-symbol rocksdb::DBImpl::WriteImpl" in scripted.err
    )
    assert "qps" in scripted.runs["readrandom"].record.metrics
    assert "qps" not in scripted.runs["overwrite"].record.metrics
    assert scripted.runs["overwrite"].record.metrics["cores"] > 0


# ---- what goes wrong -------------------------------------------------------------------------------------------------
def test_a_command_that_ignores_an_interrupt_is_killed(ioflame: Ioflame, tmp_path: Path) -> None:
    ready, runs = tmp_path / "ready", tmp_path / "runs"
    deaf = f"trap '' INT TERM HUP; touch {ready}; while :; do :; done"
    watching = ioflame.start("run", "--out", runs, "--", "bash", "-c", deaf)
    until(ready.exists, watching)
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=120)
    assert watching.returncode == 130 and "did not end within 10 s, and was killed" in err
    assert list(runs.iterdir()) == []


# The command runs, and ioflame does not know it yet.
_INTERRUPTED_AS_IT_STARTS = """
import os, signal, sys, time
from ground.system import process
from ioflame.cli import main

supervised = process._supervised

def start(*words):
    child = supervised(*words)
    while not os.path.exists(sys.argv[2]):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)
    return child

process._supervised = start
sys.exit(main(["run", "--out", sys.argv[1], "--", "bash", "-c", sys.argv[3]]))
"""


def test_an_interrupt_while_the_command_starts_reaches_it(tmp_path: Path) -> None:
    runs, ready = tmp_path / "runs", tmp_path / "ready"
    script = f"trap 'echo caught; exit 9' INT; touch {ready}; while :; do :; done"
    argv = [sys.executable, "-c", _INTERRUPTED_AS_IT_STARTS, str(runs), str(ready), script]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)
    assert (ended.returncode, ended.stdout) == (130, "caught\n") and "bash is sent SIGINT" in ended.stderr, ended.stderr
    assert list(runs.iterdir()) == []


def typed(place: Path, script: str, keys: bytes, shown: bytes) -> tuple[int, bytes]:
    """`ioflame run` of a script on a terminal of its own, where keys are pressed once `shown` is to be seen."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        argv = [sys.executable, "-m", "ioflame.cli", "run", "--out", str(place), "--", "bash", "-c", script]
        os.execv(sys.executable, argv)
    seen, pressed = b"", False
    with contextlib.suppress(OSError):  # at its end
        while select.select([terminal], [], [], 120)[0] and (more := os.read(terminal, 4096)):
            seen += more
            if shown in seen and not pressed:
                pressed = True
                os.write(terminal, keys)
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), seen


def test_a_command_may_read_from_the_terminal_and_ctrl_c_reaches_it(tmp_path: Path) -> None:
    code, seen = typed(tmp_path, "echo ask; read -r word; echo got $word; exit 7", b"word\n", b"ask")
    assert code == 7 and b"got word" in seen
    code, seen = typed(tmp_path, "trap 'echo caught; exit 9' INT; echo loop; while :; do :; done", b"\x03", b"loop")
    assert code == 130 and b"caught" in seen


def test_an_interrupt_within_a_window_keeps_what_was_recorded(
    ioflame: Ioflame, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = bench(tmp_path, "fillseq,readrandom", "--duration=300")
    watching = ioflame.start("run", "--warm-up=1", "--out", tmp_path / "runs", "--", *words)

    def rounds() -> int:
        runs = [open_run(path.parent).record for path in tmp_path.glob(f"runs/*/*readrandom*/{Files.RECORD}")]
        return max((window.round for run in runs for window in run.windows if window.kind == "perf"), default=0)

    until(lambda: rounds() >= 1, watching)
    watching.send_signal(signal.SIGTERM)
    _, err = watching.communicate(timeout=120)
    assert watching.returncode == 130 and "to fold what was recorded: " in err, err
    (kept,) = tmp_path.glob("runs/*/*readrandom*")
    assert asked(capsys, "analyse", kept)[0] in (0, 1)
    assert sum(window.counters.cpu_ns for window in open_run(kept).record.windows) > 0


def test_what_ends_at_once_says_so_and_leaves_nothing(ioflame: Ioflame, tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    flags = ["--benchmarks=fillseq", "--num=10", f"--db={tmp_path}/db"]
    for words, says in (
        (["db_bench", *flags, "--no_such_flag=1"], "nothing was measured: it ended before its first query"),
        (["env", "A=1", "time", "db_bench", *flags], "nothing was measured: no benchmark lived long enough"),
    ):
        code, _, err = ioflame.run("run", "--out", tmp_path / "runs", "--", *words)
        assert code == 1 and says in err, err
        assert list((tmp_path / "runs").iterdir()) == []


def test_a_program_that_is_no_db_bench_has_shares_and_is_counted_by_a_command(tmp_path: Path) -> None:
    burn = "import time\nend = time.monotonic() + 30\nn = 0\nwhile time.monotonic() < end: n += 1"
    count = "--count=cut -d' ' -f1 /proc/uptime"
    command = [str(Path(sys.executable).resolve()), "-c", burn]
    record = measured(tmp_path, "run", "--seconds=6", "--collect=perf", count, "--whole", "--", *command).record
    assert record.metrics["qps"] > 0 and record.metrics["cores"] > 0


def test_a_report_of_garbage_is_said_and_the_rest_is_measured(ioflame: Ioflame, tmp_path: Path) -> None:
    """Something else writes into the report of a db_bench that runs."""
    words = bench(tmp_path, "fillseq,overwrite", "--duration=14", "--report_interval_seconds=1")
    words.append(f"--report_file={tmp_path}/own.csv")
    spoiled = ioflame.start("run", "--collect=perf", "--out", tmp_path / "runs", "--", *words)
    until(lambda: any(tmp_path.glob("runs/*/*overwrite*")), spoiled)
    with (tmp_path / "own.csv").open("ab") as report:
        report.write(b"\xff\xfe garbage\n" * 10)
        report.flush()
        # It stays open until the end: whoever closes a report ends its benchmark.
        _, err = spoiled.communicate(timeout=180)
    assert spoiled.returncode == 1, err
    run = open_run((tmp_path / "runs" / "latest").resolve())
    failed = [check for check in run.record.checks if check.verdict is Verdict.FAILED]
    assert any("without a number of interval_qps" in check.value for check in failed), failed
    assert run.path(Files.REPORT).exists()
