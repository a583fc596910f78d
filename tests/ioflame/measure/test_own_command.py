"""A command of the user's: which program it starts, what is added, which windows fit, and lines that are counted."""

from __future__ import annotations

import math
import os
import pty
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from collectors.perf import Plan
from collectors.report_phases import ReportPhases
from ground.errors import UsageError
from ground.results.command_run import CommandRun
from ground.results.record import Unobserved
from ground.results.run import Run
from ground.system.descendants import descendants
from ground.system.held_process import HeldProcess
from ground.system.process import Children
from ground.text.progress import Reporter
from ioflame.measure.attach.benchmarks import bench_of, command_of, running_benchmark
from ioflame.measure.attach.job import AttachOptions
from ioflame.measure.attach.session import WHOLE
from ioflame.measure.own_command.clients import Clients, PrintedLines, seconds_left
from ioflame.measure.own_command.command_line import (
    StartedCommand,
    added_words,
    checked_command,
    command_line,
    program_place,
)
from ioflame.measure.own_command.runner import CommandOptions, CommandRunner
from ioflame.measure.windows import WindowPlan, run_windows, unseen, warm_up_seconds
from tests.records import run_record, window
from tests.until import until
from workloads.counted_clients import read_client
from workloads.engines.rocksdb.command_line import bench_command
from workloads.registry import engine_named

DEFAULT = ("perf", "iolat", "offcpu")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is waited for in case that there comes more is not waited for as long as of a user's command."""
    monkeypatch.setattr("ioflame.measure.own_command.clients._PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr("ioflame.measure.own_command.clients._LEFT_SECONDS", 0.1)


@pytest.mark.parametrize(
    ("words", "program"),
    [
        ("./db_bench --threads=2", "./db_bench"),
        ("taskset -c 0,1 ./db_bench", "./db_bench"),
        ("taskset 0x3 ./db_bench -x 1", "./db_bench"),
        ("sudo -E -u me env A=1 B=2 nice -n 5 ./db_bench", "./db_bench"),
        ("sudo A=1 ./db_bench", "./db_bench"),
        ("numactl -C 0 --membind=0 ./db_bench", "./db_bench"),
        ("numactl --cpunodebind 0 --interleave all ./db_bench", "./db_bench"),
        ("/usr/bin/time -f %e -o out ./db_bench", "./db_bench"),
        ("timeout -s KILL 10 ./db_bench", "./db_bench"),
        ("chrt -f 10 ./db_bench", "./db_bench"),
        ("nice -5 -- ./db_bench", "./db_bench"),
        ("bash benchmark.sh taskset", "bash"),
        ("env", "env"),
    ],
)
def test_the_program_is_found_behind_what_starts_it(words: str, program: str) -> None:
    argv = words.split()
    assert argv[program_place(argv)] == program


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Something called db_bench, as a script that starts the real one is."""
    path = tmp_path / "db_bench"
    path.write_text("#!/bin/sh\nexec true\n")
    path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    return path


def test_what_a_command_is_decides_what_is_waited_for(bench: Path) -> None:
    direct = checked_command(["--", "nice", "-n", "1", str(bench), "--benchmarks=readrandom"])
    assert direct.bench is not None and not direct.script and direct.program == "db_bench"
    script = checked_command(["bash", "benchmark.sh", "--benchmarks=readrandom"])
    assert script.bench is None and script.script, "the flags of a script are its own business"
    program = checked_command(["sleep", "1"])
    assert program.bench is None and not program.script and not program.as_user
    assert checked_command(["env", "--", str(bench)]).bench is not None


def test_make_hands_over_a_command_line_in_one_word(bench: Path) -> None:
    words = checked_command([f"A='x y' {bench} --benchmarks=readrandom --db='/my db'"])
    assert list(words.argv) == ["env", "A=x y", str(bench), "--benchmarks=readrandom", "--db=/my db"]
    assert words.bench is not None
    with pytest.raises(UsageError, match="No closing quotation"):
        checked_command(["sleep 'x"])


def test_what_is_added_is_said_and_kept(bench: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = checked_command([str(bench), "--benchmarks=readrandom", "--report_file=own.csv"])
    home = CommandRun.begin(bench.parent / "runs", command.program, "0", list(command.argv))
    added, report = added_words(command, home, Reporter(), untouched=False, counted=False)
    assert added == ["--report_interval_seconds=1", "--histogram"] and report == bench.parent / "own.csv"
    assert "added to the command: --report_interval_seconds=1 --histogram" in capsys.readouterr().err
    assert CommandRun.open(home.directory).record.added == added
    nothing, report = added_words(command, home, Reporter(), untouched=True, counted=False)
    assert (nothing, report) == ([], None)
    assert "--untouched: it writes no report, so its queries are not counted" in capsys.readouterr().err
    assert added_words(checked_command(["true"]), home, Reporter(), untouched=False, counted=False) == ([], None)


def test_under_another_user_no_report_is_added_that_it_could_not_write(
    bench: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (bench.parent / "sudo").symlink_to(shutil.which("env") or "/usr/bin/env")
    monkeypatch.setenv("PATH", f"{bench.parent}:/usr/bin:/bin")
    home = CommandRun.begin(bench.parent / "runs", "db_bench", "0", [])
    root = checked_command(["sudo", str(bench), "--benchmarks=readrandom"])
    assert added_words(root, home, Reporter(), untouched=False, counted=False)[1] is not None
    other = checked_command(["sudo", "-u", "nobody", str(bench), "--benchmarks=readrandom"])
    assert added_words(other, home, Reporter(), untouched=False, counted=False) == (["--histogram"], None)
    assert "may not write where runs are kept" in capsys.readouterr().err


# ---- which windows fit -----------------------------------------------------------------------------------------------
def taken(plan: WindowPlan, available: float, opening: float = 0.0) -> list[tuple[str, float]]:
    """All windows of a stretch of so many seconds. opening: s that starting and ending each observer really takes"""
    found = []
    while (following := plan.next(available)) is not None:
        found.append(following)
        available -= following[1] + (opening if following[0] != "plain" else 0)
    return found


def test_with_time_enough_windows_alternate_and_share_it_out() -> None:
    windows = taken(WindowPlan(DEFAULT, 60.0), math.inf)
    assert [kind for kind, _ in windows] == ["plain", "perf", "plain", "iolat", "plain", "offcpu", "plain"]
    assert sum(seconds for _, seconds in windows) == pytest.approx(60)
    assert windows[1][1] == pytest.approx(4 * windows[0][1])


@pytest.mark.parametrize("opening", [0.0, 1.0, 1.5])
def test_windows_end_before_their_benchmark_does(opening: float) -> None:
    windows = taken(WindowPlan(DEFAULT, 600.0), 25.0, opening)
    assert len(windows) == 7
    assert sum(seconds for _, seconds in windows) + 3 * opening <= 25.0 + 1e-9


def test_what_does_not_fit_is_left_out_the_last_first() -> None:
    windows = taken(WindowPlan(DEFAULT, 600.0), 8.0)
    assert [kind for kind, _ in windows] == ["plain", "perf", "plain"]
    assert all(seconds >= 1.0 for _, seconds in windows)
    tight = taken(WindowPlan(DEFAULT, 600.0), 6.0, 1.5)
    assert tight == [("plain", 1.0), ("perf", pytest.approx(2.5)), ("plain", 1.0)]
    assert [kind for kind, _ in taken(WindowPlan(DEFAULT, 600.0), 3.0)] == ["plain"]
    assert taken(WindowPlan(DEFAULT, 600.0), 0.5) == []


def test_where_others_want_the_cpus_what_watches_is_given_longer_to_start() -> None:
    quiet, busy = (WindowPlan(DEFAULT, 600.0).next(20.0, waiting) for waiting in (0.5, 3.0))
    assert quiet is not None and quiet[1] == pytest.approx((20 - 3 * 1.5) / 10)
    assert busy is not None and busy[1] == pytest.approx((20 - 2 * 4.5) / 8)


class Ending:
    """A target that ends within its second window."""

    def __init__(self, directory: Path) -> None:
        self.run, self.windows = Run(directory, run_record()), list[str]()

    @property
    def ended(self) -> bool:
        return len(self.windows) == 2

    def plain(self, seconds: float) -> None:  # noqa: ARG002
        self.windows.append("plain")

    def observe(self, name: str, seconds: float) -> None:  # noqa: ARG002
        self.windows.append(name)


def test_what_ends_before_it_was_expected_to_leaves_the_rest_out(tmp_path: Path) -> None:
    target, plan = Ending(tmp_path), WindowPlan(DEFAULT, 60.0)
    run_windows(target, DEFAULT, iter(lambda: plan.next(math.inf), None))
    assert target.windows == ["plain", "perf"]
    missing = ["the baseline window after the perf window", "the iolat window", "the offcpu window"]
    assert target.run.record.missing == missing


def test_what_has_neither_a_window_nor_a_reason_was_not_seen() -> None:
    record = run_record()
    record.windows = [window("plain", 5), window("perf", 5)]
    record.unobserved = [Unobserved("iolat", "no BTF", "", asked=False)]
    assert unseen(record, DEFAULT) == ["offcpu"]
    assert unseen(run_record(), DEFAULT) == list(DEFAULT)


def test_short_windows_that_were_asked_for_are_made_and_a_warm_up_is_a_tenth_within_bounds() -> None:
    assert len(taken(WindowPlan(DEFAULT, 5.0), math.inf)) == 7
    # Not where a client tells of its queries once a second.
    assert [seconds >= 1 for _, seconds in taken(WindowPlan(DEFAULT, 5.0, 1.0), math.inf)] == [True] * 3
    assert taken(WindowPlan(DEFAULT, 60.0, 10.0), 21.0)[0] == ("plain", 21.0)
    assert [warm_up_seconds(whole) for whole in (2, 60, 3600)] == [1, 6, 30]


def test_what_is_left_of_a_benchmark_follows_from_its_rate_or_its_duration(tmp_path: Path) -> None:
    phases = ReportPhases(tmp_path / "report.csv", engine_named("rocksdb").parse_report)
    with phases.path.open("w") as report:
        report.write("secs_elapsed,interval_qps\n1,100\n2,100\n")
        report.flush()
        phase = phases.next()
        assert phase is not None and phase.going and phase.rate_of_all is None, "it has not ended"
        counted, timed = (
            bench_command(["db_bench", f"--benchmarks={of}", f"--{name}=1000", "--report_interval_seconds=1"], tmp_path)
            for of, name in (("fillseq", "num"), ("readrandom", "duration"))
        )
        assert counted is not None and seconds_left(counted, "fillseq", phase) == pytest.approx(8)
        assert timed is not None and seconds_left(timed, "readrandom", phase) == pytest.approx(998, abs=1)


def test_a_benchmark_has_begun_with_its_first_operation_or_has_none(tmp_path: Path) -> None:
    for number, (rates, begun) in enumerate((([], False), ([0], False), ([0, 7], True), ([0] * 10, True))):
        phases = ReportPhases(tmp_path / f"{number}.csv", engine_named("rocksdb").parse_report)
        lines = [f"{second},{rate}\n" for second, rate in enumerate(rates, start=1)]
        with phases.path.open("w") as report:
            report.write("".join(["secs_elapsed,interval_qps\n", *lines]))
            report.flush()
            phase = phases.next()
            assert phase is not None and phase.going and phase.has_begun == begun


# ---- what is watched -------------------------------------------------------------------------------------------------
def test_a_client_is_whoever_has_a_database_open_and_the_rest_is_left_behind(tmp_path: Path) -> None:
    """A script starts one that has a database open, leaves a sleeper behind, and ends."""
    for name in ("OPTIONS-000007", "LOCK"):
        (tmp_path / name).touch()
    holds = (
        f"import sys; held = open({str(tmp_path / 'LOCK')!r}); open({str(tmp_path / 'held')!r}, 'w'); sys.stdin.read()"
    )
    os.mkfifo(tmp_path / "end")
    script = f'env --default-signal=INT sleep 600 & {sys.executable} -c "{holds}" <{tmp_path}/end; exit 5'
    with Children() as children:
        child = children.start("script", ["bash", "-c", script])
        clients = Clients(child, checked_command(["bash", "-c", script]), whole=False)
        with (tmp_path / "end").open("w"):
            process = clients.next()
            assert process is not None
            until((tmp_path / "held").exists)
            assert bench_of(process) is None and running_benchmark([process]) is None
        assert clients.next() is None
        assert len(clients.left) == 1 and clients.left[0] in descendants([child.supervisor])
        assert child.stop() == 5
    until(lambda: not Path(f"/proc/{clients.left[0]}").exists())


def test_a_db_bench_is_one_while_it_has_its_database_closed(tmp_path: Path) -> None:
    """fillseq closes the database that it has just opened, and makes it anew: it was watched as any other program."""
    (tmp_path / "db_bench").symlink_to(sys.executable)
    words = [str(tmp_path / "db_bench"), "-c", "import sys; sys.stdin.read()", "--benchmarks=fillseq", "--db=/none"]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as running:
        process = HeldProcess(running.pid)
        until(lambda: command_of(process) is not None)
        command = command_of(process)
        assert bench_of(process) is None and command is not None and command.benchmarks == ["fillseq"]
        running.kill()


def test_a_program_without_a_database_is_watched_itself() -> None:
    with Children() as children:
        child = children.start("sleep", ["sleep", "600"])
        process = Clients(child, checked_command(["sleep", "600"]), whole=False).next()
        assert process is not None and process.pid == child.pid
        whole = Clients(child, checked_command(["bash", "-c", ":"]), whole=True).next()
        assert whole is not None and whole.pid == child.pid
        child.stop()
        assert Clients(child, checked_command(["sleep", "600"]), whole=False).next() is None


# ---- how a command ends ----------------------------------------------------------------------------------------------
PLAN = Plan("cpu-clock", 999, "system", "fp", ())


def watched(out: Path, *argv: str) -> CommandRunner:
    """A command that has ended, with nothing in it to be watched."""
    command = checked_command(list(argv))
    attach = AttachOptions("", "auto", 999, "fp", (), asked_to_collect=False, out=out)
    home = CommandRun.begin(out, command.program, "0", list(command.argv))
    options = CommandOptions(command, [], None, None, None, False, None, attach)
    found = CommandRunner(options, home, PLAN, Reporter(quiet=True))
    found.start_and_watch()
    assert CommandRun.open(home.directory).record.end
    return found


@pytest.mark.parametrize(
    ("script", "code", "says"),
    [
        ("exit 7", 7, "bash: exit code 7 after"),
        ("exit 0", 0, "none of its processes had a RocksDB database or a report open"),
        ("kill -9 $$", -9, "bash: killed by SIGKILL after"),
        # A shell lets what it starts in the background ignore the SIGINT that ends it here.
        ("env --default-signal=INT sleep 600 >/dev/null 2>&1 & exit 3", 3, "runs on: it is ended, as nothing"),
    ],
)
def test_a_command_ends_as_it_does_and_what_could_not_be_measured_is_said(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], script: str, code: int, says: str
) -> None:
    found = watched(tmp_path, "bash", "-c", script)
    assert (found.code, found.runs) == (code, []) and WHOLE.goes_on is None
    assert says in capfd.readouterr().err


def test_its_streams_and_its_environment_are_ours(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("MINE", "a b")
    watched(tmp_path, "sh", "-c", 'echo "$LC_ALL $MINE ${PERF_CONFIG-unset}"; echo to stderr >&2')
    out, err = capfd.readouterr()
    assert out == "C.UTF-8 a b unset\n" and err.startswith("to stderr\n")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs that are called as clients are."""
    for name in ("pgbench", "sysbench", "ycsb", "mine.sh"):
        (tmp_path / name).write_bytes(b"\x7fELF" if name in ("pgbench", "sysbench") else b"#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def added(command: StartedCommand, place: Path, *, untouched: bool = False, counted: bool = False) -> list[str]:
    home = CommandRun.begin(place / "runs", command.program, "0", list(command.argv))
    words, report = added_words(command, home, Reporter(), untouched=untouched, counted=counted)
    assert report is None
    return command_line(command, words, read=not (untouched or counted))


def test_a_client_is_known_behind_what_starts_it(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = checked_command(["--", "nice", "-n", "1", "sysbench", "cpu", "run"])
    assert command.client == read_client("sysbench")
    words = ["nice", "-n", "1", "stdbuf", "-oL", "sysbench", "cpu", "run", "--report-interval=1"]
    assert added(command, programs) == words
    said = "added to the command: stdbuf -oL (before the program) and --report-interval=1   (--untouched adds nothing)"
    assert said in capsys.readouterr().err
    assert added(command, programs, untouched=True) == list(command.argv)
    assert "--untouched: without --report-interval=1 it prints no progress, so its" in capsys.readouterr().err
    assert added(command, programs, counted=True) == list(command.argv) and not capsys.readouterr().err
    assert checked_command(["pgbench", "-i"]).client is None


def test_a_script_is_a_client_by_its_own_name_and_gets_options_only_then(programs: Path) -> None:
    ycsb = checked_command(["sh", "./ycsb", "run", "basic"])
    assert ycsb.client == read_client("ycsb") and ycsb.script and ycsb.takes
    assert added(ycsb, programs)[-3:] == ["-s", "-p", "status.interval=1"]
    mine = checked_command(["./mine.sh", "run"], "sysbench")
    assert mine.client == read_client("sysbench") and not mine.takes
    assert added(mine, programs) == ["./mine.sh", "run"]
    assert checked_command(["sh", "mine.sh", "pgbench"]).client is None
    with pytest.raises(UsageError, match="does not say how the queries of this command are counted"):
        checked_command(["./mine.sh", "prepare"], "sysbench")


def test_lines_are_counted_while_they_pass(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A client that prints two counted lines, and ends once the test writes to its FIFO."""
    os.mkfifo(tmp_path / "end")
    script = (
        "echo result; echo 'progress: 1.0 s, 100.0 tps, x' >&2; echo 'progress: 2.0 s, 100.0 tps, x' >&2; "
        f"cat {tmp_path}/end; echo 'not a line' >&2; exit 4"
    )
    command = checked_command(["bash", "-c", script], "pgbench")
    assert command.client is not None
    with Children() as children:
        lines = PrintedLines(command.client, command, Reporter())
        child = children.start("client", list(command.argv), inherits=True, instead=lines.instead)
        lines.start()
        clients = Clients(child, command, whole=True)
        process = clients.next()
        assert process is not None and process.pid == child.pid
        assert lines.counts(process) and lines.left() == math.inf
        until(lambda: lines.count.count.read() > 0)
        (tmp_path / "end").open("w").close()
        assert clients.next() is None and child.stop() == 4
        assert not lines.counts(process) or lines.count.begun_ns is not None
        lines.finish()
    out, err = capfd.readouterr()
    assert out == "result\n"
    assert err == "progress: 1.0 s, 100.0 tps, x\nprogress: 2.0 s, 100.0 tps, x\nnot a line\n"


def test_that_it_writes_to_no_terminal_any_more_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    command, client = checked_command(["true", "-T", "60", "-c", "4"], "pgbench"), read_client("pgbench")
    PrintedLines(client, command, Reporter()).finish()
    assert "terminal" not in capfd.readouterr().err
    terminal, ours = pty.openpty()
    before = os.dup(2)
    os.dup2(ours, 2)
    made = time.monotonic()
    try:
        lines = PrintedLines(client, command, Reporter())
    finally:
        os.dup2(before, 2)
        os.close(before)
    lines.finish()
    assert "which hands on each byte" in capfd.readouterr().err
    os.close(terminal)
    os.close(ours)
    assert "printed no line that matches ^progress" in lines.without_count
    lines.count.seen("progress: 10.0 s, 5.0 tps, lat", time.monotonic_ns())
    # It cannot have run for 10 s: it is begun no sooner than its reader.
    left = lines.left()
    assert 60 - (time.monotonic() - made) <= left <= 60 and lines.queries_at_once == 4
