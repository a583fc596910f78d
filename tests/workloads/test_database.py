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
from workloads.database import Database, is_loaded, locked
from workloads.engine import EngineBuild
from workloads.engines.rocksdb.engine import RocksDB
from workloads.seeds import SeedLedger
from workloads.steps import DatabaseShape

SHAPE = DatabaseShape(20_000)
CACHE = 1 << 20


@pytest.fixture(scope="module")
def build() -> EngineBuild:
    engine = RocksDB()
    return engine.inspect(engine.find_binary(None))


@pytest.fixture
def database(tmp_path: Path, build: EngineBuild) -> Iterator[Database]:
    with locked(tmp_path):
        yield Database(RocksDB(), build, tmp_path, SHAPE, CACHE)


def load(database: Database, log: Path) -> None:
    with Children() as children:
        database.load(children, Reporter(quiet=True), log)


@pytest.mark.needs("db_bench")
def test_a_load_is_done_once_and_recognised(database: Database, tmp_path: Path) -> None:
    assert database.check() is False
    load(database, tmp_path / "load.log")
    assert is_loaded(tmp_path)
    assert database.check() is True
    with Children() as children:
        tree = database.settle(children, Reporter(quiet=True), tmp_path / "settle.log")
        again = database.settle(children, Reporter(quiet=True), tmp_path / "again.log")
    assert sum(level.mib for level in tree.levels) >= 8
    assert tree == again
    assert tree.memtable_entries == 0
    assert [(c.name, c.returncode) for c in children] == [("db_bench settle", 0), ("db_bench levelstats", 0)]
    assert database.seeds == SeedLedger(tmp_path).ranges()
    assert [r.step for r in database.seeds] == ["load", "settle", "levelstats"]
    assert f"--seed={database.seeds[1].first}" in next(iter(children)).argv

    other = Database(RocksDB(), database._build, tmp_path, DatabaseShape(30_000), CACHE)
    with pytest.raises(UsageError, match="num_keys: 20000 there, 30000 asked") as caught:
        other.check()
    assert "NUM_KEYS=20000" in caught.value.mend

    # Somebody opened it with other settings since: what its files say counts, not our note beside them.
    options = max(tmp_path.glob("OPTIONS-*"), key=lambda p: int(p.name.rpartition("-")[2]))
    options.write_text(options.read_text().replace("block_size=8192", "block_size=4096"))
    with pytest.raises(UsageError, match="block_size: 4096 in its own files, 8192 asked"):
        database.check()


@pytest.mark.needs("db_bench")
def test_a_load_that_was_killed_is_done_again_and_spares_what_is_not_its_own(
    database: Database, tmp_path: Path
) -> None:
    load(database, tmp_path / "load.log")
    manifest = tmp_path / "ioflame-db.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "state": "loading"}))
    (tmp_path / "000999.sst").write_text("half a file")
    (tmp_path / "notes.txt").write_text("mine")
    assert is_loaded(tmp_path) is False
    assert database.check() is False
    load(database, tmp_path / "load.log")
    assert database.check() is True
    assert not (tmp_path / "000999.sst").exists()
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.needs("db_bench")
def test_a_directory_of_somebody_else_is_refused_untouched(database: Database, tmp_path: Path) -> None:
    (tmp_path / "000001.sst").write_text("precious")
    with pytest.raises(UsageError, match=r"files that ioflame did not make \(000001\.sst"):
        database.check()
    assert (tmp_path / "000001.sst").read_text() == "precious"


def test_a_second_ioflame_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    with (
        locked(tmp_path),
        pytest.raises(UsageError, match=f"in use by the ioflame with pid {os.getpid()}"),
        locked(tmp_path),
    ):
        pass
    with locked(tmp_path):
        pass


@pytest.mark.needs("db_bench")
@pytest.mark.parametrize("state", ["within compact", "loading"])
def test_a_database_of_other_settings_is_not_wiped_for_a_step_that_was_interrupted(
    database: Database, tmp_path: Path, state: str
) -> None:
    manifest = {"state": state, "engine": "rocksdb", "shape": {**asdict(SHAPE), "num_keys": 30_000}}
    (tmp_path / "ioflame-db.json").write_text(json.dumps(manifest))
    (tmp_path / "000012.sst").write_text("hours of loading")
    with pytest.raises(UsageError, match="num_keys: 30000 there, 20000 asked") as caught:
        database.check()
    assert f"state: {state}" in caught.value.means
    assert "NUM_KEYS=30000" in caught.value.mend and f"rm -r {tmp_path} " in caught.value.mend
    assert (tmp_path / "000012.sst").read_text() == "hours of loading"
    # The same with its own settings: what the step left is loaded anew.
    assert Database(RocksDB(), database._build, tmp_path, DatabaseShape(30_000), CACHE).check() is False


@pytest.mark.needs("db_bench")
def test_a_path_that_is_called_like_a_complaint_is_none(build: EngineBuild, tmp_path: Path) -> None:
    directory = tmp_path / "error, failed"
    with locked(directory):
        database = Database(RocksDB(), build, directory, SHAPE, CACHE)
        load(database, tmp_path / "load.log")
        assert str(directory) in (tmp_path / "load.log").read_text()
        assert database.check() is True
    said = f"put error: IO error: While appending to file: {directory}/000012.sst: No space left on device"
    assert database._complaints(f"DB path: [{directory}]\n{said}\nopen {directory}/1.log: done") == [said]
    assert database._complaints(f"{directory}-two/failed") == [f"{directory}-two/failed"]
    assert not database._complaints("rocksdb.error.handler.bg.error.count COUNT : 0")


def test_a_lock_that_is_a_link_is_refused_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "ioflame.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(UsageError, match="cannot be written to"), locked(tmp_path / "db"):
        pass
    assert (tmp_path / "precious").read_text() == "mine"
