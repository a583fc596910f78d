"""A cell that is a command line: one that fails, or of which nothing was measured, is a failed cell."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from collectors.perf import Plan
from ground.errors import MeasurementError
from ground.results.cells import CellOutcome, CellsRecord, CellsRun
from ground.text.progress import Reporter
from ioflame.commands.arguments import add_profile_arguments, profile_options
from ioflame.measure.cell_command import command_step
from ioflame.measure.cell_plan import CellsJob
from workloads.cells import Cell, CellRun, Cells, CellScale
from workloads.registry import engine_named


@pytest.mark.parametrize(
    ("script", "says"),
    [("echo printed; exit 3", "bash: exit code 3"), ("echo printed", "bash: nothing of it was measured")],
)
def test_a_command_that_fails_or_is_too_short_is_a_failed_cell(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], script: str, says: str
) -> None:
    parser = argparse.ArgumentParser()
    add_profile_arguments(parser)
    options = profile_options(parser.parse_args([f"--out={tmp_path}", "--scale=smoke"]))
    cell = Cell(name="x", command=f"bash -c '{script}'")
    cells = Cells(about="", shows="", cannot="", columns=[], holds=[], cells=[cell], scale={"smoke": CellScale("s")})
    plan = Plan("cpu-clock", 999, "system", "fp", ())
    job = CellsJob(options, cells, engine_named("rocksdb"), {}, 1, 1, tmp_path, plan, {})
    going = CellsRun.create(tmp_path / "out", CellsRecord("mine", "now", 1, {}, {}, {}, []))
    log = going.directory / "x.log"
    with pytest.raises(MeasurementError, match=says):
        command_step(job, CellRun(cell, 1, 1), CellOutcome("x", 1, 1), going, log, Reporter(quiet=True))
    out, err = capfd.readouterr()
    assert log.read_text(encoding="utf-8") == "printed\n" and "printed" not in out + err
