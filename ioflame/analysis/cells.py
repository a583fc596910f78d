"""The table of an experiment of cells, and whether it is as expected: proofs by name."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from ground.results.cells import Judged, Value
from ground.text.units import format_figure
from ioflame.analysis.quantiles import t_quantile

# How far a measured ratio may be from its model.
_NEAR = 0.15
_NORMAL = NormalDist().inv_cdf(0.975)


def summary_of(values: Sequence[float]) -> Value | None:
    """None of no values."""
    if not values:
        return None
    low = high = None
    if len(values) >= 4:
        low, _, high = statistics.quantiles(values, method="inclusive")
    return Value(statistics.median(values), low, high, len(values))


def model_ratio(levels: float, uncompressed: float, ratio: float) -> float:
    """Bytes written without compression over those with it, where `uncompressed` of `levels` levels stay as they are.

    (u + (n - u) r) / (n r): n levels written, u of them uncompressed in one of the two, r the size of compressed data.
    """
    return (uncompressed + (levels - uncompressed) * ratio) / (levels * ratio)


# A proof sees the values of its column in the order of its cells, those of the other column, and its bounds.
Proof = Callable[[Sequence[float], Sequence[float], float, float], bool]


def _within(values: Sequence[float], _: Sequence[float], low: float, high: float) -> bool:
    return all(low <= value <= high for value in values)


def _above(values: Sequence[float], others: Sequence[float], low: float, _: float) -> bool:
    """Each at least `low` times the other column's of the same cell, 1 where no bound is given."""
    return all(value >= other * (low or 1.0) for value, other in zip(values, others, strict=True))


def _agrees(values: Sequence[float], others: Sequence[float], _: float, high: float) -> bool:
    """No further from the other column than `high`; two infinities agree."""
    return all(a == b or abs(a - b) <= high for a, b in zip(values, others, strict=True))


# Proofs about each cell alone.
_OF_EACH: Mapping[str, Proof] = {"within": _within, "above": _above, "agrees": _agrees}


@dataclass(frozen=True)
class _Contrast:
    """A product of cells over a product of others, and what it has to lie within."""

    over: tuple[str, ...]
    under: tuple[str, ...]
    low: float
    high: float = math.inf


# A proof that compares cells sees their names in order, the other column of the first, and its bounds.
Contrasts = Callable[[Sequence[str], float, float, float], list[_Contrast]]


def _rises(cells: Sequence[str], _: float, low: float, __: float) -> list[_Contrast]:
    """Each at least `low` times the one before it, 1 where no bound is given."""
    return [_Contrast((b,), (a,), low or 1.0) for a, b in itertools.pairwise(cells)]


def _falls(cells: Sequence[str], other: float, low: float, high: float) -> list[_Contrast]:
    return _rises(cells[::-1], other, low, high)


def _ratio(cells: Sequence[str], _: float, low: float, high: float) -> list[_Contrast]:
    """The first cell over the last."""
    return [_Contrast((cells[0],), (cells[-1],), low, high)]


def _lies_within(cells: Sequence[str], _: float, low: float, high: float) -> list[_Contrast]:
    """Each cell, of a figure that varies from run to run: by its interval. `within` is for what is exact."""
    return [_Contrast((cell,), (), low, high) for cell in cells]


def _pulls_ahead(cells: Sequence[str], _: float, __: float, ___: float) -> list[_Contrast]:
    """The first over the second is less than the third over the fourth, and so on."""
    pairs = itertools.pairwise(zip(cells[::2], cells[1::2], strict=True))
    return [_Contrast((c, b), (d, a), math.nextafter(1.0, 2.0)) for (a, b), (c, d) in pairs]


def _model(cells: Sequence[str], other: float, low: float, high: float) -> list[_Contrast]:
    """The first cell over the last is within 15 % of `model_ratio`: low is u, high is r, the other column n."""
    model = model_ratio(other, low, high)
    return [_Contrast((cells[0],), (cells[-1],), model * (1 - _NEAR), model * (1 + _NEAR))]


_OF_SEVERAL: Mapping[str, Contrasts] = {
    "rises": _rises, "falls": _falls, "ratio": _ratio, "model": _model, "pulls ahead": _pulls_ahead,
    "lies within": _lies_within,
}  # fmt: skip
PROOFS = ("within", *_OF_SEVERAL, "above", "agrees")


@dataclass(frozen=True)
class Spread:
    """ln of a value with its standard error and degrees of freedom."""

    log: float
    error: float
    freedom: float


def spread_of(values: Sequence[float], seconds: tuple[float, float] | None) -> Spread | None:
    """Of a column over the runs of a cell; of one run by the 95 % interval of its seconds. None where neither is."""
    if not values or not all(0 < value < math.inf for value in values):
        return None
    logs = [math.log(value) for value in values]
    if len(logs) > 1:
        return Spread(statistics.fmean(logs), statistics.stdev(logs) / math.sqrt(len(logs)), len(logs) - 1)
    if seconds is None or not 0 < seconds[0] <= seconds[1]:
        return None
    return Spread(logs[0], math.log(seconds[1] / seconds[0]) / 2 / _NORMAL, math.inf)


def _compared(
    contrast: _Contrast, values: Mapping[str, float], spreads: Mapping[str, Spread | None] | None
) -> tuple[bool | None, str]:
    """Whether a contrast is within its bounds: by its 95 % interval where every cell has a spread.

    A single value without one shows what is expected, or nothing: what it lacks may be chance. spreads: None of values
    that are exact
    """
    over, under = (math.prod(values[cell] for cell in cells) for cells in (contrast.over, contrast.under))
    within = contrast.low * under <= over and (contrast.high == math.inf or over <= contrast.high * under)
    # Nothing is as much as nothing, and no more.
    within = within and not (over == under == 0 and contrast.low > 1)
    if spreads is None:
        return within, ""
    known = [(spreads[cell], sign) for cells, sign in ((contrast.over, 1), (contrast.under, -1)) for cell in cells]
    found = [(one, sign) for one, sign in known if one is not None]
    if len(found) < len(known):
        return (True, "") if within else (None, "single values, without an interval")
    log, error = sum(one.log * sign for one, sign in found), math.sqrt(sum(one.error**2 for one, _ in found))
    # Welch and Satterthwaite.
    spread = sum(one.error**4 / one.freedom for one, _ in found)
    half = (t_quantile(0.95, error**4 / spread) if spread else _NORMAL) * error
    low, high = math.exp(log - half), math.exp(log + half)
    told = f"{'ratio ' * bool(contrast.under)}{math.exp(log):.3g} [{low:.3g}, {high:.3g}]"
    if contrast.low <= low and high <= contrast.high:
        return True, told
    return (False if high < contrast.low or contrast.high < low else None), told


def judge(
    proof: str,
    values: Mapping[str, float | None],
    others: Mapping[str, float | None],
    low: float,
    high: float,
    spreads: Mapping[str, Spread | None] | None = None,
) -> Judged:
    """A proof over the cells in their order. values, others: by cell; None where it was not measured

    A proof about each cell alone fails as soon as one measured cell fails it, whatever the unmeasured ones would be.
    spreads: of the values; None of values that are exact
    """
    shown = _listed(values)
    if others:
        shown += f", against {_listed(others)}"
    known = {
        cell: value for cell, value in values.items()
        if value is not None and (not others or others[cell] is not None)
    }  # fmt: skip
    other = [one for cell, one in others.items() if cell in known and one is not None]
    whole = len(known) == len(values)
    if proof in _OF_EACH:
        holds = _OF_EACH[proof](list(known.values()), other, low, high)
        if whole or not holds:
            return Judged(holds, shown)
    if not whole:
        return Judged(None, f"not measured in every cell: {shown}")
    contrasts = _OF_SEVERAL[proof](list(known), other[0] if other else 0.0, low, high)
    found = [_compared(contrast, known, spreads) for contrast in contrasts]
    outcomes = [outcome for outcome, _ in found]
    told = "; ".join(dict.fromkeys(filter(None, [shown, *(words for _, words in found)])))
    return Judged(False if False in outcomes else None if None in outcomes else True, told)


def _listed(values: Mapping[str, float | None]) -> str:
    """Commas are in names and numbers, so semicolons are between them."""
    return "; ".join(
        f"{cell} {'not measured' if value is None else format_figure(value)}" for cell, value in values.items()
    )
