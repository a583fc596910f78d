"""Whose requests are, of a server that is started here: PostgreSQL's relations, by path and by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ground.system.page_cache import drop_files
from tests.e2e.test_services import POSTGRESQL, as_user, done, home, server
from tests.ebpf.whose_window import seen

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.needs("co-re", "postgresql")]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path, list[str]]]:
    """Debian's PostgreSQL with pgbench's tables: its pid, its data and how its clients connect."""
    with home(tmp_path_factory, "postgres") as place:
        user, data = as_user("postgres"), place / "data"
        done([*user, str(POSTGRESQL / "initdb"), "-D", str(data), "-A", "trust", "-U", "postgres", "--no-sync"])
        settings = ["listen_addresses=", f"unix_socket_directories={place}", "shared_buffers=16MB"]
        argv = [*user, str(POSTGRESQL / "postgres"), "-D", str(data)]
        argv += [word for one in settings for word in ("-c", one)]
        connected = ["-h", str(place), "-U", "postgres"]
        with server(argv, place / "log", [str(POSTGRESQL / "pg_isready"), *connected]) as pid:
            done([str(POSTGRESQL / "pgbench"), *connected, "-i", "-q", "-s", "20", "postgres"])
            done([str(POSTGRESQL / "psql"), *connected, "-c", "CHECKPOINT", "postgres"])
            yield pid, data, connected


def test_a_relation_is_told_by_its_path_and_by_its_name(served: tuple[int, Path, list[str]], tmp_path: Path) -> None:
    pid, data, connected = served

    def load() -> None:
        # Read before, so they are in the page cache; what the server wants now it reads from the device.
        drop_files(data.glob("base/*/*"))
        done([str(POSTGRESQL / "pgbench"), *connected, "-n", "-S", "-t", "3000", "postgres"])

    connection = f"host={connected[1]} user=postgres dbname=postgres"
    found = seen(tmp_path, load, pid=pid, database=data, engine="postgresql", titles=connection)
    found.nothing_failed()
    relations = [row for row in found.whose.files if row.kind == "relation"]
    titles = {row.title for row in relations if row.reads}
    assert "postgres.public.pgbench_accounts" in titles and "postgres.public.pgbench_accounts_pkey" in titles, titles
    accounts = next(row for row in relations if row.title == "postgres.public.pgbench_accounts")
    assert accounts.name.startswith("base/") and accounts.reads > 100
    # A backend is forked for each connection.
    ours = found.count(operation="read", submitter="process")
    assert found.count(operation="read", submitter="process", kind="relation") >= 0.9 * ours
    assert "postgres.public.pgbench_accounts" in found.text
