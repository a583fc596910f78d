"""Blocks in sessions -> a difference with its interval.

Model: ln(arm/base) of a block = difference + position effect + covariate + session effect + noise of the block.
The estimate is the mean over sessions. Its error comes from the nested variances (Kalibera and Jones, ISMM 2013): the
spread of the sessions' means, and never less than what the blocks within sessions say it must be, which is the same as
a session variance that is never below 0. Degrees of freedom (Satterthwaite 1946): those of the larger of the two.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from ground.results.differences import Difference, Variances
from ioflame.analysis.compare.figures import BlockLogs
from ioflame.analysis.quantiles import t_quantile, t_tail

# 2 / 2**8 = 0.008: the first session count at which the exact test can say anything at 1 %.
SIGN_FLIP_FROM = 8
# The exact test counts 2**sessions flips by halves.
_SIGN_FLIP_TO = 30
# A column of which so little is left beside the others says nothing of its own.
_NOTHING_LEFT = 1e-9


def solve(products: Sequence[Sequence[float]], cross: Sequence[float]) -> tuple[list[float], list[list[float]], int]:
    """Coefficients, inverse of `products`, rank: Gauss and Jordan. A column that others explain has 0 in all of them.

    products: X'X of centred columns; cross: X'y.
    """
    size = len(cross)
    rows = [[*map(float, products[i]), *[float(i == j) for j in range(size)]] for i in range(size)]
    used: list[int] = []
    for k in range(size):
        if rows[k][k] <= _NOTHING_LEFT * products[k][k]:
            continue
        used.append(k)
        pivot = rows[k][k]
        rows[k] = [value / pivot for value in rows[k]]
        for i in range(size):
            if i != k and (factor := rows[i][k]):
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k], strict=True)]
    inverse = [[rows[i][size + j] if i in used and j in used else 0.0 for j in range(size)] for i in range(size)]
    coefficients = [sum([a * b for a, b in zip(row, cross, strict=True)]) for row in inverse]
    return coefficients, inverse, len(used)


@dataclass(frozen=True)
class Confidence:
    """Of the interval of a look, and of the two one-sided tests for equality: 0.99 and 0.98 for five looks at 5 %."""

    differs: float = 0.99
    same: float = 0.98


@dataclass(frozen=True)
class SessionSums:
    """What the statistics need of a session's blocks. Columns are those of the regression: places, then the covariate.

    means:  of ln(arm/base) and of each column; products: of what is left when these are taken out
    spread: of windows (`BlockLogs.spread`), added up; covariates: 1 where the last column is one
    """

    blocks: int
    log: float
    means: tuple[float, ...]
    squares: float
    cross: tuple[float, ...]
    products: tuple[tuple[float, ...], ...]
    spread: tuple[float, int]
    covariates: int


def sums_of(blocks: Sequence[BlockLogs], places: int) -> SessionSums:
    """places: how many arms share a block."""
    rows = [_columns(block, places) for block in blocks]
    n = len(blocks)
    log = sum([block.log for block in blocks]) / n
    means = tuple([sum(column) / n for column in zip(*rows, strict=True)])
    logs = [block.log - log for block in blocks]
    columns = [[value - mean for value in column] for mean, column in zip(means, zip(*rows, strict=True), strict=True)]
    return SessionSums(
        n,
        log,
        means,
        _product(logs, logs),
        tuple([_product(column, logs) for column in columns]),
        tuple([tuple([_product(a, b) for b in columns]) for a in columns]),
        (sum([block.spread[0] for block in blocks]), sum([block.spread[1] for block in blocks])),
        int(blocks[0].covariate is not None),
    )


def _columns(block: BlockLogs, places: int) -> list[float]:
    arm, base = block.places
    places_taken = [float(arm == place) - float(base == place) for place in range(1, places)]
    return places_taken if block.covariate is None else [*places_taken, block.covariate]


def _product(a: Sequence[float], b: Sequence[float]) -> float:
    return sum([x * y for x, y in zip(a, b, strict=True)])


@dataclass(frozen=True)
class _Within:
    """The regression within sessions: coefficients, their unscaled covariance, what is left and its freedom."""

    slopes: list[float]
    inverse: list[list[float]]
    left: float
    freedom: int

    @property
    def variance(self) -> float:
        return self.left / self.freedom if self.freedom > 0 else 0.0


def _within(sessions: Sequence[SessionSums], columns: int) -> _Within:
    products = [[sum([s.products[i][j] for s in sessions]) for j in range(columns)] for i in range(columns)]
    cross = [sum([s.cross[i] for s in sessions]) for i in range(columns)]
    slopes, inverse, rank = solve(products, cross)
    left = sum([s.squares for s in sessions]) - _product(slopes, cross)
    return _Within(slopes, inverse, max(left, 0.0), sum([s.blocks - 1 for s in sessions]) - rank)


def difference(sessions: Sequence[SessionSums], confidence: Confidence) -> Difference | None:
    """None below two sessions: one alone cannot say what the next would.

    ValueError where an adjusted figure has too few blocks to learn the covariate's part from.
    """
    n = len(sessions)
    if n < 2:
        return None
    covariates = sessions[0].covariates
    places = len(sessions[0].means) - covariates
    if sum([s.blocks - 1 for s in sessions]) - places - covariates < 2:
        if covariates:
            raise ValueError("too few blocks to learn from them what the device does to the figure")
        places = 0
    columns = places + covariates
    fit = _within(sessions, columns)
    logs = [s.log - _product(fit.slopes, s.means[:columns]) for s in sessions]
    log = sum(logs) / n
    between = sum([(one - log) ** 2 for one in logs]) / (n - 1)
    # As many blocks in each session or not: the harmonic mean of their number.
    shrink = sum([1 / s.blocks for s in sessions]) / n
    least = fit.variance * shrink
    freedom = n - 1 if between >= least or fit.freedom < n - 1 else fit.freedom
    # Where the arms differ in the covariate, the estimate is extrapolated from the data by as much.
    away = [sum([s.means[i] for s in sessions]) / n for i in range(columns)]
    slope_error = fit.variance * _product(away, [_product(row, away) for row in fit.inverse])
    error = math.sqrt(max(between, least) / n + slope_error)
    spread, window_freedom = (sum([s.spread[i] for s in sessions]) for i in (0, 1))
    explained = None
    if covariates:
        plain = _within(sessions, places)
        explained = max(0.0, 1 - fit.variance / plain.variance) if plain.variance else 0.0
    low, high = _ends(log, error, freedom, confidence.differs)
    same_low, same_high = _ends(log, error, freedom, confidence.same)
    return Difference(
        ratio=math.exp(log),
        low=low,
        high=high,
        same_low=same_low,
        same_high=same_high,
        log=log,
        error=error,
        freedom=freedom,
        p=t_tail(log / error, freedom) if error else float(log == 0),
        sign_flip_p=sign_flip_p(logs) if SIGN_FLIP_FROM <= n <= _SIGN_FLIP_TO else None,
        sessions=n,
        blocks=sum([s.blocks for s in sessions]),
        confidence=confidence.differs,
        variances=Variances(
            math.sqrt(max(between - least, 0.0)),
            math.sqrt(fit.variance),
            math.sqrt(spread / window_freedom) if window_freedom else 0.0,
        ),
        explained=explained,
    )


def _ends(log: float, error: float, freedom: float, confidence: float) -> tuple[float, float]:
    half = t_quantile(confidence, freedom) * error
    return math.exp(log - half), math.exp(log + half)


def sign_flip_p(logs: Sequence[float]) -> float:
    """Exact, two-sided: of all 2**n ways to give the sessions' differences signs, how many have a sum as large."""
    sizes = [abs(x) for x in logs]
    target = abs(sum(logs)) * (1 - 1e-12)
    if not target:
        return 1.0
    middle = len(sizes) // 2
    first, second = _signed_sums(sizes[:middle]), sorted(_signed_sums(sizes[middle:]))
    count = sum([len(second) - bisect_left(second, target - one) for one in first])
    return min(1.0, 2 * count / (1 << len(sizes)))


def _signed_sums(sizes: Sequence[float]) -> list[float]:
    sums = [0.0]
    for size in sizes:
        sums = [one + sign for one in sums for sign in (size, -size)]
    return sums
