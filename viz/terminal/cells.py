"""The table of an experiment of cells, with what was published beside it, and what had to hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ground.results.cells import CellsRecord, Heading, Value
from ground.system.host import describe_host
from viz.columns import aligned, folded
from viz.experiment_view import ExperimentView
from viz.figures import number_text

Values = Mapping[str, Mapping[str, Value | None]]


def render_cells(record: CellsRecord, view: ExperimentView, further: Sequence[str], width: int | None = None) -> str:
    """No line wider than `width`. further: other text, between the table and the expectations"""
    headings, values, published = view.headings, view.values, view.published
    quartiles = any(value is not None and value.low is not None for row in values.values() for value in row.values())
    told = [name for name in (h.name for h in headings) if any(name in of_cell for of_cell in published.values())]
    table = [["cell", *(h.name for h in headings), "runs", *(f"{name}, published" for name in told)]]
    for cell, row in values.items():
        runs = str(max((value.runs for value in row.values() if value is not None), default=0))
        table.append([
            cell, *(number_text(getattr(row[h.name], "median", None), h.digits, "-", "") for h in headings), runs,
            *(number_text(published[cell].get(name), 3, "", "") for name in told),
        ])  # fmt: skip
        if quartiles:
            for what, called in zip(("low", "high"), view.spread.called, strict=True):
                ends = [number_text(getattr(row[h.name], what, None), h.digits, "", "") for h in headings]
                table.append([f"  {called}", *ends, "", *("" for _ in told)])
    legend = "\n".join(f"  {h.name}: {h.about}" for h in headings)
    if quartiles and view.spread.explained:
        legend += f"\n  {', '.join(view.spread.called)}: {view.spread.about}"
    failed = [f"  {run.cell}, run {run.turn}: {run.why}" for run in record.runs if run.status == "failed"]
    verdicts = {True: "passed", False: "failed", None: "not judged"}
    holds = [f"  {verdicts[one.holds]}: {what} ({one.why})" for what, one in view.judged]
    lacking = [f"  {run.cell}: {run.why}" for run in record.runs if run.status == "left out"]
    checks = [f"  {run.cell}, run {run.turn}: {words}" for run in record.runs for words in run.amiss]
    parts = [
        f"{record.name}: {view.about}\n{view.facts}",
        aligned(table, width) + "\n" + legend,
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
