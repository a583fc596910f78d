"""Relative tables: versions beside each other, hosts beside each other."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from ground.results.differences import MARKS, Agreement, Cell, Decision, Outcome, RelativeTable
from ground.results.metrics import COMPARED
from ioflame.analysis.compare.verdict import false_discovery
from ioflame.analysis.quantiles import chi_squared_tail, t_quantile

_RATE = 0.05
# Q has little power with few hosts: they are pooled only where it does not even hint at a difference.
_POOLED_FROM = 0.1


def cell_of(decision: Decision) -> Cell:
    """The cell of a decision; its mark is the verdict's. ValueError where neither side has a value."""
    found = decision.difference
    if found is not None:
        return Cell(
            found.ratio, decision.mark, found.low, found.high, found.log, found.error, found.freedom, found.confidence
        )
    if decision.base_value is None or decision.arm_value is None:
        raise ValueError(f"{decision.metric} of {decision.arm} has no value: leave the cell out")
    return without_repeats(decision.arm_value, decision.base_value)


def without_repeats(value: float, base: float) -> Cell:
    """A single run over a single run: the value and `?`, never a verdict."""
    return Cell(value / base, MARKS[Outcome.UNDECIDED])


def relative_table(
    metric: str,
    host: str,
    base: str,
    decisions: Mapping[tuple[str, str], Decision | tuple[float, float]],
    *,
    family: str = "",
) -> RelativeTable:
    """decisions: by (row, column); a pair is (value, value of the base) of runs without repeats.

    Marks are Benjamini-Hochberg's over the table. family: what the rows have in common; names the geometric mean.
    """
    tested = {place: one for place, one in decisions.items() if isinstance(one, Decision)}
    kept = dict(zip(tested, false_discovery(list(tested.values()), _RATE), strict=True))
    rows = tuple(dict.fromkeys(row for row, _ in decisions))
    columns = (base, *dict.fromkeys(column for _, column in decisions if column != base))
    cells: dict[str, dict[str, Cell]] = {row: {base: Cell(1.0, "")} for row in rows}
    for (row, column), one in decisions.items():
        if column != base:
            cells[row][column] = cell_of(kept[row, column]) if isinstance(one, Decision) else without_repeats(*one)
    mean = {}
    if family:
        delta = max((one.delta for one in tested.values()), default=0.0)
        for column in columns[1:]:
            # Over all rows or none: a column that lacks the slowest test would look the fastest.
            of_column = [cells[row][column] for row in rows if column in cells[row]]
            if len(of_column) == len(rows):
                mean[column] = geometric_mean(of_column, metric, delta)
    marked = sum(cell.mark in ("-", "+") for row in cells.values() for cell in row.values())
    return RelativeTable(metric, host, base, rows, columns, cells, mean, family, marked, _RATE * marked)


def geometric_mean(cells: Sequence[Cell], metric: str, delta: float) -> Cell:
    """Of cells of one family, with its interval (Satterthwaite); `?` where a cell has no interval."""
    known = [(c.log, c.error, c.freedom, c.confidence) for c in cells]
    errors = [(error, freedom) for _, error, freedom, _ in known if error is not None and freedom is not None]
    mean = sum(math.log(c.ratio) for c in cells) / len(cells)
    if len(errors) < len(cells):
        return Cell(math.exp(mean), MARKS[Outcome.UNDECIDED])
    squares = sum(error**2 for error, _ in errors)
    freedom = squares**2 / (sum(error**4 / freedom for error, freedom in errors) or 1.0) if squares else 1.0
    confidence = max(c.confidence or 0.95 for c in cells)
    return _combined(mean, math.sqrt(squares) / len(cells), freedom, confidence, metric, delta)


def _combined(log: float, error: float, freedom: float, confidence: float, metric: str, delta: float) -> Cell:
    half, same = (t_quantile(c, freedom) * error for c in (confidence, 2 * confidence - 1))
    outcome = Outcome.UNDECIDED
    if abs(log) + same <= math.log1p(delta):
        outcome = Outcome.SAME
    elif abs(log) > half:
        worse = COMPARED[metric].higher_is_worse == (log > 0)
        outcome = Outcome.REGRESSED if worse else Outcome.IMPROVED
    low, high = math.exp(log - half), math.exp(log + half)
    return Cell(math.exp(log), MARKS[outcome], low, high, log, error, freedom, confidence)


def agreement(cells: Mapping[str, Cell], metric: str, delta: float) -> Agreement:
    """One comparison on several hosts, by name of the host."""
    marks = Counter(cell.mark for cell in cells.values())
    mark, holds = marks.most_common(1)[0]
    known = [
        (cell.log, max(cell.error, 1e-12), cell.freedom or 1.0, cell.confidence or 0.95)
        for cell in cells.values()
        if cell.log is not None and cell.error is not None
    ]
    weights = [1 / error**2 for _, error, _, _ in known]
    mean = sum(w * log for w, (log, _, _, _) in zip(weights, known, strict=True)) / sum(weights) if known else 0.0
    q = sum(w * (log - mean) ** 2 for w, (log, _, _, _) in zip(weights, known, strict=True))
    p = chi_squared_tail(q, len(known) - 1)
    pooled = None
    if len(marks) == 1 and len(known) == len(cells) and p >= _POOLED_FROM:
        # Weights that are estimates themselves: no more degrees of freedom than the heaviest host has.
        freedom = known[weights.index(max(weights))][2]
        confidence = max(one[3] for one in known)
        pooled = _combined(mean, 1 / math.sqrt(sum(weights)), freedom, confidence, metric, delta)
    return Agreement(
        dict(cells), mark, holds, len(cells), q, p, max(0.0, 1 - (len(known) - 1) / q) if q else 0.0, pooled
    )
