"""A database that the end-to-end tests read, loaded once, and one whole run with every observer that loads its own."""

from __future__ import annotations

import argparse
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from ground.results.record import RunRecord
from ground.results.run import open_run
from ground.system.process import Children
from ground.text.progress import Reporter
from ioflame.commands.arguments import add_profile_arguments, profile_options
from ioflame.measure.job import resolve
from tests.places import ROOT
from workloads.database import locked

KEYS = "400000"
ALL = ("perf", "iolat", "ladder", "offcpu", "runqlat", "pmp", "whose", "null")
# Of a window of the whole run.
SECONDS = 3


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
def loaded(place: Path) -> Path:
    """A database that `short` profiles and their like read, loaded once and by nobody's profile."""
    directory = place / "db"
    parser = argparse.ArgumentParser()
    add_profile_arguments(parser)
    arguments = ["--scale=smoke", f"--num-keys={KEYS}", f"--db-dir={directory}", f"--out={place}/runs", "--quiet"]
    reporter = Reporter(quiet=True)
    job = resolve(profile_options(parser.parse_args(arguments)), reporter)
    with locked(directory), Children() as children:
        database = job.database()
        database.load(children, reporter, place / "load.log")
        database.settle(children, reporter, place / "settle.log")
    return directory


@pytest.fixture(scope="session")
def finished(place: Path) -> Finished:
    """`make profile`, as a user runs it: it loads its database and profiles it, with everything that watches."""
    variables = [f"NUM_KEYS={KEYS}", f"DB_DIR={place}/made", f"OUT={place}/runs", "SCALE=smoke", "WORKLOAD=readrandom"]
    variables += [f"DURATION={SECONDS}", f"COLLECT={' '.join(ALL)}"]
    done = subprocess.run(
        ["make", "profile", *variables],
        cwd=ROOT,
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
def short(loaded: Path) -> list[str]:
    """Arguments of a short profile on the loaded database."""
    arguments = {"--scale": "smoke", "--num-keys": KEYS, "--db-dir": str(loaded), "--duration": "2"}
    return ["profile", *(f"{name}={value}" for name, value in arguments.items())]
