"""A service that somebody else started: attaching reports the same as a profile of the same workload."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from folding.stackfold import fold
from ground.errors import UsageError
from ground.results.categories import read_categories, read_operations
from ground.results.files import Files
from ground.results.off_cpu import read_off_cpu
from ground.results.profile import read_profile
from ground.results.run import open_run
from ground.system.descendants import descendants
from ground.system.groups import container_group, named_group
from ground.system.target import Target
from tests.conftest import Ioflame
from tests.e2e.commands import AS_NOBODY, attached, reading, reported, rocksdb_library, service, ticks
from tests.ioflame.asked import refused
from tests.programs import FRAMES, compiled
from tests.recorded_run import Measured, assert_reported
from tests.until import until

pytestmark = pytest.mark.long

# Rows that the rules of a program around RocksDB have beside those of a profile of ours.
_OF_A_SERVICE = {"flush", "compaction", "application", "WAL", "memtable insert", "write path"}


@pytest.fixture(scope="module")
def from_outside(loaded: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Measured]:
    """db_bench as a profile would start it, attached to while it runs. Its reads are counted: one a query here."""
    place = tmp_path_factory.mktemp("attached")
    with reading(loaded, place / "report.csv") as process:
        count = f"awk '/^syscr/ {{print $2}}' /proc/{process.pid}/io"
        found = attached(place, [process.pid], "--seconds=14", "--freq=999", f"--count={count}", "-v")
    return process.pid, found


@pytest.mark.needs("perf", "db_bench", "co-re")
@pytest.mark.xdist_group("from outside")
def test_its_rows_are_those_of_a_profile_of_what_it_recorded(
    from_outside: tuple[int, Measured], tmp_path: Path
) -> None:
    pid, found = from_outside
    view = read_categories(found.run.directory)
    ours = {row.name: row.weight for row in view.rows}
    assert sum(row.samples or 0 for row in view.rows) > 0
    # By the rules of a profile, to the unit. Two runs would differ by what the machine did in each: the checksum of a
    # block that was just read took 6.7 % of one, and 10.5 % of the next.
    recorded = fold(found.run.directory / Files.PERF_DATA, tmp_path, [pid], rules="rocksdb")
    profiled: Counter[str] = Counter()
    for stack in recorded.each_stack(view.view):
        profiled[stack.category] += stack.weight
    # A service has more rows than a profile for what is `other` there: the client's own code is `application`.
    ours["other"] += sum(ours.pop(name) for name in _OF_A_SERVICE)
    assert {name: weight for name, weight in ours.items() if weight} == profiled
    # What a profile sees of its reads is here as well.
    assert ours["libc+k"] and any(ours[name] for name in ("checksm", "IBI:Sk", "DBI:Sk", "LRU"))


@pytest.mark.needs("perf", "db_bench", "co-re")
@pytest.mark.xdist_group("from outside")
def test_queries_are_those_that_its_counter_gained_and_storage_and_waits_are_seen(
    from_outside: tuple[int, Measured],
) -> None:
    pid, found = from_outside
    record, run = found.record, found.run
    windows = [window for window in record.windows if window.kind == "plain"]
    # The command was asked before and after each window: it has counted the window's reads and a few more.
    assert all((window.counters.queries or 0) > 0 for window in windows)
    cpu = sum(window.counters.cpu_ns for window in windows) / 1e3
    assert record.metrics["cpuPer"] == pytest.approx(cpu / sum(window.counters.queries or 0 for window in windows))
    assert "us/query" in found.out and record.target is not None
    # Every thread is in a group, and the groups are all of its CPU.
    assert sum(own.cpu_ns for own in windows[0].counters.groups.values()) == windows[0].counters.cpu_ns
    assert pid in {tid for tids in record.target.groups.values() for tid in tids}
    names = (Files.FLAMEGRAPH, Files.REPORT, Files.IO_LATENCY, Files.OFF_CPU, Files.RULES, Files.SUMMARY)
    assert [name for name in names if not run.path(name).exists()] == []
    assert read_off_cpu(run.path(Files.OFF_CPU)).pid == pid
    assert "of CPU in our processes" in found.checks["cost"].value


@pytest.mark.needs("perf")
@pytest.mark.parametrize("quiet", [False, True])
def test_a_first_look_follows_perfs_first_turn_where_somebody_looks_on(tmp_path: Path, *, quiet: bool) -> None:
    with service([sys.executable, "-c", "while True: pass"]) as process:
        # Three rounds of a plain turn and of one of perf, four times as long.
        words = ["--seconds=18.5", "--collect=perf", "--freq=499", *["--quiet"] * quiet]
        found = attached(tmp_path, [process.pid], *words)
    record = found.record
    turns = record.of_kind("perf")
    assert [turn.round for turn in turns] == [1, 2, 3] and record.target is not None and record.target.cost is not None
    assert ("First look: " in found.err) == ("first look" in record.target.cost.seconds) == (not quiet)
    assert [part in found.err for part in ("step 1 of 4, ", "step 4 of 4, ")] == [not quiet] * 2
    # All turns are in what is left, and nothing of the first look.
    assert_reported(record)
    assert "everything after the first" not in found.run.path(Files.REPORT).read_text(encoding="utf-8")
    assert record.missing == []


@pytest.mark.needs("perf", "db_bench")
def test_without_a_count_there_is_no_us_per_query_and_a_target_that_ends_leaves_what_was_seen(
    ioflame: Ioflame, tmp_path: Path
) -> None:
    """A C program with RocksDB in it forks, so that two of them work, until both are killed within perf's window."""
    program = compiled(Path(__file__).with_name("embeds.c"), tmp_path / "embeds", *FRAMES, rocksdb_library())
    (tmp_path / "data").mkdir()
    with service([program, tmp_path / "data"], start_new_session=True) as process:
        words = ("--seconds=60", "--collect=perf", "--freq=499", "--out", str(tmp_path))
        # Beside a flush perf has a window of its own.
        until(lambda: len({path.parent for path in tmp_path.glob("data/*/*.sst")}) == 2)
        watching = ioflame.start("attach", "--pid", str(process.pid), *words)
        until(lambda: any(path.stat().st_size for path in tmp_path.glob(f"*/{Files.PERF_DATA}")), watching)
        # It records every process, some time after its file has a head. Of the target, 1.5 s of CPU are 750 samples.
        (child,) = descendants([process.pid])[1:]
        begun = {pid: ticks(pid) for pid in (process.pid, child)}
        until(lambda: all(ticks(pid) > before + 150 for pid, before in begun.items()), watching)
        os.killpg(process.pid, signal.SIGKILL)
        out, err = watching.communicate(timeout=300)
    run = open_run((tmp_path / "latest").resolve())
    record = run.record
    assert watching.returncode in (0, 1), err + out
    assert record.target is not None and len(record.target.pids) == 2
    assert "us/query" not in out and "cores" in out
    assert "There is no us per query" in run.path(Files.REPORT).read_text(encoding="utf-8")
    assert [check.value for check in record.checks if check.name == "target"] == ["it ended while it was watched"]
    stacks = read_profile(run.path(Files.PROFILE))
    assert {pid for pid in stacks.threads.pid if pid is not None} <= set(record.target.pids)
    assert record.engine == "rocksdb"
    names = {row.name: row.weight for row in read_categories(run.directory).rows}
    assert all(names[row] for row in ("application", "IBI:Sk", "DBI:Sk", "LRU")), names


@dataclass(frozen=True)
class Both:
    """A run that watched a process that reads and one that writes, and their pids."""

    reader: int
    writer: int
    done: Measured


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    place = tmp_path_factory.mktemp("kinds")
    flags = ["--num=100000", "--value_size=100", "--compression_type=none", "--disable_wal=1"]
    running = [*flags, "--duration=3600", "--report_interval_seconds=1"]
    subprocess.run(["db_bench", "--benchmarks=fillseq", f"--db={place}/get", *flags], check=True, capture_output=True)
    quiet, words = {"stderr": subprocess.DEVNULL}, ["--seconds=8", "--collect=perf", "--freq=499", "-v"]
    reads = ["--benchmarks=readrandom", "--use_existing_db=1", f"--db={place}/get", f"--report_file={place}/get.csv"]
    writes = ["--benchmarks=overwrite", f"--db={place}/write", f"--report_file={place}/write.csv"]
    with (
        service(["db_bench", *reads, *running], **quiet) as reader,
        service(["db_bench", *writes, *running], **quiet) as writer,
    ):
        for kind in ("get", "write"):
            report = place / f"{kind}.csv"
            until(partial(reported, report), as_long_as=lambda: reader.poll() is None and writer.poll() is None)
            words += ["--count-of", kind, f"awk -F, 'NR > 1 {{ n += $2 }} END {{ print n }}' {report}"]
        done = attached(place / "runs", [reader.pid, writer.pid], *words)
    yield Both(reader.pid, writer.pid, done)


@pytest.mark.needs("perf", "db_bench")
@pytest.mark.xdist_group("both kinds")
def test_stacks_tell_the_kind_that_each_process_is_known_to_do(both: Both) -> None:
    profile = read_profile(both.done.run.path(Files.PROFILE))
    weights: Counter[tuple[int | None, str]] = Counter()
    pid_of = dict(zip(profile.threads.tid, profile.threads.pid, strict=True))
    for stack in profile.each_stack("operations"):
        weights[pid_of[stack.tid], stack.category] += stack.weight
    every = {pid: sum(own for (whose, _), own in weights.items() if whose == pid) for pid in (both.reader, both.writer)}
    assert weights[both.reader, "get"] > 0.5 * every[both.reader]
    # Beside it, its process flushes and compacts, as much as the disk and the other CPU allow.
    background = sum(weights[both.writer, kind] for kind in ("flush", "compaction"))
    assert weights[both.writer, "write"] > 0.5 * (every[both.writer] - background) > 0
    assert not {(both.writer, "get"), (both.reader, "write"), (both.reader, "compaction")} & {*(+weights)}
    rows = {row.name: row.weight for row in read_categories(both.done.run.directory).rows}
    assert rows["memtable insert"]
    assert not re.search(r"^\s*WAL\s+\d", both.done.out, re.MULTILINE)  # the log is off
    assert re.search(r"Without weight: [^.]*\bWAL\b", both.done.out)


@pytest.mark.needs("perf", "db_bench")
@pytest.mark.xdist_group("both kinds")
def test_each_kind_is_divided_by_its_own_count(both: Both) -> None:
    run = both.done.run
    plain = [window.counters for window in both.done.record.windows if window.kind == "plain"]
    cpu_us = sum(counters.cpu_ns for counters in plain) / 1e3
    kinds = {one.name: one for one in read_operations(run.directory)}
    for name in ("get", "write"):
        one, number = kinds[name], sum(counters.operations[name] for counters in plain)
        assert one.us == pytest.approx(one.share / 100 * cpu_us / number)
        assert one.categories is not None and one.categories.view == "owner"
        assert sum(row.us_per_query or 0.0 for row in one.categories.rows) == pytest.approx(one.us)
        assert f"Where the CPU of one {name} goes" in both.done.out
        assert f"CPU by one {name}" in run.path(Files.REPORT).read_text(encoding="utf-8")
    assert sum(one.share for one in kinds.values()) == pytest.approx(100)
    # What nothing counts has no us of one; a query of the run is any of those that are counted.
    assert all(one.us is None and one.categories is None for name, one in kinds.items() if name not in ("get", "write"))
    assert [c.queries for c in plain] == [pytest.approx(sum(c.operations.values())) for c in plain]


@pytest.mark.needs("perf")
def test_a_container_is_a_control_group_and_found_by_its_id(
    ioflame: Ioflame, capsys: pytest.CaptureFixture[str], tmp_path: Path, group: Path
) -> None:
    """A group as runtimes make them; nothing runs in it until a process is put there."""
    identity = "3f2a9c1b7d44" + f"{os.getpid():052x}"
    container, runs = group / f"docker-{identity}.scope", f"--out={tmp_path / 'runs'}"
    container.mkdir()
    with pytest.raises(UsageError, match="no control group of that name holds a process"):
        container_group(identity)
    with service(["sleep", "600"]) as process:
        (container / "cgroup.procs").write_text(str(process.pid), encoding="ascii")
        assert container_group(identity) == container_group(identity[:20]) == named_group(container.name) == container
        # What is in a watched group is watched, and the other way round.
        watching = Target([process.pid])
        code, _, err = ioflame.run("attach", f"--cgroup={container}", runs)
        assert code == 2 and f"process {process.pid} is watched by another ioflame" in err
        del watching
        other = ioflame.start("attach", f"--cgroup={container}", "--collect=null", f"--out={tmp_path / 'other'}")
        until(lambda: list(tmp_path.glob(f"other/*/{Files.RECORD}")), other)
        with pytest.raises(UsageError, match=r"as a part of group \d+, is watched by another ioflame"):
            Target([process.pid])
        other.terminate()
        other.communicate(timeout=60)
        code, _, err = ioflame.run("attach", runs, "--count=echo no number", f"--container={identity}")
        assert code == 2 and "the count failed: the count printed 'no number'" in err
    assert "no process is in" in refused(capsys, "attach", runs, f"--cgroup={container}")
    assert not list((tmp_path / "runs").glob("*"))


@pytest.mark.needs("perf")
def test_what_a_user_lacks_to_attach_is_refused_and_said_by_the_doctor(ioflame: Ioflame, tmp_path: Path) -> None:
    with service(["sleep", "600"]) as process:
        code, out, err = ioflame.run("doctor", "--attach", str(process.pid))
        assert code in (0, 3) and "counters" in out, err
        if os.geteuid() == 0:
            code, out, _ = ioflame.run("doctor", "--attach", str(process.pid), prefix=AS_NOBODY)
            assert code == 3 and "+sys_ptrace" in out
            given = ("attach", f"--pid={process.pid}", "--out", tmp_path / "runs")
            code, _, err = ioflame.run(*given, prefix=AS_NOBODY)
            assert code == 3 and "is not ours" in err and f"doctor --attach {process.pid}" in err


def test_who_is_a_part_of_what_another_one_watches_is_refused(ioflame: Ioflame, tmp_path: Path) -> None:
    """A parent and its child, whichever of them was first."""
    with service(["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE, start_new_session=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        for first, second in ((parent.pid, child), (child, parent.pid)):
            watching = Target([first])
            code, _, err = ioflame.run("attach", f"--pid={second}", "--out", tmp_path / "runs")
            named = f"process {child}, as a part of process {parent.pid}," if second == child else f"process {child}"
            assert (code, f"{named} is watched by another ioflame" in err) == (2, True), err
            del watching
        os.killpg(parent.pid, signal.SIGKILL)


_THREADS = """
import threading
threading.stack_size(65536)
for _ in range(2000):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
print("begun", flush=True)
while True: sum(range(1000))
"""


@pytest.mark.needs("perf")
def test_each_of_two_thousand_threads_is_counted_of_a_program_without_an_engine_which_has_its_own_name(
    tmp_path: Path,
) -> None:
    with service([sys.executable, "-c", _THREADS], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"begun\n"
        program = Path("/proc", str(process.pid), "exe").readlink()
        found = attached(tmp_path, [process.pid], "--seconds=5", "--freq=499", "--collect=perf")
    record = found.record
    assert record.target is not None and record.threads == 2001
    assert sum(map(len, record.target.groups.values())) == 2001
    assert record.profile is not None and record.profile.weight > 0
    assert f", 2001 threads, {program}\n" in found.out and "rocksdb in" not in found.out
    page = found.run.path(Files.REPORT).read_text(encoding="utf-8")
    assert f"{program}; symbols" in page and "rocksdb in" not in page


@pytest.mark.needs("perf")
def test_again_and_again_until_the_target_ends_and_the_last_minutes_are_kept(ioflame: Ioflame, tmp_path: Path) -> None:
    with service(["sleep", "600"]) as process:
        words = ("--every=1m", "--for=5", "--collect=null", "--out", str(tmp_path))
        watching = ioflame.start("attach", "--pid", str(process.pid), *words)
        until((tmp_path / "latest").exists, watching)
        (run,) = (path.parent for path in tmp_path.glob(f"*/{Files.RECORD}") if not path.parent.is_symlink())
        watching.send_signal(signal.SIGUSR1)
        until((run / "kept").exists, watching)
        process.kill()
        _, err = watching.communicate(timeout=60)
    assert (watching.returncode, f"kept for good: {run.name}" in err) == (0, True), err
    assert "every process of the target has ended" in err
