from __future__ import annotations

import math
from random import Random

import pytest

from ground.results.accounts import ALL, Account
from ground.results.differences import Budget
from ioflame.analysis.compare.accounts import SMALLER, account_change, account_changes
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


def test_an_interval_is_students_of_the_sessions_and_of_several_rows_sidaks() -> None:
    """Seconds that do not differ: what is left of doubt is what the sessions differ by."""
    arms = (3.0, 5.0, 4.0, 6.0, 7.0)
    sessions = [([{"q": 1.0, "us": 1.0, "io": 2.0}] * 3, [{"q": 1.0, "us": 1.0 + x, "io": 2.0 - x}] * 3) for x in arms]
    deviation = math.sqrt(2.5)
    # The published t of 4 degrees of freedom: of 0.95 for one row, of sqrt(0.95) = 0.97468 for each of two.
    for ratios, t in (({"cpu": ("us", "q", "us")}, 2.776), ({n: (n, "q", "us") for n in ("us", "io")}, 3.4814)):
        row = ratio_changes(sessions, ratios)[0]
        assert (row.kind, row.unit, row.seen) == ("background", "us", True)
        assert (row.base, row.arm, row.change) == pytest.approx((1.0, 6.0, 5.0))
        assert row.high - row.change == row.change - row.low == pytest.approx(t * deviation / math.sqrt(5), rel=1e-3)


# ---- accounts --------------------------------------------------------------------------------------------------------
# us of a write by stage, and one stage below a hundredth of all.
STAGES = {"memtable": 12.0, "log": 30.0, "sync": 55.0, "leave": 0.4, "rest": 0.3}


def account(draw: Random, host: float, **more: float) -> Account:
    """host: by which factor everything of the session is longer; more: us a write, in a stage"""
    writes = float(draw.randint(20_000, 40_000))
    rows = {
        name: writes * us * host * max(draw.gauss(1, 0.02), 0) + writes * more.get(name, 0.0)
        for name, us in STAGES.items()
    }
    return Account("writepath", writes, rows)


def pairs(seed: int, sessions: int, **more: float) -> list[tuple[Account, Account]]:
    draw = Random(seed)
    found = []
    for _ in range(sessions):
        host = max(draw.gauss(1, 0.3), 0.2)
        found.append((account(draw, host), account(draw, host, **more)))
    return found


def test_rows_add_up_to_all_and_small_ones_are_one() -> None:
    change = account_change(pairs(1, 4))
    whole, *rows = change.rows
    assert [row.name for row in change.rows] == [ALL, "memtable", "log", "sync", SMALLER]
    assert (change.title, change.unit, change.sessions) == ("a write, by stage", "us/write", 4)
    for side in ("base", "arm", "change"):
        assert getattr(whole, side) == pytest.approx(sum(getattr(row, side) for row in rows))
    assert (whole.depth, {row.depth for row in rows}) == (0, {1})


def test_what_a_stage_takes_longer_is_seen_in_it_alone() -> None:
    change = account_change(pairs(2, 6, log=25.0))
    rows = {row.name: row for row in change.rows}
    assert {name for name, row in rows.items() if row.seen} == {ALL, "log"}
    assert rows["log"].low < 25.0 < rows["log"].high
    # The session's own slowness is in both arms: 30 % of it would hide 2.5 us.
    assert {row.name for row in account_change(pairs(3, 6, memtable=2.5)).rows if row.seen} >= {"memtable"}


def test_a_row_of_one_arm_alone_is_nothing_in_the_other() -> None:
    draw = Random(4)
    made = [(account(draw, 1.0), account(draw, 1.0)) for _ in range(5)]
    with_stall = [(base, Account(arm.name, arm.work, {**arm.rows, "stall": 9.0 * arm.work})) for base, arm in made]
    (row,) = [row for row in account_change(with_stall).rows if row.name == "stall"]
    assert row.base == 0.0 and row.arm == pytest.approx(9.0) and row.seen


def test_one_session_says_nothing_and_one_row_is_all() -> None:
    sessions = [({"writepath": base}, {"writepath": arm}) for base, arm in pairs(5, 3)]
    assert account_changes(sessions[:1]) == []
    # A session that lacks it on one side counts for nothing.
    (change,) = account_changes([*sessions, ({}, {"writepath": sessions[0][1]["writepath"]})])
    assert change.sessions == 3
    group = (Account("groups", 10.0, {"groups": 4.0}), Account("groups", 10.0, {"groups": 5.0}))
    assert [row.name for row in account_change([group, group]).rows] == [ALL]


def test_nothing_is_called_a_difference_that_is_none() -> None:
    found = [account_change(pairs(seed, 5), resamples=150) for seed in range(10)]
    assert not any(row.seen for one in found for row in one.rows)
