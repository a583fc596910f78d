"""The columns of a cell with their bootstrap: over its runs, and over the seconds of the plain windows of each.

Columns against fio are against its runs beside those of the cell, which had the device as the cell had it, and in the
same resample: what a device that drifts does to one, it does to both.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from ground.results.categories import Categories
from ground.results.cells import BASELINE_FIGURES, Baseline, Change, Value
from ground.results.record import RunRecord, Window
from ioflame.analysis.bootstrap import Draws, Resamples, share_draws
from ioflame.analysis.categories import metric_profiled, part_of
from ioflame.analysis.cells import Spread
from ioflame.analysis.metric_intervals import figures, slice_columns
from workloads.cells import BASELINE, Column

_NORMAL = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class MeasuredRun:
    """A run of a workload: its record, its views of categories, and the seconds of its windows."""

    record: RunRecord
    views: Mapping[str, Categories]
    series: Sequence[Window]


@dataclass(frozen=True)
class CellRuns:
    """All runs of a cell with so many users: by step, and of fio beside them in the order they were made."""

    users: int
    steps: Mapping[str, Sequence[MeasuredRun]]
    baselines: Sequence[Baseline]


def figures_of(cell: CellRuns, seed: int) -> dict[str, Draws]:
    """What columns are worked out of, each the median over the runs, by the names of `run_figures` behind the step's.

    STEP.VIEW: CPU us per query that the profile divides up; STEP.VIEW.CATEGORY: a category's, of all runs by weight
    """
    found: dict[str, Draws] = {}
    for step, runs in cell.steps.items():
        own = _of_runs(runs, cell.users, seed)
        found |= {f"{at}.{name}": draws for at in (step, "last") for name, draws in own.items()}
    if cell.baselines:
        resamples = Resamples(
            [[{name: getattr(run, name) for name in BASELINE_FIGURES}] for run in cell.baselines], seed=seed
        )
        for name in BASELINE_FIGURES:
            found[f"{BASELINE}.{name}"] = resamples.median(lambda totals, name=name: totals[name])  # type: ignore[misc]
        found[f"{BASELINE}.cpu_per"] = _sum(found[f"{BASELINE}.us_per"], found[f"{BASELINE}.sy_per"])
    return found


def _of_runs(runs: Sequence[MeasuredRun], users: int, seed: int) -> dict[str, Draws]:
    slices = [slice_columns(run.series or run.record.windows, users) for run in runs]
    if not any(slices):
        return {}
    found = figures(Resamples(slices, seed=seed))
    for name, *parts in (("cpuPer", "usPer", "syPer"), ("cpuPerRead", "usPerRead", "syPerRead")):
        if name in found:
            found[name] = _sum(*(found[part] for part in parts))
    cpu = found[metric_profiled(runs[0].record)]
    for view in runs[0].views:
        found[view] = cpu
        for row, share in zip(runs[0].views[view].rows, category_draws(runs, view), strict=True):
            if share is not None:
                found[f"{view}.{row.name}"] = Draws.combined(part_of, cpu, share)
    return found


def _sum(user: Draws, system: Draws) -> Draws:
    """CPU as printed beside its parts: of several runs the medians of the parts add up to it."""
    return Draws.combined(lambda us, sy: us + sy, user, system)


def category_draws(runs: Sequence[MeasuredRun], view: str) -> Sequence[Draws | None]:
    """Shares of the view's rows in percent, over the seconds of all runs; None where a run has no seconds."""
    views = [run.views[view] for run in runs]
    return share_draws([v.slices for v in views]) if all(v.slices for v in views) else [None] * len(views[0].rows)


def column_draws(column: Column, found: Mapping[str, Draws], users: int) -> Draws | None:
    """None where a figure is missing. `users.us` in a column: the us that all users have in a second."""
    names = [name for name in column.figures if name in found]
    fixed = {"users.us": users * 1e6}
    if not names or column.value({**fixed, **{name: found[name].estimate for name in names}}) is None:
        return None

    def of(*values: float) -> float:
        value = column.value({**fixed, **dict(zip(names, values, strict=True))})
        return math.nan if value is None else value

    parts = [found[name] for name in names]
    draws = Draws.combined(of, *parts)
    return Draws(draws.estimate, draws.values, max(part.n for part in parts), draws.repeats)


def value_of_draws(draws: Draws, runs: int) -> Value:
    interval = draws.interval()
    low, high = (None, None) if interval is None else (interval.low, interval.high)
    return Value(draws.estimate, low, high, runs)


def spread_of_draws(draws: Draws) -> Spread | None:
    """As wide as `Draws.change_to` has it of few runs; None where there is no interval above nothing."""
    interval = draws.interval()
    if interval is None or interval.low <= 0 or draws.estimate <= 0:
        return None
    error, few = math.log(interval.high / interval.low) / 2 / _NORMAL, draws.repeats
    if few < 2:
        return Spread(math.log(draws.estimate), error, math.inf)
    return Spread(math.log(draws.estimate), error * math.sqrt(few / (few - 1)), few - 1)


# ---- from cell to cell ---------------------------------------------------------------------------------------------
def pairs_of(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """From each to the next, and from the first to the last."""
    yield from itertools.pairwise(names)
    if len(names) > 2:
        yield names[0], names[-1]


def changes_of(
    columns: Sequence[Column], first: Mapping[str, Draws], last: Mapping[str, Draws], fio: Sequence[Baseline]
) -> dict[str, Change]:
    """By column; one is left out that has too few seconds for an interval. fio: all its runs with as many users"""
    found: dict[str, Change] = {}
    for column in columns:
        if column.name in first and column.name in last:
            drifts = [getattr(run, column.drifts) for run in fio] if column.drifts else []
            change = _change(first[column.name], last[column.name], drifts)
            found |= {column.name: change} if change is not None else {}
    return found


def _change(a: Draws, b: Draws, of_fio: Sequence[float]) -> Change | None:
    difference = a.change_to(b) if a.estimate else None
    if difference is None:
        return None
    if not difference.leaves_zero:
        return Change(None)
    change = difference.estimate / abs(a.estimate)
    drifts = bool(of_fio) and min(of_fio) > 0 and abs(change) <= max(of_fio) / min(of_fio) - 1
    return Change(100 * change, drifts)


def movement(first: Draws | None, last: Draws | None) -> str:
    """`falls`, `rises`, `not significant`, or `-` where there are no intervals to decide by."""
    change = None if first is None or last is None else first.change_to(last)
    if change is None:
        return "-"
    if not change.leaves_zero:
        return "not significant"
    return "falls" if change.estimate < 0 else "rises"
