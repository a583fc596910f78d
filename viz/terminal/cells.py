"""The table of an experiment of cells, with what was published beside it, and what had to hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ground.results.cells import CellsRecord, Heading, Value
from ground.system.host import describe_host
from viz.cell_tables import cells_table
from viz.columns import folded
from viz.experiment_view import ExperimentView
from viz.figures import number_text
from viz.terminal.table import table_text

Values = Mapping[str, Mapping[str, Value | None]]


def render_cells(record: CellsRecord, view: ExperimentView, further: Sequence[str], width: int | None = None) -> str:
    """No line wider than `width`. further: other text, between the table and the expectations"""
    failed = [f"  {run.cell}, run {run.turn}: {run.why}" for run in record.runs if run.status == "failed"]
    verdicts = {True: "passed", False: "failed", None: "not judged"}
    holds = [f"  {verdicts[one.holds]}: {what} ({one.why})" for what, one in view.judged]
    lacking = [f"  {run.cell}: {run.why}" for run in record.runs if run.status == "left out"]
    checks = [f"  {run.cell}, run {run.turn}: {words}" for run in record.runs for words in run.amiss]
    parts = [
        f"{record.name}: {view.about}\n{view.facts}",
        table_text(cells_table(view), width),
        *further,
        *(["Cells that are left out\n" + "\n".join(dict.fromkeys(lacking))] if lacking else []),
        *(["Cells that failed\n" + "\n".join(failed)] if failed else []),
        *(["Checks that failed\n" + "\n".join(checks)] if checks else []),
        "What is expected\n" + "\n".join(holds),
        f"What this cannot show: {view.cannot}",
    ]  # fmt: skip
    return folded("\n\n".join(parts), width) + "\n"


def facts_of(record: CellsRecord) -> str:
    """When, where and with what it was run, in a line."""
    facts = [record.created, describe_host(record.host), record.tools.get("engine", "?")]
    facts += [f"{name}: {value}" for name, value in record.tools.items() if not name.startswith("engine")]
    return "; ".join([*facts, *([f"{record.num_keys:,} keys"] if record.num_keys > 1 else [])])


def cells_tsv(headings: Sequence[Heading], values: Values, ends: tuple[str, str]) -> str:
    """A row a cell: the median of each column, and its ends, by these names; NA where not measured."""
    low, high = ends
    head = [name for h in headings for name in (h.name, f"{h.name}.{low}", f"{h.name}.{high}")]
    rows = [["cell", *head]]
    for cell, row in values.items():
        figures = [
            number_text(getattr(row[h.name], what, None), h.digits, "NA", "")
            for h in headings for what in ("median", "low", "high")
        ]  # fmt: skip
        rows.append([cell, *figures])
    return "".join("\t".join(row) + "\n" for row in rows)
