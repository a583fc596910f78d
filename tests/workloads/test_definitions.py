from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ground.errors import UsageError
from tests.workloads.test_artifact import build
from workloads.definitions import check_definition
from workloads.engines.rocksdb.engine import RocksDB
from workloads.experiment import own_definitions, read_cells
from workloads.scales import DatabaseShape, Sizing
from workloads.steps import StepParameters

OWN = """
about = "scans of 100"
shows = ""
cannot = ""
columns = []
holds = []
steps = ["load", "longscan"]
cells = [{ name = "scan", levels = "one" }]

[workload.longscan]
about = "Seek, then 100 times Next"
like = "fwdrange"
flags = { seek_nexts = 100 }

[configuration.small_reads]
about = "4 KiB at a time"
flags = { compaction_readahead_size = 4096 }
"""


def test_a_users_own_workload_runs_with_the_flags_of_the_one_it_is_like(tmp_path: Path) -> None:
    path = tmp_path / "scans.toml"
    path.write_text(OWN)
    engine = RocksDB(own_definitions(str(path)))
    assert read_cells(str(path), engine, ()).steps == ["load", "longscan"]
    parameters = StepParameters(Sizing(DatabaseShape(1000), 1 << 20), tmp_path, 1, 1, 5, tmp_path / "r.csv")
    own, like = (engine.command(build(Path("/bin/db_bench")), name, parameters) for name in ("longscan", "fwdrange"))
    assert set(own) ^ set(like) == {"--seek_nexts=10", "--seek_nexts=100"}
    assert engine.configurations()["small_reads"].direct is True
    with pytest.raises(UsageError, match="step 'longscan' is not one of"):
        read_cells(str(path), RocksDB(), ())


@pytest.mark.parametrize(
    ("kind", "definition", "says"),
    [
        ("workload", {"about": "x", "benchmarks": "a b", "flags": {}}, "benchmarks = names parted by commas"),
        ("workload", {"about": "x", "like": "readrandom", "flags": {"--threads": 1}}, "flags as names"),
        ("workload", {"about": "x", "like": "readrandom", "flags": {"seek_nexts": "10 num=5"}}, "flags as names"),
        ("workload", {"about": "x", "like": "readrandom", "flags": ["--num=5"]}, "a table of flags"),
        ("workload", {"about": "x", "benchmark": "x"}, "no 'benchmark'; it has about"),
        ("workload", {"about": "x", "writes": 1}, "writes = true or false, not 1"),
        ("workload", {"about": "x", "like": "nothing"}, "like = one of"),
        ("workload", {"about": "x", "like": "own"}, "that is not like itself"),
        ("workload", {"about": "x", "benchmarks": "readrandom"}, "benchmarks and flags"),
        ("workload", {"like": "readrandom"}, "about ="),
        ("workload", {"about": "x", "like": "readrandom", "levels": "many"}, "levels = any or several or one"),
        ("step", {"about": "x", "like": "load", "levels": "one"}, "no 'levels'"),
        ("configuration", {"about": "x", "cache": "most"}, "cache = all"),
        ("configuration", {"about": "x", "flags": {"x": "a b"}}, "flags as names with plain values, not x = 'a b'"),
        ("configuration", "fast", "and a table"),
    ],
)
def test_a_wrong_definition_is_refused_with_what_is_wrong(kind: str, definition: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        RocksDB({kind: {"own": definition}})
    assert f"[{kind}.own]" in caught.value.what


def test_a_definition_that_has_all_it_needs_is_taken() -> None:
    check_definition("workload", "own", {"about": "a", "like": "fwdrange", "flags": {"reads": 5}}, {"fwdrange": {}})
    check_definition("configuration", "own", {"about": "a"}, {})


def test_two_that_are_like_each_other_are_refused() -> None:
    own = {"one": {"about": "x", "like": "two"}, "two": {"about": "x", "like": "one"}}
    with pytest.raises(UsageError, match="that is not like itself"):
        RocksDB({"workload": own})


def test_a_key_that_an_experiment_does_not_have_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('about = "x"\nsteps = []\n[workloads.x]\nabout = "typing error"\n')
    with pytest.raises(
        UsageError,
        match=r"has workloads; an experiment has about, shows, .*, steps, layout, curve, step, workload, configuration",
    ):
        own_definitions(str(path))
