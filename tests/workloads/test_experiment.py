from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from ioflame.errors import UsageError
from workloads.experiment import experiment_names, read_experiment
from workloads.rocksdb import RocksDB


def test_every_experiment_that_comes_with_us_can_be_laid_out() -> None:
    assert "io-efficiency" in experiment_names()
    for name in experiment_names():
        assert list(read_experiment(name, RocksDB()).plan([1, 2], 2))


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
