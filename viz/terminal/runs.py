"""The runs of a directory as lines of the terminal."""

from __future__ import annotations

from ground.results.run_list import ListedRun, RunList
from ground.text.columns import cells, fold_line, pad
from viz.printable import printable

_HEADS = ("run", "QPS", "CPU us/query")
_GAP = "  "


def render_runs(found: RunList, width: int | None) -> str:
    """A line for each: its directory, its figures, how it came out and what it was, folded in a column of their own."""
    rows = [_HEADS, *(_figures(run) for run in found.runs)]
    widths = [max(cells(row[place]) for row in rows) for place in range(len(_HEADS))]
    told = ["verdict; what was run", *map(_told, found.runs)]
    lines = []
    for (name, *figures), text in zip(rows, told, strict=True):
        numbers = [figure.rjust(wide) for figure, wide in zip(figures, widths[1:], strict=True)]
        line = _GAP.join([pad(name, widths[0]), *numbers, text])
        lines.append(line if width is None else fold_line(line, width, sum(widths) + 3 * len(_GAP)))
    return "\n".join(lines)


def _figures(run: ListedRun) -> tuple[str, str, str]:
    qps = "-" if run.qps is None else f"{run.qps:,.0f}"
    us = "-" if run.us_per_query is None else f"{run.us_per_query:.2f}"
    return printable(run.name), qps, us


def _told(run: ListedRun) -> str:
    # The name of a renamed directory does not show when it was created.
    day = run.created[:10]
    when = "" if run.name.startswith(day.replace("-", "")) else f" of {run.created[:16].replace('T', ' ')}"
    return printable("; ".join(filter(None, [run.verdict, f"{run.kind}{when}" + f": {run.what}" * bool(run.what)])))
