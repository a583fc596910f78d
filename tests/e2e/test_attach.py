"""A service that somebody else started: attaching reports the same as a profile of the same workload."""

from __future__ import annotations

import contextlib
import http.server
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from collectors.counts import Count, QueryCount, command_count, prometheus_count
from folding.stackfold import fold
from ground.errors import MeasurementError, UsageError
from ground.results.categories import read_categories
from ground.results.checks import Verdict
from ground.results.files import Files
from ground.results.off_cpu import read_off_cpu
from ground.results.profile import read_profile
from ground.results.run import Run, open_run
from ground.system.groups import container_group, named_group
from ground.system.process import Children
from ground.system.target import Target
from tests.conftest import Ioflame
from tests.e2e.conftest import Finished
from tests.programs import FRAMES, compiled
from tests.until import until

pytestmark = pytest.mark.long

# Rows that the rules of a program around RocksDB have beside those of a profile of ours.
_OF_A_SERVICE = {"flush", "compaction", "application", "WAL", "memtable insert", "write path"}
# Bytes of a recording: more than its head.
_SAMPLED = 100_000


@dataclass(frozen=True)
class Attached:
    """What `ioflame attach` printed of a db_bench that a test had started, and left."""

    code: int
    out: str
    err: str
    pid: int
    run: Run


@contextlib.contextmanager
def service(argv: list[str], **more: object) -> Iterator[subprocess.Popen[bytes]]:
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    process = subprocess.Popen(argv, **{**streams, **more})  # type: ignore[call-overload]
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def rocksdb_library() -> str:
    """The library that db_bench uses, as the compiler takes it."""
    used = subprocess.run(["ldd", shutil.which("db_bench") or "db_bench"], capture_output=True, text=True, check=True)
    return next(line.split()[2] for line in used.stdout.splitlines() if "librocksdb" in line)


def attached(ioflame: Ioflame, pid: int, out: Path, *more: str) -> Attached:
    code, said, errors = ioflame.run("attach", "--pid", str(pid), "--out", out, *more)
    return Attached(code, said, errors, pid, open_run((out / "latest").resolve()))


@pytest.fixture(scope="module")
def from_outside(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Attached:
    """db_bench as `make profile` started it, attached to while it runs. Its reads are counted: one a query here."""
    place = tmp_path_factory.mktemp("attached")
    (argv,) = (one.argv for one in finished.record.commands if one.name == "db_bench readrandom")
    report = place / "report.csv"
    own = {"--duration": "120", "--report_file": str(report)}
    argv = [f"{name}={own[name]}" if (name := word.partition("=")[0]) in own else word for word in argv]
    with service(argv) as process:
        until(lambda: report.exists() and report.read_text(encoding="ascii").count("\n") >= 3, process)
        count = f"awk '/^syscr/ {{print $2}}' /proc/{process.pid}/io"
        found = attached(Ioflame(), process.pid, place, "--seconds=14", "--freq=999", f"--count={count}", "-v")
        assert process.poll() is None  # still running
    return found


@pytest.mark.alone
@pytest.mark.needs("perf", "db_bench", "co-re")
def test_its_rows_are_those_of_a_profile_of_what_it_recorded(
    from_outside: Attached, finished: Finished, tmp_path: Path
) -> None:
    assert from_outside.code == 0, from_outside.err + from_outside.out
    view = read_categories(from_outside.run.directory)
    ours = {row.name: row.weight for row in view.rows}
    theirs = {row.name: row.share for row in read_categories(finished.directory).rows}
    assert ours.keys() - theirs.keys() == _OF_A_SERVICE
    assert sum(row.samples or 0 for row in view.rows) > 500
    # By the rules of a profile, to the unit. Two runs would differ by what the machine did in each: the checksum of a
    # block that was just read took 6.7 % of one, and 10.5 % of the next.
    recorded = fold(from_outside.run.directory / Files.PERF_DATA, tmp_path, [from_outside.pid], rules="rocksdb")
    profiled: Counter[str] = Counter(dict.fromkeys(theirs, 0))
    for stack in recorded.each_stack(view.view):
        profiled[stack.category] += stack.weight
    # A service has more rows than a profile for what is `other` there: the client's own code is `application`.
    ours["other"] += sum(ours.pop(name) for name in _OF_A_SERVICE)
    assert ours == profiled
    # The other run did the same work: what weighs much there is here as well.
    assert {name for name, share in theirs.items() if share >= 5} <= {name for name, weight in ours.items() if weight}


@pytest.mark.alone
@pytest.mark.needs("perf", "db_bench", "co-re")
def test_queries_are_those_that_its_counter_gained(from_outside: Attached) -> None:
    record = from_outside.run.record
    windows = [window for window in record.windows if window.kind == "plain"]
    for window in windows:
        assert window.counters.queries == pytest.approx(window.counters.read_calls, rel=0.05)
    cpu = sum(window.counters.cpu_ns for window in windows) / 1e3
    assert record.metrics["cpuPer"] == pytest.approx(cpu / sum(window.counters.queries or 0 for window in windows))
    assert "us/query" in from_outside.out and record.target is not None
    # Every thread is in a group, and the groups are all of its CPU.
    assert sum(own.cpu_ns for own in windows[0].counters.groups.values()) == windows[0].counters.cpu_ns
    assert from_outside.pid in {tid for tids in record.target.groups.values() for tid in tids}
    assert not [check for check in record.checks if check.verdict is Verdict.FAILED]


@pytest.mark.alone
@pytest.mark.needs("perf", "db_bench", "co-re")
def test_the_storage_and_the_waits_are_told_as_in_a_profile(from_outside: Attached) -> None:
    run = from_outside.run
    names = (Files.FLAMEGRAPH, Files.REPORT, Files.IO_LATENCY, Files.OFF_CPU, Files.RULES, Files.SUMMARY)
    assert [name for name in names if not run.path(name).exists()] == []
    assert read_off_cpu(run.path(Files.OFF_CPU)).pid == from_outside.pid
    (cost,) = (check for check in run.record.checks if check.name == "cost")
    assert "of CPU in our processes" in cost.value


@pytest.mark.alone
@pytest.mark.needs("perf", "db_bench")
def test_without_a_count_there_is_no_us_per_query_and_a_target_that_ends_leaves_what_was_seen(
    ioflame: Ioflame, tmp_path: Path
) -> None:
    """A C program with RocksDB in it forks, so that two of them work, until both are killed within perf's window."""
    program = compiled(Path(__file__).with_name("embeds.c"), tmp_path / "embeds", *FRAMES, rocksdb_library())
    (tmp_path / "data").mkdir()
    with service([str(program), str(tmp_path / "data")], start_new_session=True) as process:
        words = ("--seconds=60", "--collect=perf", "--freq=499", "--out", str(tmp_path))
        watching = ioflame.start("attach", "--pid", str(process.pid), *words)
        until(lambda: any(path.stat().st_size > _SAMPLED for path in tmp_path.glob(f"*/{Files.PERF_DATA}")), watching)
        os.killpg(process.pid, signal.SIGKILL)
        out, err = watching.communicate(timeout=120)
    found = Attached(watching.returncode, out, err, process.pid, open_run((tmp_path / "latest").resolve()))
    record = found.run.record
    assert found.code == 0, found.err + found.out
    assert record.target is not None and len(record.target.pids) == 2
    assert "us/query" not in found.out and "cores" in found.out
    assert "There is no us per query" in found.run.path(Files.REPORT).read_text(encoding="utf-8")
    assert [check.value for check in record.checks if check.name == "target"] == ["it ended while it was watched"]
    perf = next(window for window in record.windows if window.kind == "perf")
    assert 0 < perf.seconds < 40
    stacks = read_profile(found.run.path(Files.PROFILE))
    assert sorted({pid for pid in stacks.threads.pid if pid is not None}) == record.target.pids
    assert record.engine == "rocksdb"
    names = {row.name: row.share for row in read_categories(found.run.directory).rows}
    assert 0 < names["application"] < 50
    assert all(names[row] > 1 for row in ("IBI:Sk", "DBI:Sk", "LRU"))


def endpoint(answers: Callable[[], bytes]) -> contextlib.AbstractContextManager[str]:
    """The address of a server that answers every request with what `answers` gives."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = answers()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    @contextlib.contextmanager
    def serving() -> Iterator[str]:
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            yield f"http://127.0.0.1:{server.server_address[1]}/metrics"
            server.shutdown()

    return serving()


_METRICS = b"""# HELP reads_total Reads.
# TYPE reads_total counter
reads_total{kind="get",cf="default"} 40
reads_total{kind="get",cf="meta"} 2 1700000000000
reads_total{kind="scan",cf="default"} 5e1 1700000000.5 # {trace="} 9"} 0.6
reads_totals 7
"""


def test_a_counter_of_prometheus_is_the_sum_of_its_series(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # nobody answers there
    with endpoint(lambda: _METRICS) as url:
        assert prometheus_count(url, "reads_total").read() == 92
        assert prometheus_count(url, 'reads_total{kind="get"}').read() == 42
        with pytest.raises(MeasurementError, match="has no series writes_total"):
            prometheus_count(url, "writes_total").read()


def test_an_endpoint_that_hangs_is_said_and_waited_for_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collectors.counts._ANSWER_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        count = prometheus_count(f"http://127.0.0.1:{hanging.getsockname()[1]}/", "reads_total")
        with pytest.raises(MeasurementError, match="does not answer: timed out"):
            count.read()
    with pytest.raises(UsageError, match="no address"):
        prometheus_count("ftp://x", "y")


def test_a_counter_that_goes_down_counts_no_more(tmp_path: Path) -> None:
    answers = iter((10.0, 30.0, 7.0, 50.0))
    count = QueryCount(Count("test", lambda: next(answers)))
    before = time.monotonic_ns()
    for _ in range(4):
        count.ask()
    assert count.failed == "it went down, from 30 to 7: it is no count, or began anew"
    assert count.asked == 2 and count.at(before) is None and count.at(time.monotonic_ns()) is None
    with Children() as children:
        with pytest.raises(MeasurementError, match="printed 'a b', which is no number"):
            command_count("echo a b", children).read()
        with pytest.raises(MeasurementError, match="failed with exit code 3: no server"):
            command_count("echo no server >&2; exit 3", children).read()
        growing = command_count(f"echo warning >&2; printf . >>{tmp_path}/n; wc -c <{tmp_path}/n", children)
        assert [growing.read() for _ in range(11)] == list(range(1, 12))


def test_what_cannot_be_a_target_is_refused_with_its_reason(ioflame: Ioflame, tmp_path: Path) -> None:
    with service(["sleep", "60"]) as process:
        watching = Target([process.pid])
        code, _, err = ioflame.run("attach", "--pid", str(process.pid), "--out", tmp_path / "runs")
        assert code == 2 and f"process {process.pid} is watched by another ioflame" in err
        del watching
        # As a user who may not look into it.
        if os.geteuid() == 0:
            code, _, err = ioflame.run(
                "attach", "--pid", str(process.pid), "--out", tmp_path / "runs",
                prefix=("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
            )  # fmt: skip
            assert code == 3 and "is not ours" in err and f"doctor --attach {process.pid}" in err
    for pid, words in ((2, "is a kernel thread"), (process.pid, "there is no process")):
        code, _, err = ioflame.run("attach", "--pid", str(pid), "--out", tmp_path / "runs")
        assert code == 2 and words in err
    code, _, err = ioflame.run("attach", "--pid", "1", "--count", "echo no", "--seconds", "1")
    assert code == 2 and "--seconds 1 is out of range" in err
    assert shlex.split(err.rsplit("fix:", 1)[1])[0] == "--seconds"
    assert not (tmp_path / "runs").exists()


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
            with pytest.raises(UsageError, match="is watched by another ioflame"):
                Target([first])
            del watching
        watching = Target([child])
        del watching
        os.killpg(parent.pid, signal.SIGKILL)


def test_a_container_is_a_control_group_and_found_by_its_id(ioflame: Ioflame, tmp_path: Path) -> None:
    """A group as runtimes make them; nothing runs in it until a process is put there."""
    mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()]
    place = next(Path(words[4]) for words in mounts if words[words.index("-") + 1] in ("cgroup2", "cgroup"))
    identity = "3f2a9c1b7d44" + f"{os.getpid():052x}"
    group = place / f"docker-{identity}.scope"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group may be made here: {error}")
    try:
        with pytest.raises(UsageError, match="no control group of that name holds a process"):
            container_group(identity)
        with service(["sleep", "60"]) as process:
            (group / "cgroup.procs").write_text(str(process.pid), encoding="ascii")
            assert container_group(identity) == container_group(identity[:20]) == named_group(group.name) == group
            # What is in a watched group is watched, and the other way round.
            watching = Target([process.pid])
            code, _, err = ioflame.run("attach", "--cgroup", group, "--out", tmp_path / "runs")
            assert code == 2 and f"process {process.pid} is watched by another ioflame" in err
            del watching
            other = ioflame.start("attach", "--cgroup", str(group), "--collect=null", "--out", str(tmp_path / "other"))
            until(lambda: list(tmp_path.glob(f"other/*/{Files.RECORD}")), other)
            with pytest.raises(UsageError, match=r"as a part of group \d+, is watched by another ioflame"):
                Target([process.pid])
            other.terminate()
            other.communicate(timeout=60)
            words = ("attach", "--out", tmp_path / "runs", "--count", "echo no number")
            code, _, err = ioflame.run(*words, "--container", identity)
            assert code == 2 and "the count failed: the count printed 'no number'" in err
        code, _, err = ioflame.run(*words, "--cgroup", str(group))
        assert code == 2 and "no process is in" in err and not list((tmp_path / "runs").glob("*"))
    finally:
        group.rmdir()
    with pytest.raises(UsageError, match="is no id"):
        container_group("web")


def test_a_program_without_an_engine_is_called_by_its_own_name(ioflame: Ioflame, tmp_path: Path) -> None:
    with service([sys.executable, "-c", "while True: pass"]) as process:
        words = ("--seconds=5", "--collect=perf", "--out", str(tmp_path))
        code, out, err = ioflame.run("attach", "--pid", str(process.pid), *words)
        program = Path("/proc", str(process.pid), "exe").readlink()
    assert code in (0, 1), err
    assert f", 1 thread, {program}\n" in out and "rocksdb in" not in out
    page = (tmp_path / "latest" / Files.REPORT).read_text(encoding="utf-8")
    assert f"{program}; symbols" in page and "rocksdb in" not in page


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[view.owner]\ndescription = 'd'\nwalk = 'root'\n", "view.owner: Object missing required field `category`"),
        ("[view.owner]\ncategory = [{label = 'x'}]\n", "view.owner: Object missing required field `name`"),
        ("view = 5\n", "Expected `object`, got `int`"),
        (f"schema = {'[' * 3000}", "nested too deep"),
    ],
)
def test_rules_that_are_none_are_refused_before_anything_is_attached(
    ioflame: Ioflame, tmp_path: Path, text: str, words: str
) -> None:
    rules = tmp_path / "my.toml"
    rules.write_text(text, encoding="ascii")
    with service(["sleep", "60"]) as process:
        code, _, err = ioflame.run("attach", f"--pid={process.pid}", "--rules", rules, "--out", tmp_path / "runs")
    assert (code, f"--rules {rules}: " in err, words in err) == (2, True, True), err
    assert not list(tmp_path.glob("runs/*"))


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
