from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from ground.errors import UsageError
from ioflame.analysis.cells import PROOFS
from workloads.engines.rocksdb.engine import RocksDB
from workloads.experiment import experiment_names, has_cells, own_definitions, read_cells, read_experiment


def test_every_experiment_that_comes_with_us_can_be_laid_out() -> None:
    assert "io-efficiency" in experiment_names()
    for name in experiment_names():
        engine = RocksDB(own_definitions(name))
        if has_cells(name):
            cells = read_cells(name, engine, tuple(PROOFS))
            rounds = [[run.cell for run in cells.runs(2) if run.round == number] for number in (1, 2)]
            for cell in cells.cells:
                # The first of a group, which the others are compared with, comes once more at the group's end.
                of_group = [one for one in cells.cells if (one.of or one.name) == (cell.of or cell.name)]
                times = 2 if len(of_group) > 1 and cell is of_group[0] else 1
                assert [found.count(cell) for found in rounds] == [times, times], (name, cell.name)
            assert len({(run.cell.name, run.turn) for run in cells.runs(2)}) == sum(map(len, rounds))
        else:
            assert list(read_experiment(name, engine).plan([1, 2], 2))


def test_each_measure_stands_between_two_baselines_with_as_many_users() -> None:
    steps = list(read_experiment("io-efficiency", RocksDB()).plan([1, 6], 3))
    assert len({step.id for step in steps}) == len(steps)
    for users in (1, 6):
        kinds = [s.kind for s in steps if s.users == users and s.kind != "prepare"]
        assert kinds[0] == kinds[-1] == "baseline"
        assert "measure" not in [b for a, b in itertools.pairwise(kinds) if a == "measure"]
    prepared = [s.step for s in steps if s.kind == "prepare"]
    assert prepared == ["load", "overwritesome", "flush_mt_l0", "compact"]  # repeats do not prepare again
    tree = {s.step: s.levels for s in steps if s.kind == "measure"}
    assert tree == {"readrandom": "several", "readrandom2": "one", "readrandom3": "one"}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("about = 1\nsteps = 3", "is not an experiment"),
        ("steps = []", "is not an experiment"),
        ('about = "x"\nsteps = [{ measure = "nothing" }]', "step 1: rocksdb has no measure step nothing"),
        ('about = "x"\nsteps = [{ prepare = "load" }, { run = "x" }]', "step 2 has to name one of"),
        ('about = "x"\nsteps = [{ measure = "readrandom", levels = "many" }]', "step 1 has to name one of"),
        ('about = "x"\nsteps = []\norders = { bloom = "grows" }', "the share of bloom 'grows'"),
        ("about = ", "is not an experiment"),
    ],
)
def test_a_wrong_file_is_refused_with_its_step(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(content)
    with pytest.raises(UsageError, match=says):
        read_experiment(str(path), RocksDB())


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="there is no experiment nothing") as caught:
        read_experiment("nothing", RocksDB())
    assert "io-efficiency" in caught.value.mend
