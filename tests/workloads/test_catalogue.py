"""`ioflame list` and `ioflame explain`: everything there is, and command lines that are the ones that run."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioflame.cli import main
from tests.e2e.explained import command_lines
from workloads.experiment import experiment_names
from workloads.registry import engine_named
from workloads.scales import scales

Capture = pytest.CaptureFixture[str]


def explained(capsys: Capture, *words: str) -> str:
    assert main(["explain", *words]) == 0
    return capsys.readouterr().out


def test_the_list_has_everything_there_is_with_a_line_about_it(capsys: Capture) -> None:
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    listed = {line.split()[0]: line.split(None, 1)[1:] for line in out.splitlines() if line.startswith("  ")}
    engine = engine_named("rocksdb")
    for names in (experiment_names(), engine.workloads(), engine.steps(), engine.configurations(), scales()):
        assert all(listed[name][0].strip() for name in names)


@pytest.mark.long
@pytest.mark.needs("db_bench")
@pytest.mark.parametrize("name", ["load", "readrandom3", "io-efficiency"])
def test_explain_prints_command_lines_without_stray_arguments(capsys: Capture, name: str) -> None:
    out = explained(capsys, name, "--num-keys=5M", "--users=1,3", "--config=iobuf")
    commands = command_lines(out)
    assert len(commands) == (10 if name == "io-efficiency" else 1)
    assert "buffered reads" in out and "O_DIRECT" not in out
    for binary, *words in commands:
        assert Path(binary).name == "db_bench"
        assert all(word.startswith("--") and "=" in word for word in words)
        assert {"--num=5000000", "--use_direct_reads=false"} <= set(words)


@pytest.mark.long
@pytest.mark.needs("db_bench")
def test_an_experiment_of_cells_is_explained_at_a_scale_that_this_host_could_not_run(capsys: Capture) -> None:
    out = explained(capsys, "versions", "--scale=full", "--db-bench=old=db_bench,new=db_bench")
    assert "# expected: new: readww > fwdrangeww" in out
    # Each build once, though the base is run first and last.
    assert out.count("# byrx, old: load:") == out.count("# iodir, new: load:") == 1
    # Eight steps of three cells, and Gets without a writer in the first.
    assert out.count("--num=40000000") == 2 * (3 * 8 + 1)


@pytest.mark.long
@pytest.mark.needs("db_bench")
def test_a_workload_that_an_experiment_shares_its_name_with_is_explained_by_its_option(capsys: Capture) -> None:
    assert len(command_lines(explained(capsys, "--workload=mixgraph", "--scale=smoke"))) == 1
    out = explained(capsys, "mixgraph", "--scale=smoke")
    assert out.startswith("# An experiment. Of the workload of this name: ioflame explain --workload mixgraph\n")
    assert len(command_lines(out)) > 1


def test_what_there_is_not_cannot_be_explained(capsys: Capture) -> None:
    """What it refuses of its options, it refuses as a profile does."""
    assert main(["explain", "--engine=leveldb", "nothing"]) == 2
    said = capsys.readouterr()
    assert "leveldb has no step or workload nothing" in said.err and not said.out
