"""Files of servers that are started here: PostgreSQL's by their paths and names, MyRocks' by RocksDB."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.e2e.test_services import POSTGRESQL, as_user, done, home, server
from workloads.registry import files_reader, titled

pytestmark = pytest.mark.by_hand


@pytest.fixture
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Sequence[str], str]]:
    """Its data directory, psql's command, and the connection."""
    with home(tmp_path_factory, "postgres") as place:
        user, data = as_user("postgres"), place / "data"
        done([*user, str(POSTGRESQL / "initdb"), "-D", str(data), "-A", "trust", "-U", "postgres", "--no-sync"])
        argv = [*user, str(POSTGRESQL / "postgres"), "-D", str(data), "-k", str(place), "-c", "listen_addresses="]
        connected = ["-h", str(place), "-U", "postgres"]
        with server(argv, place / "log", [str(POSTGRESQL / "pg_isready"), "-q", *connected]):
            yield (
                data,
                ["psql", "-Xq", "-v", "ON_ERROR_STOP=1", *connected],
                f"host={place} user=postgres dbname=postgres",
            )


@pytest.mark.needs("postgresql")
def test_a_server_says_which_files_are_a_table(postgresql: tuple[Path, Sequence[str], str]) -> None:
    data, psql, connection = postgresql
    name = "it's a \\ = db"
    done([*psql, "-d", "postgres", "-c", f'CREATE DATABASE "{name}"'])
    quoted = name.replace("\\", "\\\\").replace("'", "\\'")
    for statement in (
        "CREATE TABLE accounts (id bigint PRIMARY KEY, note text); CREATE UNLOGGED TABLE fast (id int);",
        "INSERT INTO accounts SELECT i, repeat('x', 100) FROM generate_series(1, 1000) i",
        "VACUUM accounts",
        "CHECKPOINT",
    ):
        done([*psql, "-d", f"dbname='{quoted}'", "-c", statement])
    files = files_reader("postgresql").stored_files(data)
    assert {file.kind for file in files.files} >= {
        "relation", "free space map", "visibility map", "init fork", "wal", "transaction status", "control",
    }  # fmt: skip
    others = [file.name for file in files.files if file.kind == "other"]
    assert all(re.search(r"PG_VERSION$|postmaster\.(pid|opts)$", other) for other in others), others
    told = {file.title for file in titled("postgresql", files, connection).files}
    assert {f"{name}.public.accounts", f"{name}.public.accounts_pkey", f"{name}.public.accounts (toast)"} <= told
    assert {f"{name}.public.accounts (visibility map)", f"{name}.public.fast (init fork)"} <= told
    assert {"pg_catalog.pg_database", "postgres.pg_catalog.pg_class"} <= told


@pytest.mark.needs("myrocks")
def test_a_database_within_a_servers_directory_has_its_column_families(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with home(tmp_path_factory, "mysql") as place:
        data, socket = place / "data", place / "s"
        user = ["--user=mysql"] if os.geteuid() == 0 else []
        done(["mariadb-install-db", "--no-defaults", *user, f"--datadir={data}", "--skip-test-db",
              "--auth-root-authentication-method=normal"])  # fmt: skip
        argv = ["mariadbd", "--no-defaults", *user, "--skip-networking", f"--datadir={data}", f"--socket={socket}"]
        argv += [f"--pid-file={place}/pid", "--innodb-buffer-pool-size=16M", "--plugin-load-add=ha_rocksdb.so"]
        client = ["mariadb", "--no-defaults", f"--socket={socket}", "-uroot", "-e"]
        with server(argv, place / "log", [*client, "select 1"]):
            reader = files_reader("myrocks")
            table = "create table d.t (id int, primary key (id) comment 'cfname=cf_keys') engine=rocksdb"
            done([*client, f"create database d; {table}"])
            before = reader.stored_files(data)
            flush = "set global rocksdb_force_flush_memtable_now=1"
            done([*client, f"insert into d.t values (1), (2); {flush}; insert into d.t values (3); {flush}"])
            window = reader.stored_files_of_window(before, reader.stored_files(data))
        tables = [file for file in window.files if file.kind == "sst"]
        made = {(file.level, file.made_by) for file in tables if file.column_family == "cf_keys"}
        assert (0, "flush") in made, tables
        assert {file.kind for file in window.files if file.name.startswith("#rocksdb/")} >= {
            "sst", "wal", "manifest", "log",
        }  # fmt: skip
        assert window.notes == ()
