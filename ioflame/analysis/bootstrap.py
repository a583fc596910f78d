"""Intervals by bootstrap: time slices, and resamples of them. The only one in the house."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence

from ground.results.interval import Interval
from ioflame.analysis.quantiles import t_quantile


def median(values: Sequence[float]) -> float:
    """The middle value; the mean of the middle two of an even number. ValueError for none."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values")
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


class Draws:
    """A figure with its bootstrap: what it is, and what it would have been in each resample.

    n: the slices it rests on; repeats: of how many repeats they are. Figures of one `Resamples` belong together draw by
    draw, so what is computed from them keeps what they have in common.
    """

    def __init__(self, estimate: float, values: Sequence[float], n: int, repeats: int = 1) -> None:
        self.estimate = estimate
        self.values = values
        self.n = n
        self.repeats = repeats

    def interval(self, fewest: int = 5) -> Interval | None:
        """The 95 % interval, percentile method; None for fewer than `fewest` slices, of which none can be had."""
        if self.n < fewest:
            return None
        ordered = sorted(self.values)
        last = len(ordered) - 1
        return Interval(self.estimate, ordered[round(0.025 * last)], ordered[round(0.975 * last)], self.n)

    def change_to(self, other: Draws) -> Interval | None:
        """The 95 % interval of other - self; None where either has too few slices for an interval.

        A bootstrap of few repeats is too narrow by sqrt(n / (n - 1)) and uses no t; both are corrected here. Without
        that, two repeats a side would differ in every fourth pair of equals. Single runs cannot be corrected.
        """
        if self.interval() is None or other.interval() is None:
            return None
        found = Draws.combined(lambda first, second: second - first, self, other).interval()
        few = min((side.repeats for side in (self, other) if side.repeats > 1), default=0)
        if found is None or not few:
            return found
        wider = math.sqrt(few / (few - 1)) * t_quantile(0.95, 2 * (few - 1)) / t_quantile(0.95, _MANY)
        low, high = (found.estimate + wider * (end - found.estimate) for end in (found.low, found.high))
        return Interval(found.estimate, low, high, found.n)

    @staticmethod
    def combined(of: Callable[..., float], *parts: Draws) -> Draws:
        """of(...) of several figures, draw by draw. n is that of the first, repeats those of the fewest."""
        values = [of(*row) for row in zip(*(part.values for part in parts), strict=True)]
        return Draws(of(*(part.estimate for part in parts)), values, parts[0].n, min(part.repeats for part in parts))


class Resamples:
    """Time slices of one or several repeats, and resamples of them (bootstrap of Efron 1979, in two stages).

    A resample draws repeats with replacement and, within each, slices with replacement: it varies as repeats vary and
    as the slices of one vary. Samples within a slice are not taken as independent. Slices are joined to at most 60
    consecutive ones a repeat, which keeps what neighbours have in common. The same slices and seed give the same
    resamples. With two or three repeats an interval is about as wide as their spread, which is all they tell.
    """

    def __init__(
        self, repeats: Sequence[Sequence[Mapping[str, float]]], *, resamples: int = 1000, seed: int = 1
    ) -> None:
        """repeats: for each, its slices: what each column gained in the slice. ValueError where there is none."""
        first = next((slices[0] for slices in repeats if slices), None)
        if first is None:
            raise ValueError("no slices")
        groups = [_blocks(slices, list(first)) for slices in repeats if slices]
        self.n = sum(len(slices) for slices in repeats)
        self._measured = [_total(group) for group in groups]
        draw = random.Random(seed)
        self._drawn: list[list[Mapping[str, float]]] = []
        for _ in range(resamples):
            chosen = draw.choices(groups, k=len(groups)) if len(groups) > 1 else groups
            self._drawn.append([_total(draw.choices(group, k=len(group))) for group in chosen])

    def median(self, of: Callable[[Mapping[str, float]], float]) -> Draws:
        """The median over the repeats of a figure of each repeat's totals."""
        values = [median([of(totals) for totals in drawn]) for drawn in self._drawn]
        return Draws(median([of(totals) for totals in self._measured]), values, self.n, len(self._measured))

    def pooled(self, of: Callable[[Mapping[str, float]], float]) -> Draws:
        """A figure of all repeats' totals together."""
        return Draws(
            of(_total(self._measured)), [of(_total(drawn)) for drawn in self._drawn], self.n, len(self._measured)
        )

    def shares(self) -> dict[str, Draws]:
        """Each column's share in the sum of all, of all repeats together, in percent."""
        names, repeats = list(self._measured[0]), len(self._measured)
        rows = [_shares(_total(totals)) for totals in (self._measured, *self._drawn)]
        columns = zip(names, zip(*rows, strict=True), strict=True)
        return {name: Draws(column[0], column[1:], self.n, repeats) for name, column in columns}


class JointResamples:
    """Sessions of several series each, and resamples of them: sessions with replacement, within each its slices.

    A session is drawn with all its series, so what its series have in common (two arms on one host at one time) stays
    in common; the slices of each series are drawn on their own. Series may have other columns and other lengths.
    """

    def __init__(
        self, sessions: Sequence[Mapping[str, Sequence[Mapping[str, float]]]], *, resamples: int = 1000, seed: int = 1
    ) -> None:
        """sessions: for each, its series by name, none of them empty, the same in all. ValueError for no sessions."""
        if not sessions:
            raise ValueError("no sessions")
        self.n = len(sessions)
        columns = {name: list(series[0]) for name, series in sessions[0].items()}
        rows = [
            {
                name: [tuple(map(one.__getitem__, columns[name])) for one in _blocks(s, columns[name])]
                for name, s in session.items()
            }
            for session in sessions
        ]

        def totals(chosen: Sequence[Mapping[str, Sequence[tuple[float, ...]]]]) -> dict[str, dict[str, float]]:
            # Rows as tuples: zip and sum add up a thousand resamples of a minute in a second.
            joined = {name: [row for session in chosen for row in session[name]] for name in columns}
            added = {name: map(sum, zip(*joined[name], strict=True)) for name in columns}
            return {name: dict(zip(columns[name], added[name], strict=True)) for name in columns}

        draw = random.Random(seed)
        self.measured = totals(rows)
        self._without = [totals(rows[:i] + rows[i + 1 :]) for i in range(len(rows))] if len(rows) > 1 else []
        self.drawn = [
            totals(
                [
                    {name: draw.choices(series, k=len(series)) for name, series in session.items()}
                    for session in draw.choices(rows, k=len(rows))
                ]
            )
            for _ in range(resamples)
        ]

    def figure(self, of: Callable[[Mapping[str, Mapping[str, float]]], float]) -> Draws:
        """A figure of the totals of all series: of(totals), totals[series][column]. n is the number of sessions."""
        return Draws(of(self.measured), [of(totals) for totals in self.drawn], self.n)

    def error_of_sessions(self, of: Callable[[Mapping[str, Mapping[str, float]]], float]) -> float:
        """The standard error of a figure by how the sessions differ; 0 for a single session."""
        return jackknife_error([of(totals) for totals in self._without]) if self._without else 0.0


def jackknife_error(without: Sequence[float]) -> float:
    """The standard error of a figure by what it is without each of its parts in turn (Tukey 1958)."""
    mean, n = sum(without) / len(without), len(without)
    return math.sqrt((n - 1) / n * sum([(value - mean) ** 2 for value in without]))


def share_draws(repeats: Sequence[Sequence[Sequence[float]]]) -> list[Draws]:
    """The share of each row in all weight, in percent, all repeats pooled.

    repeats: for each, its seconds; a second is the weight of every row. Empty seconds count for nothing.
    """
    slices = [[{str(i): w for i, w in enumerate(second)} for second in seconds] for seconds in repeats]
    return list(Resamples(slices).shares().values())


def share_intervals(repeats: Sequence[Sequence[Sequence[float]]]) -> list[Interval | None]:
    """The 95 % interval of each row's share, in percent."""
    return [draws.interval() for draws in share_draws(repeats)] if any(repeats) else []


_MOST_BLOCKS = 60
# Degrees of freedom of a t that is normal.
_MANY = 10**6


def _blocks(slices: Sequence[Mapping[str, float]], columns: Sequence[str]) -> list[Mapping[str, float]]:
    length = -(-len(slices) // _MOST_BLOCKS)
    # All in one order, so that thousands of resamples are added up column by column.
    ordered = [{name: one[name] for name in columns} for one in slices]
    return [_total(ordered[i : i + length]) for i in range(0, len(ordered), length)] if length > 1 else [*ordered]


def _total(slices: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
    """Of each column, which the slices have in the same order."""
    if len(slices) == 1:
        return slices[0]
    return dict(zip(slices[0], map(sum, zip(*[one.values() for one in slices], strict=True)), strict=True))


def _shares(totals: Mapping[str, float]) -> list[float]:
    whole = sum(totals.values()) or 1
    return [100 * weight / whole for weight in totals.values()]
