"""The figures of an IO-efficiency experiment: each row's medians over its repeats, with their bootstrap.

Columns are those of the source document: usPer, syPer and cpuPer are per storage read here; io.eff, us.inc and cpu.inc
are against fio with as many users, in the runs that stand beside the step, in the same resample.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from ground.results.categories import Categories
from ground.results.cells import Judged
from ground.results.experiment import Baseline, ExperimentRecord, StepRecord
from ground.results.metrics import cpu_profiled
from ground.results.record import RunRecord, Window
from ioflame.analysis.bootstrap import Draws, Resamples, share_draws
from ioflame.analysis.metric_intervals import figures, slice_columns

__all__ = (
    "FIO",
    "CategoryShare",
    "Derived",
    "MeasuredStep",
    "Row",
    "baselines",
    "baselines_beside",
    "derive",
    "fio_figures",
    "judged_orders",
    "movement",
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
class MeasuredStep:
    """A measured step with its run: record, owner view, leaf view, and the seconds of its windows."""

    step: StepRecord
    record: RunRecord
    owner: Categories
    leaf: Categories
    series: Sequence[Window]

    def view(self, name: str) -> Categories:
        return self.owner if name == "owner" else self.leaf


@dataclass(frozen=True)
class CategoryShare:
    """A category of a row: weight over all repeats, share of it in percent, CPU us per query."""

    name: str
    weight: int
    share: float
    draws: Draws | None
    us_per_query: float


@dataclass(frozen=True)
class Row:
    """A step with so many users, all its repeats together; a figure that cannot be had is left out."""

    step: str
    users: int
    repeats: Sequence[MeasuredStep]
    figures: Mapping[str, Draws]

    def samples(self) -> int:
        return sum(m.record.profile.samples for m in self.repeats if m.record.profile)

    def categories(self, view: str) -> list[CategoryShare]:
        """The view's rows, the profiles of all repeats pooled by weight; intervals are over their seconds."""
        views = [m.view(view) for m in self.repeats]
        total = sum(v.total_weight for v in views)
        profile = self.repeats[0].record.profile
        metrics = {name: draws.estimate for name, draws in self.figures.items()}
        names = {"cpuPer": "cpu/query", "usPer": "us/query", "syPer": "sy/query"}
        per_query = {n: metrics[own] for n, own in names.items() if own in metrics}
        cpu = cpu_profiled(per_query, profile.mode if profile else "all")[0] or 0.0
        known = all(v.slices for v in views)
        draws: Sequence[Draws | None] = share_draws([v.slices for v in views]) if known else [None] * len(views[0].rows)
        found = []
        for i, row in enumerate(views[0].rows):
            weight = sum(v.rows[i].weight for v in views)
            share = 100 * weight / total if total else 0.0
            found.append(CategoryShare(row.name, weight, share, draws[i], share / 100 * cpu))
        return found


# The figures of fio, by the names of `Baseline`.
FIO = ("iops", "reqsz", "us_per", "sy_per", "cpu_per", "lat", "io_lat")


def baselines(experiment: ExperimentRecord, users: int) -> list[Baseline]:
    """fio's runs with so many users, in the order they were made."""
    return [baseline for _, baseline in _placed(experiment, users)]


def baselines_beside(experiment: ExperimentRecord, steps: Sequence[StepRecord]) -> list[Baseline]:
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


def fio_figures(runs: Sequence[Baseline], users: int) -> dict[str, Draws]:
    """The medians of fio's runs, resampled over them; empty without one."""
    if not runs:
        return {}
    resamples = Resamples([[{name: getattr(run, name) for name in FIO}] for run in runs], seed=users)
    found = {name: resamples.median(lambda totals, name=name: totals[name]) for name in FIO}  # type: ignore[misc]
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
                fio = fio_figures(baselines_beside(experiment, [m.step for m in repeats]), users)
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


def movement(first: CategoryShare, last: CategoryShare) -> str:
    """`falls`, `rises`, `none seen`, or `-` where there are no intervals to tell by."""
    change = None if first.draws is None or last.draws is None else first.draws.change_to(last.draws)
    if change is None:
        return "-"
    if not change.leaves_zero:
        return "none seen"
    return "falls" if change.estimate < 0 else "rises"


_UNDECIDED = {
    "none seen": "no difference seen: its interval holds zero; more REPEATS or a larger DURATION narrow them",
    "-": "too few seconds to tell: a larger DURATION or more REPEATS",
}


def judged_orders(found: Sequence[Row], orders: Mapping[str, str]) -> list[tuple[str, Judged]]:
    """Do the shares of the owner view move as published (orders: `falls` or `rises`, by category)? By users."""
    judged = []
    for users, group in itertools.groupby(found, lambda row: row.users):
        of_users = list(group)
        first, last = ({c.name: c for c in row.categories("owner")} for row in (of_users[0], of_users[-1]))
        for name, published in orders.items():
            a, b = first.get(name), last.get(name)
            if a is None or b is None or len(of_users) < 2:
                continue
            seen = movement(a, b)
            words = "holds" if seen == published else _UNDECIDED.get(seen, f"DOES NOT HOLD: it {seen}")
            judged.append((
                f"{users} user{'s' * (users != 1)}: {name} {published}",
                Judged(None if seen in _UNDECIDED else seen == published, f"{a.share:.2f} -> {b.share:.2f} %: {words}"),
            ))  # fmt: skip
    return judged
