"""A database that the end-to-end tests read: loaded once for all workers, each of which has a copy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ground.system.process import Children
from ground.text.progress import Reporter
from ioflame.measure.job import resolve
from tests.ioflame.asked import options
from tests.recorded_run import KEYS, made_once
from workloads.database import locked


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory on a real disk; pytest's own may be in memory."""
    return tmp_path_factory.mktemp("ioflame")


def _load(directory: Path) -> None:
    reporter = Reporter(quiet=True)
    job = resolve(options("--quiet", "--scale=smoke", f"--num-keys={KEYS}", f"--db-dir={directory}"), reporter)
    with locked(directory), Children() as children:
        database = job.database()
        database.load(children, reporter, directory.parent / "load.log")
        database.settle(children, reporter, directory.parent / "settle.log")


@pytest.fixture(scope="session")
def loaded(place: Path, shared: Path) -> Path:
    """A database that `short` profiles and their like read, loaded by nobody's profile: one process may open it."""
    return Path(shutil.copytree(made_once(shared, "db", _load), place / "db"))


@pytest.fixture
def short(loaded: Path) -> list[str]:
    """Arguments of a short profile on the loaded database."""
    arguments = {"--scale": "smoke", "--num-keys": KEYS, "--db-dir": str(loaded), "--duration": "2"}
    return ["profile", *(f"{name}={value}" for name, value in arguments.items())]
