"""The figures of an IO-efficiency experiment: each row's medians over its repeats, with their bootstrap.

Columns are those of the source document: usPer, syPer and cpuPer are per storage read here; io.eff, us.inc and cpu.inc
are against fio with as many users, in the runs that stand beside the step, in the same resample.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from ground.results.cells import Baseline, Judged, Value
from ground.results.efficiency import (
    CategoryShare,
    CategoryTable,
    Change,
    Differences,
    Efficiency,
    EfficiencyRow,
    FioRuns,
    MeasuredStep,
)
from ground.results.experiment import ExperimentRecord, StepRecord
from ground.results.metrics import cpu_profiled
from ioflame.analysis.bootstrap import Draws, Resamples, share_draws
from ioflame.analysis.metric_intervals import figures, slice_columns

__all__ = (
    "Derived",
    "Row",
    "derive",
    "efficiency",
    "predicted_iops",
    "rows",
)


@dataclass(frozen=True)
class Derived:
    """What the database costs beyond fio's read of the same device.

    io_eff:  IOPS of the database over IOPS of fio with as many users
    us_inc:  user CPU per read beyond fio's, us; cpu_inc: user and system CPU
    """

    io_eff: float
    us_inc: float
    cpu_inc: float


def derive(iops: float, us_per: float, cpu_per: float, fio_iops: float, fio_us: float, fio_cpu: float) -> Derived:
    """The columns io.eff, us.inc and cpu.inc of a row, from its own figures and fio's with as many users."""
    # By decimals: the post's figures have three, and a binary difference would fall below the last one when cut.
    us, fus, cpu, fcpu = (Decimal(str(v)) for v in (us_per, fio_us, cpu_per, fio_cpu))
    return Derived(iops / fio_iops, float(us - fus), float(cpu - fcpu))


def predicted_iops(users: int, *latencies_us: float) -> float:
    """IOPS of `users` that each wait for one read after the other, each read taking the sum of these parts."""
    return users * 1e6 / sum(latencies_us)


@dataclass(frozen=True)
class Row:
    """A row of the table with the draws of its figures, which it takes to tell two rows apart."""

    step: str
    users: int
    repeats: Sequence[MeasuredStep]
    figures: Mapping[str, Draws]

    def samples(self) -> int:
        return sum(m.record.profile.samples for m in self.repeats if m.record.profile)

    def plain(self) -> EfficiencyRow:
        return EfficiencyRow(
            self.step, self.users, self.repeats, {n: _value(d, len(self.repeats)) for n, d in self.figures.items()}
        )

    def share_draws(self, view: str) -> Sequence[Draws | None]:
        """Of the view's rows, over the seconds of all repeats; None where a repeat has no seconds."""
        views = [m.view(view) for m in self.repeats]
        return share_draws([v.slices for v in views]) if all(v.slices for v in views) else [None] * len(views[0].rows)

    def categories(self, view: str) -> list[CategoryShare]:
        """The view's rows, the profiles of all repeats pooled by weight; intervals are over their seconds."""
        views = [m.view(view) for m in self.repeats]
        total = sum(v.total_weight for v in views)
        profile = self.repeats[0].record.profile
        metrics = {name: draws.estimate for name, draws in self.figures.items()}
        names = {"cpuPer": "cpu/query", "usPer": "us/query", "syPer": "sy/query"}
        per_query = {n: metrics[own] for n, own in names.items() if own in metrics}
        cpu = cpu_profiled(per_query, profile.mode if profile else "all")[0] or 0.0
        found = []
        for i, (row, draws) in enumerate(zip(views[0].rows, self.share_draws(view), strict=True)):
            weight = sum(v.rows[i].weight for v in views)
            share = 100 * weight / total if total else 0.0
            interval = None if draws is None else draws.interval()
            found.append(CategoryShare(row.name, weight, share, interval, share / 100 * cpu))
        return found


# The figures of fio, by the names of `Baseline`.
_FIO = ("iops", "reqsz", "us_per", "sy_per", "cpu_per", "lat", "io_lat")


def _baselines(experiment: ExperimentRecord, users: int) -> list[Baseline]:
    """fio's runs with so many users, in the order they were made."""
    return [baseline for _, baseline in _placed(experiment, users)]


def _baselines_beside(experiment: ExperimentRecord, steps: Sequence[StepRecord]) -> list[Baseline]:
    """fio's last run before each of the steps and its first after it, with as many users, in the order they were made.

    A device that was slow while a step ran was so for its neighbours as well: what is told against them is the step's.
    """
    chosen: dict[int, Baseline] = {}
    for step in steps:
        place = experiment.steps.index(step)
        runs = _placed(experiment, step.users)
        before, after = [run for run in runs if run[0] < place], [run for run in runs if run[0] > place]
        chosen.update([*before[-1:], *after[:1]])
    return [chosen[place] for place in sorted(chosen)]


def _placed(experiment: ExperimentRecord, users: int) -> list[tuple[int, Baseline]]:
    """fio's runs with so many users, and their places among the steps."""
    return [
        (place, step.baseline)
        for place, step in enumerate(experiment.steps)
        if step.kind == "baseline" and step.users == users and step.baseline
    ]


def _fio_figures(runs: Sequence[Baseline], users: int) -> dict[str, Draws]:
    """The medians of fio's runs, resampled over them; empty without one."""
    if not runs:
        return {}
    resamples = Resamples([[{name: getattr(run, name) for name in _FIO}] for run in runs], seed=users)
    found = {name: resamples.median(lambda totals, name=name: totals[name]) for name in _FIO}  # type: ignore[misc]
    return {**found, "cpu_per": _sum(found["us_per"], found["sy_per"])}


def _sum(user: Draws, system: Draws) -> Draws:
    """CPU as printed beside its parts: of several repeats the medians of the parts add up to it."""
    return Draws.combined(lambda us, sy: us + sy, user, system)


def rows(experiment: ExperimentRecord, measured: Sequence[MeasuredStep]) -> Iterator[Row]:
    """By users, then in the order of the steps."""
    steps = list(dict.fromkeys(m.step.step for m in measured))
    for users in sorted({m.step.users for m in measured}):
        for number, step in enumerate(steps):
            repeats = [m for m in measured if (m.step.step, m.step.users) == (step, users)]
            if repeats:
                seed = 1000 * users + number
                fio = _fio_figures(_baselines_beside(experiment, [m.step for m in repeats]), users)
                yield Row(step, users, repeats, _figures(repeats, fio, users, seed))


def _figures(repeats: Sequence[MeasuredStep], fio: Mapping[str, Draws], users: int, seed: int) -> dict[str, Draws]:
    slices = [slice_columns(m.series or m.record.windows, users) for m in repeats]
    if not any(slices):
        return {}
    found = figures(Resamples(slices, seed=seed))
    own = {"us/query": "usPer", "sy/query": "syPer", "cpu/query": "cpuPer"}
    row = {name: found[name] for name in ("qps", "iops", "rx.lat", "readsPerQuery")}
    row |= {name: found[query] for name, query in own.items()}
    per_read = {
        "reqsz": "reqsz",
        "io.lat": "io.lat",
        "usPer": "usPerRead",
        "syPer": "syPerRead",
        "cpuPer": "cpuPerRead",
    }
    row |= {name: found[read] for name, read in per_read.items() if read in found}
    row["cpu/query"] = _sum(row["us/query"], row["sy/query"])
    if "cpuPer" not in row:
        return row
    row["cpuPer"] = _sum(row["usPer"], row["syPer"])
    row["model.own"] = Draws.combined(
        lambda actual, io, cpu: 100 * (predicted_iops(users, io, cpu) / actual - 1),
        row["iops"], row["io.lat"], row["cpuPer"],
    )  # fmt: skip
    if fio:
        arguments = (row["iops"], row["usPer"], row["cpuPer"], fio["iops"], fio["us_per"], fio["cpu_per"])
        for name, attribute in (("io.eff", "io_eff"), ("us.inc", "us_inc"), ("cpu.inc", "cpu_inc")):
            row[name] = Draws.combined(lambda *a, at=attribute: getattr(derive(*a), at), *arguments)
        row["model.post"] = Draws.combined(
            lambda actual, lat, inc: 100 * (predicted_iops(users, lat, inc) / actual - 1),
            row["iops"], fio["lat"], row["cpu.inc"],
        )  # fmt: skip
    return row


def _movement(first: Draws | None, last: Draws | None) -> str:
    """`falls`, `rises`, `none seen`, or `-` where there are no intervals to tell by."""
    change = None if first is None or last is None else first.change_to(last)
    if change is None:
        return "-"
    if not change.leaves_zero:
        return "none seen"
    return "falls" if change.estimate < 0 else "rises"


_UNDECIDED = {
    "none seen": "no difference seen: its interval holds zero; more REPEATS or a larger DURATION narrow them",
    "-": "too few seconds to tell: a larger DURATION or more REPEATS",
}


def _judged_orders(owner: Sequence[CategoryTable], orders: Mapping[str, str]) -> Iterator[tuple[str, Judged]]:
    """Do the shares of the owner view move as published (orders: `falls` or `rises`, by category)? By users."""
    for table in owner:
        steps = list(table.shares.values())
        first, last = ({c.name: c for c in of_step} for of_step in (steps[0], steps[-1]))
        for name, published in orders.items():
            if name not in first or name not in last or len(steps) < 2:
                continue
            seen = table.moves[name]
            words = "holds" if seen == published else _UNDECIDED.get(seen, f"DOES NOT HOLD: it {seen}")
            yield (
                f"{table.users} user{'s' * (table.users != 1)}: {name} {published}",
                Judged(
                    None if seen in _UNDECIDED else seen == published,
                    f"{first[name].share:.2f} -> {last[name].share:.2f} %: {words}",
                ),
            )


# ---- what is shown -------------------------------------------------------------------------------------------------
def efficiency(experiment: ExperimentRecord, measured: Sequence[MeasuredStep]) -> Efficiency:
    """All that the experiment found, as the tables and the page show it."""
    found = list(rows(experiment, measured))
    by_users = {users: list(group) for users, group in itertools.groupby(found, lambda row: row.users)}
    tables = [_categories(group, view) for group in by_users.values() for view in ("owner", "leaf")]
    return Efficiency(
        measured,
        [row.plain() for row in found],
        [_fio(experiment, users) for users in sorted({s.users for s in experiment.steps if s.baseline})],
        [one for users, group in by_users.items() for one in _differences(group, _baselines(experiment, users))],
        tables,
        list(_judged_orders([table for table in tables if table.view == "owner"], experiment.orders)),
    )


def _value(draws: Draws, runs: int) -> Value:
    interval = draws.interval()
    low, high = (None, None) if interval is None else (interval.low, interval.high)
    return Value(draws.estimate, low, high, runs)


def _fio(experiment: ExperimentRecord, users: int) -> FioRuns:
    runs = _baselines(experiment, users)
    return FioRuns(users, runs, {name: draws.estimate for name, draws in _fio_figures(runs, users).items()})


def _categories(of_users: Sequence[Row], view: str) -> CategoryTable:
    first, last = of_users[0], of_users[-1]
    names = [row.name for row in first.repeats[0].view(view).rows]
    moves = map(_movement, first.share_draws(view), last.share_draws(view))
    return CategoryTable(
        view,
        first.users,
        {row.step: row.samples() for row in of_users},
        {row.step: row.categories(view) for row in of_users},
        dict(zip(names, moves, strict=True)),
    )


# What of fio drifts when a figure of the database does for the same reason.
_DRIFTS = {
    "qps": "iops", "iops": "iops", "rx.lat": "iops", "io.lat": "io_lat", "usPer": "us_per", "syPer": "sy_per",
    "cpuPer": "cpu_per",
}  # fmt: skip


def _differences(of_users: Sequence[Row], runs: Sequence[Baseline]) -> Iterator[Differences]:
    """From each step to the next, and from the first to the last."""
    pairs = list(itertools.pairwise(of_users))
    if len(of_users) > 2:
        pairs.append((of_users[0], of_users[-1]))
    for a, b in pairs:
        both = [name for name in a.figures if name in b.figures]
        changes = {name: _change(name, a.figures[name], b.figures[name], runs) for name in both}
        yield Differences(a.step, b.step, a.users, {name: one for name, one in changes.items() if one is not None})


def _change(name: str, a: Draws, b: Draws, runs: Sequence[Baseline]) -> Change | None:
    difference = a.change_to(b) if a.estimate else None
    if difference is None:
        return None
    if not difference.leaves_zero:
        return Change(None)
    change = difference.estimate / a.estimate
    of_fio = [getattr(run, _DRIFTS[name]) for run in runs] if name in _DRIFTS else []
    drifts = bool(of_fio) and min(of_fio) > 0 and abs(change) <= max(of_fio) / min(of_fio) - 1
    return Change(100 * change, drifts)
