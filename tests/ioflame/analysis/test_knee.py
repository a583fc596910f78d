"""The search for the highest rate: it ends near the true one, and takes no lateness of the client for the engine's."""

from __future__ import annotations

import math
import random

import pytest

from ground.results.sweep import Offered
from ioflame.analysis.knee import Kept, kept, knee_of, next_rate

SERVICE_US = 100.0
# One server answers so many a second at most.
WHOLE = 1e6 / SERVICE_US
CLOSED = Offered(None, WHOLE, 1000, 10.0, {"p50": 100.0, "p99": 100.0, "p99_9": 100.0})


def offered(rate: float, noise: float = 0.0, draw: random.Random | None = None, late: float = 0.0) -> Offered:
    """A run at random arrivals and exponential service times: p99 = s ln 100 / (1 - rho)."""
    rho = rate / WHOLE
    if rho >= 0.99:
        return Offered(rate, WHOLE, 1000, 10.0, overloaded=True)
    off = math.exp(draw.gauss(0, noise)) if draw else 1.0
    p99 = SERVICE_US * math.log(100) / (1 - rho) * off
    return Offered(rate, rate, 1000, 10.0, {"p50": p99 / 6.6, "p99": p99, "p99_9": p99 * 1.5}, late=late)


def swept(limit: float | None, runs: int = 8, noise: float = 0.0, draw: random.Random | None = None) -> list[Offered]:
    found: list[Offered] = []
    while len(found) < runs and (rate := next_rate(CLOSED, found, "p99", limit)) is not None:
        found.append(offered(rate, noise, draw))
    return found


@pytest.mark.parametrize("limit", [600.0, 1000.0, 2000.0, 9000.0])
def test_eight_runs_end_within_a_few_percent_of_the_true_rate(limit: float) -> None:
    truth = WHOLE * (1 - SERVICE_US * math.log(100) / limit)
    knee = knee_of(swept(limit), "p99", limit)
    assert knee.kept is not None and knee.missed is not None
    assert (knee.kept.rate or 0) <= truth < (knee.missed.rate or 0)
    assert (knee.missed.rate or 0) - (knee.kept.rate or 0) < 0.05 * WHOLE


def test_without_a_limit_the_search_ends_at_overload() -> None:
    found = swept(None)
    knee = knee_of(found, "p99", None)
    assert knee.kept is not None and 0.93 * WHOLE < (knee.kept.rate or 0) < 0.99 * WHOLE
    assert len(found) < 8  # It is known well enough before.
    found = swept(450.0)  # Less than the engine takes without any queue.
    none = knee_of(found, "p99", 450.0)
    assert none.kept is None and none.missed is not None and len(found) <= 8


def test_noise_moves_the_end_and_breaks_nothing() -> None:
    truth = WHOLE * (1 - SERVICE_US * math.log(100) / 1000.0)
    off = []
    for seed in range(40):
        knee = knee_of(swept(1000.0, noise=0.1, draw=random.Random(seed)), "p99", 1000.0)
        off.append(((knee.kept.rate or 0.0) if knee.kept else 0.0) / truth - 1)
        if knee.kept and knee.missed:
            assert (knee.kept.rate or 0) < (knee.missed.rate or 0)
    # p99 is off by 10 %, which is 9 % of the rate here; three standard deviations, and the gap.
    assert all(-0.32 < one < 0.27 for one in off)


@pytest.mark.parametrize(
    ("p99", "late", "expected"), [(900.0, 800.0, Kept.YES), (1100.0, 50.0, Kept.NO), (1100.0, 200.0, Kept.UNKNOWN)]
)
def test_lateness_of_the_client_only_adds(p99: float, late: float, expected: Kept) -> None:
    one = Offered(5000.0, 5000.0, 1000, 10.0, {"p50": 1.0, "p99": p99, "p99_9": 9e9}, late=late)
    assert kept(one, "p99", 1000.0) is expected
