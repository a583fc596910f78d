"""The table of an experiment of cells, and whether what has to hold of it does: proofs by name."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from ground.results.cells import Judged, Value

__all__ = ("PROOFS", "column_value", "judge", "model_ratio", "summary_of")

# How far a measured ratio may be from its model.
_NEAR = 0.15
# Figures of one run, by step and name.
Figures = Mapping[str, float]


def column_value(
    figures: Figures, part: Sequence[str], per: Sequence[str], times: float, form: str = "ratio"
) -> float | None:
    """sum(part) / sum(per) * times; infinite where something is divided by nothing, None where a figure is missing.

    form: `filled` for 1 - exp(-ratio) instead: the share of n keys that came up in w random draws, the limit of
    1 - (1 - 1/n)^w
    """
    if not all(name in figures for name in (*part, *per)):
        return None
    whole = sum(figures[name] for name in per) if per else 1.0
    top = sum(figures[name] for name in part)
    ratio = top / whole if whole else math.inf
    return times * (-math.expm1(-ratio) if form == "filled" else ratio)


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


def _rises(values: Sequence[float], _: Sequence[float], low: float, __: float) -> bool:
    """Each at least `low` times the one before it, 1 where no bound is given."""
    return all(b >= a * (low or 1.0) for a, b in itertools.pairwise(values))


def _falls(values: Sequence[float], _: Sequence[float], low: float, __: float) -> bool:
    return _rises(values[::-1], (), low, 0.0)


def _above(values: Sequence[float], others: Sequence[float], low: float, _: float) -> bool:
    """Each at least `low` times the other column's of the same cell, 1 where no bound is given."""
    return all(value >= other * (low or 1.0) for value, other in zip(values, others, strict=True))


def _agrees(values: Sequence[float], others: Sequence[float], _: float, high: float) -> bool:
    """No further from the other column than `high`; two infinities agree."""
    return all(a == b or abs(a - b) <= high for a, b in zip(values, others, strict=True))


def _ratio(values: Sequence[float], _: Sequence[float], low: float, high: float) -> bool:
    """The first cell over the last."""
    return bool(values[-1]) and low <= values[0] / values[-1] <= high


def _pulls_ahead(values: Sequence[float], _: Sequence[float], __: float, ___: float) -> bool:
    """The first over the second is less than the third over the fourth, and so on."""
    ratios = [a / b if b else math.inf for a, b in zip(values[::2], values[1::2], strict=True)]
    return all(b > a for a, b in itertools.pairwise(ratios))


def _model(values: Sequence[float], others: Sequence[float], low: float, high: float) -> bool:
    """The first cell over the last is within 15 % of `model_ratio`: low is u, high is r, the other column n."""
    return bool(values[-1]) and abs(values[0] / values[-1] / model_ratio(others[0], low, high) - 1) <= _NEAR


PROOFS: Mapping[str, Proof] = {
    "within": _within, "rises": _rises, "falls": _falls, "above": _above, "agrees": _agrees, "ratio": _ratio,
    "model": _model, "pulls ahead": _pulls_ahead,
}  # fmt: skip

# Proofs about each cell alone.
_OF_EACH = ("within", "above", "agrees")


def judge(
    proof: str, values: Mapping[str, float | None], others: Mapping[str, float | None], low: float, high: float
) -> Judged:
    """A proof over the cells in their order. values, others: by cell; None where it was not measured

    A proof about each cell alone does not hold where one that was measured shows it, whatever the others would have.
    """
    shown = ", ".join(f"{cell} {_text(value)}" for cell, value in values.items())
    if others:
        shown += " against " + ", ".join(f"{cell} {_text(value)}" for cell, value in others.items())
    known = [value for value in values.values() if value is not None]
    other = [value for value in others.values() if value is not None]
    if len(known) < len(values) or len(other) < len(others):
        both = [
            (value, others.get(cell)) for cell, value in values.items()
            if value is not None and (not others or others[cell] is not None)
        ]  # fmt: skip
        ours, theirs = [one for one, _ in both], [one for _, one in both if one is not None]
        if proof in _OF_EACH and not PROOFS[proof](ours, theirs, low, high):
            return Judged(False, shown)
        return Judged(None, f"not measured in every cell: {shown}")
    return Judged(PROOFS[proof](known, other, low, high), shown)


def _text(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.4g}"
