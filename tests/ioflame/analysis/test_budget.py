from __future__ import annotations

import math
from random import Random

import pytest

from ground.results.differences import Budget
from ioflame.analysis.compare.budget import ArmSlices, latency_budget, ratio_changes

# us per query: CPU by category, then waits.
CATEGORIES = {"libc+k": 24.0, "checksm": 12.0, "LRU": 8.0, "bloom": 6.0, "other": 4.0}
BLOCKED, RUN_QUEUE, REST = 34.0, 12.0, 0.5


def arm(draw: Random, seconds: int, host: tuple[float, float], spin: float = 0.0, sleep: float = 0.0) -> ArmSlices:
    """An arm of one session; host: ln of what the session does to CPU and to the device. spin and sleep: us more."""
    cpu = sum(CATEGORIES.values()) * math.exp(host[0]) + spin
    blocked = BLOCKED * math.exp(host[1]) + sleep

    def second() -> tuple[float, float, float, float]:
        """Queries, and us of each for CPU, device and run queue."""
        c, b, r = (us * math.exp(draw.gauss(0, s)) for us, s in ((cpu, 0.03), (blocked, 0.1), (RUN_QUEUE, 0.1)))
        return 1e6 / (c + b + r + REST), c, b, r

    drawn = [second() for _ in range(2 * seconds)]
    plain = [{"queries": q, "thread_us": 1e6, "cpu_us": c * q} for q, c, _, _ in drawn[:seconds]]
    waits = [{"queries": q, "blocked io": b * q, "run queue": r * q} for q, _, b, r in drawn[seconds:]]
    shares = {name: us + spin * (name == "libc+k") for name, us in CATEGORIES.items()}
    profile = [{name: 1000 * us * math.exp(draw.gauss(0, 0.1)) for name, us in shares.items()} for _ in range(seconds)]
    return ArmSlices(plain, profile, [waits])


def budget(
    seed: int, sessions: int, apart: float = 0.0, spin: float = 0.0, sleep: float = 0.0, *, resamples: int = 200
) -> Budget:
    """apart: what the arms of one session differ by, beside what is asked for; the host's own state is in both."""
    draw = Random(seed)
    pairs = []
    for _ in range(sessions):
        host = (draw.gauss(0, 0.05), draw.gauss(0, 0.3))
        other = (host[0] + draw.gauss(0, apart), host[1] + draw.gauss(0, apart))
        pairs.append((arm(draw, 12, host), arm(draw, 12, other, spin, sleep)))
    return latency_budget(pairs, resamples=resamples)


def seen(found: Budget) -> set[str]:
    return {row.name for row in found.rows if row.seen}


def test_the_rows_add_up() -> None:
    found = budget(1, 6, spin=3.0)
    rows = {row.name: row for row in found.rows}
    waits = rows["blocked io"].change + rows["run queue"].change
    assert rows["latency"].change == pytest.approx(rows["on CPU"].change + waits + rows["unaccounted"].change)
    assert rows["on CPU"].change == pytest.approx(sum(row.change for row in found.rows if row.kind == "category"))
    assert found.closes
    assert [row.kind for row in found.rows] == ["latency", "cpu", *["category"] * 5, *["wait"] * 2, "unaccounted"]
    assert found.sessions == 6


def test_a_spin_is_in_its_category_and_a_sleep_in_its_wait() -> None:
    spins, sleeps, neither = budget(2, 6, spin=4.0), budget(2, 6, sleep=12.0), budget(2, 6)
    assert seen(spins) >= {"on CPU", "libc+k"}
    assert seen(spins) <= {"latency", "on CPU", "libc+k"}
    assert seen(sleeps) <= {"latency", "blocked io"}
    assert "blocked io" in seen(sleeps)
    assert seen(neither) == set()
    (row,) = [row for row in spins.rows if row.name == "libc+k"]
    assert row.low <= 4.0 <= row.high


def test_what_is_left_over_is_a_row_and_a_check() -> None:
    draw = Random(3)
    pairs = [(arm(draw, 10, (0, 0)), arm(draw, 10, (0, 0))) for _ in range(4)]
    without = [tuple(ArmSlices(side.plain, side.profile) for side in pair) for pair in pairs]
    found = latency_budget(without, resamples=100)  # type: ignore[arg-type]
    assert not found.closes
    assert found.rows[-1].base == pytest.approx(BLOCKED + RUN_QUEUE + REST, rel=0.1)


@pytest.mark.slow
def test_all_rows_hold_at_once() -> None:
    """The intervals of all rows hold together, and no row is seen that did not change; sessions are 3 % apart."""
    truth = {"latency": 3.0, "on CPU": 3.0, "libc+k": 3.0}
    n = 100
    held = false = 0
    for seed in range(n):
        rows = budget(seed, 5, 0.03, spin=3.0, resamples=120).rows
        held += all(row.low <= truth.get(row.name, 0) <= row.high for row in rows)
        false += any(row.seen for row in rows if row.name not in truth)
    print(f"all rows hold in {100 * held / n:.1f} %, a false row in {100 * false / n:.1f} %")
    assert held >= 0.93 * n
    assert false <= 0.06 * n


def test_compaction_that_costs_more_for_the_same_bytes_is_seen_per_gb() -> None:
    """10.5.5 to 10.6.2 of RocksDB, as reported: 521 to 776 s of compaction CPU for the same 87.8 GB."""
    draw = Random(1)

    def side(seconds: float) -> list[dict[str, float]]:
        gigabytes = [87.8 / 30 * math.exp(draw.gauss(0, 0.1)) for _ in range(30)]
        return [{"gb": gb, "cpu_s": seconds / 87.8 * gb * math.exp(draw.gauss(0, 0.05))} for gb in gigabytes]

    (row,) = ratio_changes([(side(521), side(776)) for _ in range(4)], {"compaction": ("cpu_s", "gb", "s/GB")})
    assert row.seen
    assert row.arm / row.base == pytest.approx(1.49, abs=0.02)
    assert (row.kind, row.unit) == ("background", "s/GB")
