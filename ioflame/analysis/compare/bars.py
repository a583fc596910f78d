"""What bars a verdict although its numbers are valid: a twin that differs, or a place in the block that does."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ground.results.differences import Decision, PositionEffect, percent
from ioflame.analysis.compare.figures import Session
from ioflame.analysis.quantiles import t_quantile

# Looked at for each figure, twice, at each look: at 99 % chance alone would bar every fifth comparison of a noisy host.
_CONFIDENCE = 0.999


def position_effect(sessions: Sequence[Session], metric: str) -> PositionEffect | None:
    """The first place of a block against the others, by t over the sessions; None below two sessions.

    Each window is taken against the mean of its arm in its session, so arms that differ do not count as places that
    do. Of a mirrored block the first place is the first and the last window: a straight drift cancels.
    """
    effects = [effect for session in sessions if (effect := _of_session(session, metric)) is not None]
    n = len(effects)
    if n < 2:
        return None
    mean = sum(effects) / n
    error = math.sqrt(sum((one - mean) ** 2 for one in effects) / (n - 1) / n)
    half = t_quantile(_CONFIDENCE, n - 1) * error
    return PositionEffect(math.exp(mean), math.exp(mean - half), math.exp(mean + half), n)


def _of_session(session: Session, metric: str) -> float | None:
    of_arm: dict[str, list[float]] = {}
    placed: list[tuple[int, str, float]] = []
    for block in session:
        order = list(dict.fromkeys(window.arm for window in block))
        for window in block:
            value = window.figures.get(metric, 0.0)
            if value <= 0:
                return None
            of_arm.setdefault(window.arm, []).append(math.log(value))
            placed.append((order.index(window.arm), window.arm, math.log(value)))
    means = {arm: sum(logs) / len(logs) for arm, logs in of_arm.items()}
    first = [log - means[arm] for place, arm, log in placed if place == 0]
    others = [log - means[arm] for place, arm, log in placed if place > 0]
    return sum(first) / len(first) - sum(others) / len(others) if first and others else None


def of_twin(twin: Decision, delta: float) -> list[str]:
    """Why the verdict is barred, in words; empty where the twin agrees with its base."""
    found = twin.difference
    if found is None:
        return []
    half = t_quantile(_CONFIDENCE, found.freedom) * found.error
    if not _outside(math.exp(found.log - half), math.exp(found.log + half), delta / 2):
        return []
    return [f"the twin of {twin.base} differs from it by {percent(found.ratio - 1)}"]


def of_position(effect: PositionEffect, delta: float) -> list[str]:
    """Why the verdict is barred, in words; empty where the place in a block has no effect that matters."""
    if not _outside(effect.low, effect.high, delta / 2):
        return []
    return [f"the first place in a block differs from the others by {percent(effect.ratio - 1)}"]


def _outside(low: float, high: float, bound: float) -> bool:
    return low > 1 + bound or high < 1 / (1 + bound)
