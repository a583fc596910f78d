"""Servers of others, started here on sockets and in directories of their own: their queries by category."""

from __future__ import annotations

import bisect
import contextlib
import os
import pwd
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from collectors.counts import command_count
from ground.results.categories import read_categories
from ground.results.checks import Verdict
from ground.results.files import Files
from ground.results.query_records import read_query_records, read_recorded
from ground.results.record import Window
from ground.results.run import Run, open_run
from ground.system.process import Children
from tests.conftest import Ioflame
from tests.pgbench import assert_counted, ends_of_transactions, logging_to
from tests.until import until
from workloads.registry import service_named

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.needs("perf", "co-re")]

POSTGRESQL = max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path())
_SECONDS = 12
_QUERIES = 3000
_WORDS = (f"--seconds={_SECONDS}", "--freq=499", "--collect=perf,iolat")


@dataclass
class Client:
    """What a load generator prints of itself once a second. moments: CLOCK_MONOTONIC in s, queries until then"""

    process: subprocess.Popen[str]
    rate: re.Pattern[str]
    moments: list[tuple[float, float]] = field(default_factory=list)

    def read(self) -> None:
        """Until it ends: its queries a second since it last said so."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if found := self.rate.search(line):
                now = time.monotonic()
                at, queries = self.moments[-1] if self.moments else (now - 1, 0.0)
                self.moments.append((now, queries + float(found[1]) * (now - at)))

    def queries_in(self, windows: Sequence[Window]) -> float:
        return sum(self._at(window.end_ns / 1e9) - self._at(window.start_ns / 1e9) for window in windows)

    def _at(self, moment: float) -> float:
        right = bisect.bisect(self.moments, (moment, 0.0))
        (begin, first), (end, last) = self.moments[right - 1 : right + 1]
        return first + (last - first) * (moment - begin) / (end - begin)


@dataclass(frozen=True)
class Served:
    """A server that was attached to under its load: what was printed and left, and its client.

    gained: by the count, while another client sent `_QUERIES`
    """

    code: int
    out: str
    err: str
    run: Run
    client: Client
    gained: float


def as_user(name: str) -> tuple[str, ...]:
    """Before a command line: servers refuse to be root's."""
    return (
        ("setpriv", f"--reuid={name}", f"--regid={pwd.getpwnam(name).pw_gid}", "--clear-groups")
        if os.geteuid() == 0
        else ()
    )


@contextlib.contextmanager
def home(tmp_path_factory: pytest.TempPathFactory, user: str) -> Iterator[Path]:
    """A directory of the server's own, which it can reach."""
    place = tmp_path_factory.mktemp(user)
    if os.geteuid() == 0:
        shutil.chown(place, user)
        for parent in place.parents:
            if parent.stat().st_uid == 0 and not parent.stat().st_mode & 0o001 and len(parent.parts) > 2:
                parent.chmod(parent.stat().st_mode | 0o011)
    yield place
    shutil.rmtree(place)


def done(argv: list[str], **more: object) -> str:
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=200, check=False, **more)  # type: ignore[call-overload]
    assert ended.returncode == 0, f"{argv}: {ended.stderr}{ended.stdout}"
    return str(ended.stdout)


@contextlib.contextmanager
def server(argv: list[str], log: Path, answers: list[str]) -> Iterator[int]:
    """A server that answers; its pid."""
    with log.open("wb") as file:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        try:

            def lives() -> bool:
                assert process.poll() is None, log.read_text(encoding="utf-8", errors="replace")
                return True

            answered = lambda: subprocess.run(answers, capture_output=True, check=False).returncode == 0  # noqa: E731
            until(answered, as_long_as=lives, every=0.1)
            yield process.pid
        finally:
            process.terminate()
            process.wait(60)


def gained(count: str, load: list[str]) -> float:
    """By a command that counts queries, while the client sends `_QUERIES`."""
    with Children() as children:
        counter = command_count(count, children)
        before = counter.read()
        done(load)
        return counter.read() - before


def under_load(pid: int, load: list[str], rate: str, out: Path, count: Sequence[str], known: float) -> Served:
    """Attaches for `_SECONDS` while the client runs; rate: the pattern of its queries a second, printed each second

    known: what the count gained by `_QUERIES`
    """
    process = subprocess.Popen(load, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    client = Client(process, re.compile(rate))
    reader = threading.Thread(target=client.read)
    reader.start()

    def tells_more() -> None:
        """Waits for the next line of the client."""
        now = time.monotonic()
        until(lambda: client.moments and client.moments[-1][0] >= now, process)

    try:
        tells_more()
        ioflame = Ioflame()
        code, said, errors = ioflame.run("attach", "--pid", str(pid), "--out", out, "-v", *_WORDS, *count)
        tells_more()
    finally:
        process.terminate()
        reader.join()
        process.wait()
    return Served(code, said, errors, open_run((out / "latest").resolve()), client, known)


@contextlib.contextmanager
def serving_postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path, list[str]]]:
    """Debian's PostgreSQL with ten times as much data as shared_buffers holds: pid, directory, and pgbench -S."""
    with home(tmp_path_factory, "postgres") as place, pytest.MonkeyPatch.context() as monkeypatch:
        user, data = as_user("postgres"), place / "data"
        done([*user, str(POSTGRESQL / "initdb"), "-D", str(data), "-A", "trust", "-U", "postgres", "--no-sync"])
        settings = ["listen_addresses=", f"unix_socket_directories={place}", "shared_buffers=16MB", "fsync=off"]
        argv = [*user, str(POSTGRESQL / "postgres"), "-D", str(data)]
        argv += [word for one in settings for word in ("-c", one)]
        connected = ["-h", str(place), "-U", "postgres"]
        with server(argv, place / "log", [str(POSTGRESQL / "pg_isready"), *connected]) as pid:
            pgbench = [str(POSTGRESQL / "pgbench"), *connected]
            done([*pgbench, "-i", "-q", "-s", "10", "postgres"])
            monkeypatch.setenv("PGHOST", str(place))
            monkeypatch.setenv("PGUSER", "postgres")
            yield pid, place, [*pgbench, "-n", "-S", "-c", "1", "postgres"]


@dataclass(frozen=True)
class Logged:
    """ends: when pgbench had the answer to each of its transactions, CLOCK_MONOTONIC in s, ascending"""

    served: Served
    ends: list[float]


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logged]:
    with serving_postgresql(tmp_path_factory) as (pid, place, pgbench):
        known = gained(service_named("postgresql").count["transactions"].command, [*pgbench, "-t", str(_QUERIES)])
        load, rate = [*pgbench, "-P", "1", "-T", "3600"], r"^progress: .* s, ([\d.]+) tps"
        load += logging_to(place)
        served = under_load(pid, load, rate, place / "runs", ["--count-preset=transactions"], known)
        yield Logged(served, ends_of_transactions(place))


@pytest.fixture
def postgresql(logged: Logged) -> Served:
    return logged.served


@pytest.mark.needs("postgresql")
def test_a_query_of_postgresql_is_told_by_category(postgresql: Served) -> None:
    assert postgresql.code == 0, postgresql.err + postgresql.out
    record = postgresql.run.record
    assert record.engine == "postgresql" and "us/query" in postgresql.out
    rows = {row.name: row for row in read_categories(postgresql.run.directory).rows}
    assert rows["other"].share <= 10
    for name in ("storage read", "buffers", "index", "planner", "parser", "executor", "protocol", "locks"):
        assert rows[name].weight > 0, name
    figures = [row.us_per_query for row in rows.values()]
    assert sum(us for us in figures if us is not None) == pytest.approx(record.metrics["cpuPer"], rel=1e-6)
    # A backend is forked for each connection, psql's among them: all of them are seen, and told by their titles.
    assert record.target is not None and {"client backends", "checkpointer", "walwriter"} <= record.target.groups.keys()
    assert not [check for check in record.checks if check.verdict is Verdict.FAILED]


@pytest.mark.needs("postgresql")
def test_slow_queries_of_postgresql_are_calls_of_the_function_that_counts_them(
    ioflame: Ioflame, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with serving_postgresql(tmp_path_factory) as (pid, place, pgbench):
        load = subprocess.Popen([*pgbench, "-T", "3600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            words = ("--seconds=12", "--collect=null", "--tail", "--count-symbol=PortalRun")
            code, out, err = ioflame.run("attach", "--pid", str(pid), "--out", place / "runs", *words)
        finally:
            load.terminate()
            load.wait()
        assert code == 0, err + out
        run = open_run((place / "runs" / "latest").resolve())
        recorded = read_recorded(run.path(Files.RECORDED))
        records = read_query_records(run.path(Files.QUERY_RECORDS)).records
    assert recorded.kind == "query" and [watched.name for watched in recorded.query] == ["PortalRun()"]
    assert records and all(sum(one.parts) == one.ns for one in records)
    checks = [check for check in run.record.checks if check.name.startswith("tail")]
    assert checks and not [check for check in checks if check.verdict is Verdict.FAILED]


@pytest.mark.needs("postgresql")
def test_the_statistics_of_postgresql_and_its_client_count_the_same_queries(logged: Logged) -> None:
    served, record = logged.served, logged.served.run.record
    # A backend reports its transactions once a second, and asking takes a while.
    assert record.target is not None and record.target.count_lag == 1
    assert_counted(record.windows, logged.ends, late=1.1)
    # Of a whole life of a client both know each one; asking is a transaction, and so is what pgbench looks up first.
    assert _QUERIES <= served.gained <= _QUERIES + 10


@pytest.fixture(scope="module")
def myrocks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """MariaDB with its plugin of RocksDB, under sysbench's point selects."""
    with home(tmp_path_factory, "mysql") as place:
        data, socket = place / "data", place / "s"
        user = ["--user=mysql"] if os.geteuid() == 0 else []
        done(["mariadb-install-db", "--no-defaults", *user, f"--datadir={data}", "--skip-test-db",
              "--auth-root-authentication-method=normal"])  # fmt: skip
        settings = {
            "datadir": data,
            "socket": socket,
            "pid-file": place / "pid",
            "innodb-buffer-pool-size": "16M",
            "rocksdb-block-cache-size": "4M",
            "plugin-load-add": "ha_rocksdb.so",
        }
        argv = ["mariadbd", "--no-defaults", *user, "--skip-networking", *(f"--{k}={v}" for k, v in settings.items())]
        client = ["mariadb", "--no-defaults", f"--socket={socket}", "-uroot"]
        with server(argv, place / "log", [*client, "-e", "select 1"]) as pid:
            faster = "set global rocksdb_bulk_load=1, global rocksdb_flush_log_at_trx_commit=0"
            done([*client, "-e", f"create database sbtest; {faster}"])
            sysbench = ["sysbench", "oltp_point_select", f"--mysql-socket={socket}", "--mysql-user=root", "--tables=1",
                        "--table-size=100000", "--mysql-storage-engine=rocksdb", "--create_secondary=off"]  # fmt: skip
            done([*sysbench, "prepare"])
            done([*client, "-e", "set global rocksdb_force_flush_memtable_now=1"])
            query = " ".join([*client, "-BNe", "\"SHOW GLOBAL STATUS LIKE 'Com_select'\"", "| cut -f2"])
            # All keys alike: a few hot ones are in the block cache, and leave the engine little to do.
            sysbench += ["--threads=1", "--time=3600", "--rand-type=uniform"]
            known = gained(query, [*sysbench, f"--events={_QUERIES}", "run"])
            load = ["stdbuf", "-oL", *sysbench, "--report-interval=1", "run"]
            # Most of a point select is the server's and the socket's: of 49 Hz the engine's part would be 30 samples.
            options = (f"--count={query}", "--freq=499")
            yield under_load(pid, load, r"^\[ \d+s \] .* qps: ([\d.]+) ", place / "runs", options, known)


@pytest.mark.needs("myrocks")
def test_server_and_engine_of_myrocks_are_in_one_table(myrocks: Served) -> None:
    assert myrocks.code == 0, myrocks.err + myrocks.out
    record = myrocks.run.record
    assert record.engine == "myrocks"
    shares = {row.name: row.share for row in read_categories(myrocks.run.directory).rows}
    engine = sum(shares[name] for name in ("libc+k", "checksm", "IBI:Sk", "DBI:Sk", "LRU", "BSI"))
    server_layer = sum(shares[name] for name in ("network", "parser", "tables", "optimizer", "commit", "server"))
    assert engine > 3 and server_layer > 20 and shares["handler"] > 1
    assert shares["other"] < 20
    queries = sum(window.counters.queries or 0 for window in record.windows)
    assert queries == pytest.approx(myrocks.client.queries_in(record.windows), rel=0.2)
    assert myrocks.gained == _QUERIES
    assert not [check for check in record.checks if check.verdict is Verdict.FAILED]
