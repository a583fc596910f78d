"""Servers of others, started here on sockets and in directories of their own: their queries by category."""

from __future__ import annotations

import bisect
import contextlib
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from collectors.counts import command_count
from ground.results.categories import read_categories
from ground.results.files import Files
from ground.results.query_records import read_query_records, read_recorded
from ground.results.record import Window
from ground.system.page_cache import drop_files
from ground.system.process import Children
from tests.e2e.commands import attached, service
from tests.ebpf.requests_window import seen
from tests.figures import Report
from tests.pgbench import ends_of_transactions, logging_to
from tests.recorded_run import Measured
from tests.until import until
from workloads.registry import service_named

pytestmark = [pytest.mark.by_hand, pytest.mark.needs("perf", "co-re")]

POSTGRESQL = max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path())
_SECONDS = 12
_QUERIES = 3000
_WORDS = (f"--seconds={_SECONDS}", "--freq=499", "--collect=perf,iolat")


@dataclass(frozen=True)
class Served:
    """A server that was attached to under its load: what was printed and left.

    gained: by the count, while another client sent `_QUERIES`; said: by the client of that load
    """

    done: Measured
    gained: float
    said: str


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


def under_load(pid: int, load: list[str], out: Path, count: Sequence[str], known: float) -> Served:
    """Attaches while the client runs. known: what the count gained by `_QUERIES`"""
    log = out.with_name("client.log")
    with log.open("wb") as file, service(load, stdout=file, stderr=file) as client:
        until(lambda: log.stat().st_size, client)
        done = attached(out, [pid], "-v", *_WORDS, *count)
    return Served(done, known, log.read_text(encoding="utf-8", errors="replace"))


@contextlib.contextmanager
def postgresql_in(place: Path, buffers: str, scale: int) -> Iterator[tuple[int, list[str]]]:
    """Debian's PostgreSQL, with pgbench's tables: its pid, and `pgbench -n -S`, which connects to it."""
    user, data = as_user("postgres"), place / "data"
    done([*user, str(POSTGRESQL / "initdb"), "-D", str(data), "-A", "trust", "-U", "postgres", "--no-sync"])
    settings = ["listen_addresses=", f"unix_socket_directories={place}", f"shared_buffers={buffers}", "fsync=off"]
    argv = [*user, str(POSTGRESQL / "postgres"), "-D", str(data), *(word for one in settings for word in ("-c", one))]
    connected = ["-h", str(place), "-U", "postgres"]
    with server(argv, place / "log", [str(POSTGRESQL / "pg_isready"), "-q", *connected]) as pid:
        pgbench = [str(POSTGRESQL / "pgbench"), *connected]
        done([*pgbench, "-i", "-q", "-s", str(scale), "postgres"])
        yield pid, [*pgbench, "-n", "-S"]


@contextlib.contextmanager
def serving_postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path, list[str]]]:
    """With ten times as much data as shared_buffers holds: pid, directory, and pgbench -S."""
    with home(tmp_path_factory, "postgres") as place, pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("PGHOST", str(place))
        monkeypatch.setenv("PGUSER", "postgres")
        with postgresql_in(place, "16MB", 10) as (pid, pgbench):
            yield pid, place, [*pgbench, "-c", "1", "postgres"]


@pytest.mark.needs("postgresql")
def test_a_query_of_postgresql_is_told_by_category_and_counted_as_its_client_does(
    tmp_path_factory: pytest.TempPathFactory, figure: Report
) -> None:
    with serving_postgresql(tmp_path_factory) as (pid, place, pgbench):
        known = gained(service_named("postgresql").count["transactions"].command, [*pgbench, "-t", str(_QUERIES)])
        load = [*pgbench, "-P", "1", "-T", "3600", *logging_to(place)]
        served = under_load(pid, load, place / "runs", ["--count-preset=transactions"], known)
        ends, record = ends_of_transactions(place), served.done.record
        rows = {row.name: row for row in read_categories(served.done.run.directory).rows}
    assert record.engine == "postgresql" and "us/query" in served.done.out
    figure("share of `other`, %", rows["other"].share, expected="<= 10")
    for name in ("storage read", "buffers", "index", "planner", "parser", "executor", "protocol", "locks"):
        assert rows[name].weight > 0, name
    figures = [row.us_per_query for row in rows.values()]
    assert sum(us for us in figures if us is not None) == pytest.approx(record.metrics["cpuPer"], rel=1e-6)
    # A backend is forked for each connection, psql's among them: all of them are seen, and told by their titles.
    assert record.target is not None and {"client backends", "checkpointer", "walwriter"} <= record.target.groups.keys()
    # A backend reports its transactions once a second, and asking takes a while.
    assert record.target.count_lag == 1
    figures_of_transactions(figure, record.windows, ends)
    # Of a whole life of a client both know each one; asking is a transaction, and so is what pgbench looks up first.
    assert _QUERIES <= served.gained <= _QUERIES + 10


@pytest.mark.needs("postgresql")
def test_slow_queries_of_postgresql_are_calls_of_the_function_that_counts_them(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with serving_postgresql(tmp_path_factory) as (pid, place, pgbench):
        with service([*pgbench, "-T", "3600"], stderr=subprocess.DEVNULL):
            words = ("--seconds=12", "--collect=null", "--tail", "--count-symbol=PortalRun")
            done = attached(place / "runs", [pid], *words)
        recorded = read_recorded(done.run.path(Files.RECORDED))
        records = read_query_records(done.run.path(Files.QUERY_RECORDS)).records
    assert recorded.kind == "query" and [watched.name for watched in recorded.query] == ["PortalRun()"]
    assert records and all(sum(one.parts) == one.ns for one in records)


def figures_of_transactions(figure: Report, windows: Sequence[Window], ends: list[float]) -> None:
    """Of each window how many transactions were counted, and how many ended in it."""
    for window in windows:
        ended = bisect.bisect(ends, window.end_ns / 1e9) - bisect.bisect(ends, window.start_ns / 1e9)
        figure(f"transactions counted in a {window.kind} window", window.counters.queries or 0, expected=str(ended))


@pytest.mark.needs("postgresql")
def test_a_relation_is_told_by_its_path_and_by_its_name(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, figure: Report
) -> None:
    with serving_postgresql(tmp_path_factory) as (pid, place, pgbench):

        def load() -> None:
            # Read before, so they are in the page cache; what the server wants now it reads from the device.
            drop_files((place / "data").glob("base/*/*"))
            done([*pgbench[:-1], "-t", "3000", "postgres"])

        titled = f"host={place} user=postgres dbname=postgres"
        found = seen(tmp_path, load, pid=pid, database=place / "data", engine="postgresql", titles=titled)
    relations = [row for row in found.attribution.files if row.kind == "relation"]
    titles = {row.title for row in relations if row.reads}
    assert {f"postgres.public.pgbench_accounts{part}" for part in ("", "_pkey")} <= titles, titles
    accounts = next(row for row in relations if row.title == "postgres.public.pgbench_accounts")
    assert accounts.name.startswith("base/") and accounts.reads > 0
    assert "postgres.public.pgbench_accounts" in found.text
    # A backend is forked for each connection.
    ours = found.count(operation="read", submitter="process")
    figure("reads of relations / reads", found.count(operation="read", submitter="process", kind="relation") / ours,
           expected=">= 0.9")  # fmt: skip


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
            yield under_load(pid, load, place / "runs", options, known)


@pytest.mark.needs("myrocks")
def test_server_and_engine_of_myrocks_are_in_one_table(myrocks: Served, figure: Report) -> None:
    record = myrocks.done.record
    assert record.engine == "myrocks"
    shares = {row.name: row.share for row in read_categories(myrocks.done.run.directory).rows}
    for name, rows, expected in (
        ("engine", ("libc+k", "checksm", "IBI:Sk", "DBI:Sk", "LRU", "BSI"), "> 3"),
        ("server", ("network", "parser", "tables", "optimizer", "commit", "server"), "> 20"),
        ("handler", ("handler",), "> 1"),
        ("rest", ("other",), "< 20"),
    ):
        figure(f"share of the {name}, %", sum(shares[row] for row in rows), expected=expected)
    printed = [float(rate) for rate in re.findall(r"^\[ \d+s \] .* qps: ([\d.]+) ", myrocks.said, re.MULTILINE)]
    figure("queries a second", record.metrics["qps"], expected=f"{min(printed)} to {max(printed)} by its client")
    assert myrocks.gained == _QUERIES
