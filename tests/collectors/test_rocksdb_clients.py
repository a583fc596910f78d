"""A process is known by the database that it has open, and by nothing that it is called."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from collectors.rocksdb_clients import argv_of, has_open, open_database, thread_names, version_in, working_directory
from ground.results.roles import client_roles
from ground.system.held_process import HeldProcess

_HOLDS = "import sys\nheld = [open(path) for path in sys.argv[1:]]\nprint('open', flush=True)\nsys.stdin.read()"


@contextmanager
def holding(*files: Path) -> Iterator[HeldProcess]:
    """A process that has these files open, in their directory."""
    argv = [sys.executable, "-c", _HOLDS, *map(str, files)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(argv, cwd=files[0].parent, text=True, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "open\n"
        yield HeldProcess(process.pid)
        process.stdin.close()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    place = tmp_path / "my db"
    place.mkdir()
    for name in ("CURRENT", "OPTIONS-000007", "LOCK", "MANIFEST-000005", "000012.sst"):
        (place / name).touch()
    return place


@pytest.mark.parametrize("name", ["LOCK", "MANIFEST-000005", "000012.sst"])
def test_an_open_file_of_a_database_tells_its_directory(database: Path, name: str) -> None:
    with holding(database / name) as process:
        assert open_database(process) == database
        assert has_open(process, database / name) and not has_open(process, database / "CURRENT")
        assert not has_open(process, None) and working_directory(process) == database
        assert argv_of(process)[-1] == str(database / name)
        names = thread_names(process)
        assert set(names) == {process.pid}
        assert client_roles(names, process.pid, 1, with_writer=False, writes=False) == {}


def test_files_that_others_call_so_are_none(database: Path) -> None:
    (database / "OPTIONS-000007").unlink()  # LevelDB has no such file
    with holding(database / "LOCK") as process:
        assert open_database(process) is None
    assert open_database(process) is None and argv_of(process) == [], "it has ended"


def test_the_version_is_the_one_that_the_log_begins_with(database: Path) -> None:
    assert version_in(database) == ""
    (database / "LOG").write_text("2026/11/26-00:00:00.0 140 RocksDB version: 7.8.3\n2026/11/26 Git sha 0\n")
    assert version_in(database) == "7.8.3"
