"""Where a change in latency comes from: CPU by category, each wait, and a row for what is left.

Intervals are of the difference, arm - base, both drawn by the same sessions, and hold for all rows at once with 95 %
(Sidak 1967 over the rows that vary). Not by the largest |t| of the resamples: with three to six sessions there are too
few different resamples for its tail, and all rows held in 86 to 92 % of simulated budgets only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import NormalDist, fmean

from ground.results.differences import Budget, BudgetRow
from ioflame.analysis.bootstrap import Draws, JointResamples
from ioflame.analysis.quantiles import t_quantile

Slices = Sequence[Mapping[str, float]]
Totals = Mapping[str, Mapping[str, float]]

# Of the latency of either side.
CLOSES_WITHIN = 0.02


@dataclass(frozen=True)
class ArmSlices:
    """What one arm gave in one session, slice by slice (a second or a window); each list is resampled on its own.

    plain:   of the plain windows: `queries`, `thread_us`, `cpu_us`, as `metrics.slice_columns` gives them; CPU of
             threads that answer no queries (flush, compaction) is not in a query's latency
    profile: seconds of the perf windows: weight by category, the same categories in each
    waits:   for each source (off-CPU window, ladder) its slices: `queries` and us of each wait; no wait in two sources
    """

    plain: Slices
    profile: Slices = ()
    waits: Sequence[Slices] = field(default_factory=tuple)


def latency_budget(sessions: Sequence[tuple[ArmSlices, ArmSlices]], *, resamples: int = 1000, seed: int = 1) -> Budget:
    """base and arm of each session -> rows latency, cpu, its categories, waits, unaccounted, in us per query."""
    drawn = JointResamples(
        [{**_series("base", base), **_series("arm", arm)} for base, arm in sessions], resamples=resamples, seed=seed
    )
    first = sessions[0][0]
    figures: dict[tuple[str, str], Callable[[Totals, str], float]] = {
        ("latency", "latency"): lambda totals, side: _ratio(totals[f"{side} plain"], "thread_us"),
        ("cpu", "on CPU"): lambda totals, side: _ratio(totals[f"{side} plain"], "cpu_us"),
    }
    waits = [(number, name) for number, source in enumerate(first.waits) for name in source[0] if name != "queries"]
    if first.profile:
        figures |= {("category", name): _category(name) for name in first.profile[0]}
    figures |= {("wait", name): _wait(number, name) for number, name in waits}
    latency, cpu = figures["latency", "latency"], figures["cpu", "on CPU"]
    of_waits = [of for (kind, _), of in figures.items() if kind == "wait"]
    figures["unaccounted", "unaccounted"] = lambda totals, side: (
        latency(totals, side) - cpu(totals, side) - sum([of(totals, side) for of in of_waits])
    )
    rows = _rows(drawn, {name: (kind, of, "us/query") for (kind, name), of in figures.items()})
    left, whole = rows[-1], rows[0]
    closes = abs(left.base) <= CLOSES_WITHIN * whole.base and abs(left.arm) <= CLOSES_WITHIN * whole.arm
    return Budget(tuple(rows), closes, drawn.n, resamples, seed)


def ratio_changes(
    sessions: Sequence[tuple[Slices, Slices]],
    ratios: Mapping[str, tuple[str, str, str]],
    *,
    resamples: int = 1000,
    seed: int = 1,
) -> list[BudgetRow]:
    """Background work: rows (part, whole, unit), say CPU us of compaction per GB compacted, of base and arm."""
    drawn = JointResamples([{"base": base, "arm": arm} for base, arm in sessions], resamples=resamples, seed=seed)

    def of(part: str, whole: str) -> Callable[[Totals, str], float]:
        return lambda totals, side: _ratio(totals[side], part, whole)

    return _rows(drawn, {name: ("background", of(part, whole), unit) for name, (part, whole, unit) in ratios.items()})


def _series(side: str, slices: ArmSlices) -> dict[str, Slices]:
    waits = {f"{side} waits {number}": source for number, source in enumerate(slices.waits)}
    profile = {f"{side} profile": slices.profile} if slices.profile else {}
    return {f"{side} plain": slices.plain, **profile, **waits}


def _ratio(totals: Mapping[str, float], part: str, whole: str = "queries") -> float:
    return totals[part] / totals[whole] if totals[whole] else 0.0


def _category(name: str) -> Callable[[Totals, str], float]:
    """Share of the profile's weight x CPU per query of the plain windows, of one and the same resample."""

    def of(totals: Totals, side: str) -> float:
        weights = totals[f"{side} profile"]
        return weights[name] / (sum(weights.values()) or 1) * _ratio(totals[f"{side} plain"], "cpu_us")

    return of


def _wait(number: int, name: str) -> Callable[[Totals, str], float]:
    return lambda totals, side: _ratio(totals[f"{side} waits {number}"], name)


def _rows(
    drawn: JointResamples, figures: Mapping[str, tuple[str, Callable[[Totals, str], float], str]]
) -> list[BudgetRow]:
    changes: list[Draws] = []
    errors: list[float] = []
    for _, of, _ in figures.values():
        change = partial(_change, of)
        changes.append(drawn.figure(change))
        errors.append(drawn.error_of_sessions(change))
    halves = _simultaneous(changes, errors)
    return [
        BudgetRow(
            name,
            kind,
            of(drawn.measured, "base"),
            of(drawn.measured, "arm"),
            change.estimate,
            change.estimate - half,
            change.estimate + half,
            unit,
        )
        for half, change, (name, (kind, of, unit)) in zip(halves, changes, figures.items(), strict=True)
    ]


def _change(of: Callable[[Totals, str], float], totals: Totals) -> float:
    return of(totals, "arm") - of(totals, "base")


def _simultaneous(changes: Sequence[Draws], of_sessions: Sequence[float]) -> list[float]:
    """Half the width of each row's interval.

    The error is that of the sessions, and never less than what their seconds say, as in `nested`: a resample of
    sessions and, within them, of seconds counts the seconds twice. Where the seconds say more, the sessions may still
    differ by more than these few show: of many rows one would be caught by that, so t has twice the sessions' degrees
    of freedom and not those of the seconds.
    """
    both = [math.sqrt(fmean([(value - one.estimate) ** 2 for value in one.values])) for one in changes]
    n = changes[0].n
    of_one = 0.95 ** (1 / max(sum(error > 0 for error in both), 1))
    factor = NormalDist().inv_cdf((1 + of_one) / 2)
    of_few, of_some = (t_quantile(of_one, k * (n - 1)) if n > 1 else factor for k in (1, 2))
    halves = []
    for two_stages, sessions in zip(both, of_sessions, strict=True):
        seconds = math.sqrt(max(two_stages**2 - sessions**2 * (n - 1) / n, 0.0))
        halves.append(of_few * sessions if sessions >= seconds else of_some * seconds)
    return halves
