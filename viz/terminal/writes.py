"""What the steps that made the tree wrote: the columns of RocksDB's performance page."""

from __future__ import annotations

from ground.results.experiment import ExperimentRecord
from ground.results.writes import COLUMNS, columns
from viz.terminal.columns import aligned

__all__ = ("render_writes",)


def render_writes(experiment: ExperimentRecord, width: int | None = None) -> str:
    """The table of all steps that state what they wrote; empty where none does."""
    table = [["test", *COLUMNS]]
    for step in experiment.steps:
        if step.writes is not None:
            # A small database writes less than a tenth of a GB.
            row = columns(step.writes, digits=3)
            table.append([step.step, *(row[name] for name in COLUMNS)])
    if len(table) == 1:
        return ""
    told = "L0_GB: by flushes; Sum_GB: by flushes and compactions; W-Amp: Sum_GB / L0_GB; p50..p99.99: us; du: KiB"
    return "Writes that made the tree (by RocksDB's own statistics)\n" + aligned(table, width) + f"\n  {told}"
