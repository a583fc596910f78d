"""Experiments that come with us, and files of users' own: their cells, workloads and configurations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ground.errors import UsageError
from ioflame.analysis.cells import PROOFS
from tests.places import ROOT
from tests.workloads.test_artifact import build
from workloads.definitions import check_definition
from workloads.engines.rocksdb.engine import RocksDB
from workloads.experiment import experiment_names, own_definitions, read_cells
from workloads.scales import DatabaseShape, Sizing
from workloads.steps import StepParameters


def test_every_experiment_that_comes_with_us_can_be_laid_out() -> None:
    assert "io-efficiency" in experiment_names()
    for name in experiment_names():
        engine = RocksDB(own_definitions(name))
        cells = read_cells(name, engine, tuple(PROOFS))
        rounds = [[run.cell for run in cells.runs(2) if run.round == number] for number in (1, 2)]
        for cell in cells.cells:
            # The first of a group, which the others are compared with, comes once more at the group's end.
            of_group = [one for one in cells.cells if (one.of or one.name) == (cell.of or cell.name)]
            times = 2 if len(of_group) > 1 and cell is of_group[0] else 1
            assert [found.count(cell) for found in rounds] == [times, times * (not cell.once)], (name, cell.name)
        assert len({(run.cell.name, run.turn) for run in cells.runs(2)}) == sum(map(len, rounds))


def test_each_workload_stands_between_two_baselines_on_the_tree_that_it_is_to_find() -> None:
    cells = read_cells("io-efficiency", RocksDB(), tuple(PROOFS)).of_users([1, 6])
    runs = list(cells.runs(3))
    # Repeats do not prepare again: all rounds on one tree come before the next.
    once = [run.cell.name for run in runs if run.cell.once]
    assert once == ["tree", "compacted"]
    made: list[str] = []
    for run in runs:
        assert cells.tree_before(run.cell) == made
        if run.cell.once:
            made += cells.steps_of(run.cell)
        else:
            first, workload, last = cells.steps_of(run.cell)
            assert (first, last) == ("fio", "fio") and run.cell.name.startswith(f"{workload}, {run.cell.threads} user")
    assert made == ["load", "overwritesome", "flush_mt_l0", "compact"]
    measured = [(run.cell.name, run.cell.levels, run.turn) for run in runs if not run.cell.once]
    assert set(measured) == {
        (f"{name}, {users}", levels, turn)
        for name, levels in (("readrandom", "several"), ("readrandom2", "one"), ("readrandom3", "one"))
        for users in ("1 user", "6 users") for turn in (1, 2, 3)
    }  # fmt: skip
    assert len(measured) == 18
    assert [row.cell.once for row in cells.table_rows()] == [False] * 6
    assert [(hold.what, hold.cells[0]) for hold in cells.holds][:2] == [
        ("1 user: the share of bloom falls", "readrandom, 1 user"),
        ("6 users: the share of bloom falls", "readrandom, 6 users"),
    ]


OWN = """
about = "x"
shows = ""
cannot = ""
columns = []
holds = []
steps = ["load"]
"""

NONE = '[layout]\ndatabase = "none"\n'


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("about = 1\nsteps = 3", "is not an experiment"),
        ("steps = []", "is not an experiment"),
        ("about = ", "is not an experiment"),
        (OWN, "a cell without steps"),
        # As they were before io-efficiency was of cells.
        ('about = "x"\nsteps = [{ prepare = "load" }, { measure = "readrandom" }]', "is not an experiment"),
        (OWN + '[[cells]]\nname = "a"\nsteps = ["nothing"]', "step 'nothing' is not one of"),
        (OWN + '[[cells]]\nname = "a"\nlevels = "many"', "is not an experiment"),
        (OWN + '[layout]\ndatabase = "grown"\n[[cells]]\nname = "a"', "is made by cells that are run once"),
        (OWN + '[[cells]]\nname = "a"\ncommand = "true"', "is a command, which brings its own database"),
        (OWN + NONE + '[[cells]]\nname = "a"\ncommand = "true"\nflags = { x = 1 }', "is not a command alone"),
        (OWN + '[[cells]]\nname = "a"\nsteps = ["command"]', "step 'command' is not one of"),
        (OWN + '[[cells]]\nname = "a"\nonce = true', "is made by cells that are run once"),
        (OWN + '[layout]\ndatabase = "grown"\n[[cells]]\nname = "a"\nonce = true\ntree = { x = 1 }', "has one tree"),
    ],
)
def test_a_wrong_file_is_refused_with_what_is_wrong(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(content)
    with pytest.raises(UsageError, match=says):
        read_cells(str(path), RocksDB(), tuple(PROOFS))


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="there is no experiment nothing") as caught:
        read_cells("nothing", RocksDB(), ())
    assert "io-efficiency" in caught.value.mend


def test_a_command_of_the_page_is_a_cell_with_a_step_of_its_own(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8").partition("### A command line as a cell")[2]
    path = tmp_path / "mine.toml"
    path.write_text(page.partition("```toml\n")[2].partition("```")[0], encoding="utf-8")
    cells = read_cells(str(path), RocksDB(), tuple(PROOFS))
    assert [cells.steps_of(cell) for cell in cells.cells] == [["command"], ["command"]]
    assert cells.columns[0].value({"command.qps": 5.0}) == 5


# ---- workloads and configurations of a file's own
SCANS = """
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
    path.write_text(SCANS)
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
