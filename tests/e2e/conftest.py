"""A database that all end-to-end tests read, loaded once by ioflame itself, and one whole smoke run."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from ioflame.record import RunRecord
from ioflame.run import open_run

KEYS = "400000"


@dataclass(frozen=True)
class Finished:
    """A profile that ended: what it printed and left."""

    code: int
    out: str
    err: str
    directory: Path
    record: RunRecord


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory on a real disk; pytest's own may be in memory."""
    return tmp_path_factory.mktemp("ioflame")


@pytest.fixture(scope="session")
def finished(place: Path) -> Finished:
    """`make profile`, as a user runs it: it loads its database and profiles it."""

    variables = [f"NUM_KEYS={KEYS}", f"DB_DIR={place}/db", f"OUT={place}/runs", "SCALE=smoke", "WORKLOAD=readrandom"]
    done = subprocess.run(
        ["make", "profile", *variables],
        cwd=Path(__file__).parent.parent.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    directory = (place / "runs" / "latest").resolve()
    assert done.returncode == 0, done.stderr + done.stdout
    return Finished(done.returncode, done.stdout, done.stderr, directory, open_run(directory).record)


@pytest.fixture
def short(finished: Finished, place: Path) -> list[str]:
    """Arguments of a short profile on the database that `finished` has loaded."""
    del finished
    arguments = {"--scale": "smoke", "--num-keys": KEYS, "--db-dir": f"{place}/db", "--duration": "2"}
    return ["profile", *(f"{name}={value}" for name, value in arguments.items())]
