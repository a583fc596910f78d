from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from ground.errors import UsageError
from ground.system.process import Children
from ground.text.progress import Reporter
from tests.workloads.test_artifact import build
from workloads.database import MANIFEST, Database, is_loaded, locked
from workloads.engines.rocksdb.engine import RocksDB
from workloads.scales import DatabaseShape, Sizing
from workloads.seeds import SeedLedger

SHAPE = DatabaseShape(20_000)
CACHE = 1 << 20


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Called like a complaint of an engine."""
    return tmp_path / "error, failed"


@pytest.fixture
def database(place: Path) -> Iterator[Database]:
    """Of a build that is nowhere."""
    with locked(place):
        yield Database(RocksDB(), build(Path("/bin/db_bench")), place, Sizing(SHAPE, CACHE))


@pytest.fixture
def real(place: Path) -> Iterator[Database]:
    engine = RocksDB()
    with locked(place):
        yield Database(engine, engine.inspect(engine.find_binary(None)), place, Sizing(SHAPE, CACHE))


def load(database: Database, log: Path) -> None:
    with Children() as children:
        database.load(children, Reporter(quiet=True), log)


@pytest.mark.long
@pytest.mark.needs("db_bench")
def test_a_load_is_done_once_and_recognised(real: Database, place: Path, tmp_path: Path) -> None:
    assert real.check() is False
    load(real, tmp_path / "load.log")
    assert is_loaded(place) and real.check() and str(place) in (tmp_path / "load.log").read_text()
    with Children() as children:
        tree = real.settle(children, Reporter(quiet=True), tmp_path / "settle.log")
        again = real.settle(children, Reporter(quiet=True), tmp_path / "again.log")
    assert sum(level.mib for level in tree.levels) >= 8
    assert tree == again and tree.memtable_entries == 0
    assert [(c.name, c.returncode) for c in children] == [("db_bench settle", 0), ("db_bench levelstats", 0)]
    assert real.seeds == SeedLedger(place).ranges()
    assert [r.step for r in real.seeds] == ["load", "settle", "levelstats"]
    assert f"--seed={real.seeds[1].first}" in next(iter(children)).argv
    # Somebody opened it with other settings since: what its files say counts, not our note beside them.
    options = max(place.glob("OPTIONS-*"), key=lambda p: int(p.name.rpartition("-")[2]))
    options.write_text(options.read_text().replace("block_size=8192", "block_size=4096"))
    with pytest.raises(UsageError, match="block_size: 4096 in its own files, 8192 asked"):
        real.check()


@pytest.mark.long
@pytest.mark.needs("db_bench")
def test_a_load_that_was_killed_is_done_again_and_spares_what_is_not_its_own(
    real: Database, place: Path, tmp_path: Path
) -> None:
    load(real, tmp_path / "load.log")
    manifest = place / MANIFEST
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "state": "loading"}))
    (place / "000999.sst").write_text("half a file")
    (place / "notes.txt").write_text("mine")
    assert not is_loaded(place) and not real.check()
    load(real, tmp_path / "load.log")
    assert real.check() and not (place / "000999.sst").exists()
    assert (place / "notes.txt").read_text() == "mine"


def test_a_directory_of_somebody_else_is_refused_untouched(database: Database, place: Path) -> None:
    (place / "000001.sst").write_text("precious")
    with pytest.raises(UsageError, match=r"files that ioflame did not make \(000001\.sst"):
        database.check()
    assert (place / "000001.sst").read_text() == "precious"


def test_a_second_ioflame_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    with locked(tmp_path):
        again = locked(tmp_path)
        with pytest.raises(UsageError, match=f"in use by the ioflame with pid {os.getpid()}"), again:
            pass
    with locked(tmp_path):
        pass


@pytest.mark.parametrize("state", ["loaded", "within compact", "loading"])
def test_a_database_of_other_settings_is_not_wiped_even_if_a_step_was_interrupted(
    database: Database, place: Path, state: str
) -> None:
    manifest = {"state": state, "engine": "rocksdb", "shape": {**asdict(SHAPE), "num_keys": 30_000}}
    (place / MANIFEST).write_text(json.dumps(manifest))
    (place / "000012.sst").write_text("hours of loading")
    with pytest.raises(UsageError, match="num_keys: 30000 there, 20000 asked") as caught:
        database.check()
    interrupted = state != "loaded"
    assert (f"state: {state}" in caught.value.means) == interrupted
    assert "NUM_KEYS=30000" in caught.value.mend and f"rm -r '{place}'" in caught.value.mend
    assert (place / "000012.sst").read_text() == "hours of loading"
    if interrupted:  # the same with its own settings: what the step left is loaded anew
        assert not Database(RocksDB(), database._build, place, Sizing(DatabaseShape(30_000), CACHE)).check()


def test_a_path_that_is_called_like_a_complaint_is_none(database: Database, place: Path) -> None:
    said = f"put error: IO error: While appending to file: {place}/000012.sst: No space left on device"
    assert database._complaints(f"DB path: [{place}]\n{said}\nopen {place}/1.log: done") == [said]
    assert database._complaints(f"{place}-two/failed") == [f"{place}-two/failed"]
    assert not database._complaints("rocksdb.error.handler.bg.error.count COUNT : 0")


def test_a_lock_that_is_a_link_is_refused_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "ioflame.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(UsageError, match="cannot be written to"), locked(tmp_path / "db"):
        pass
    assert (tmp_path / "precious").read_text() == "mine"
