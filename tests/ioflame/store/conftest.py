"""Four runs of two versions, and a store of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ground.results.run import Run
from ground.results.store.database import Store
from ioflame.store.add import add_to_store
from tests.ioflame.store.stored import made_run


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    out = tmp_path_factory.mktemp("runs")
    versions = ("7.8.3", "7.8.3", "9.0.1", "9.0.1")
    return [made_run(out, 100 + i, version, 30 * (version == "9.0.1")) for i, version in enumerate(versions)]


@pytest.fixture(scope="session")
def kept(runs: list[Run], tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("kept") / "store"
    made = Store(directory, create=True)
    for run in runs:
        add_to_store(made, run.directory)
    return directory


@pytest.fixture
def store(kept: Path, tmp_path: Path) -> Store:
    """A copy of the store of all runs."""
    return Store(shutil.copytree(kept, tmp_path / "store"))
