from __future__ import annotations

from random import Random

import pytest

from ground.results.accounts import ALL, Account
from ioflame.analysis.compare.accounts import SMALLER, account_change, account_changes

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


@pytest.mark.slow
def test_nothing_is_called_a_difference_that_is_none() -> None:
    n = 300
    false = sum(any(row.seen for row in account_change(pairs(seed, 5), resamples=150).rows) for seed in range(n))
    print(f"a false row in {100 * false / n:.1f} %")
    assert false <= 0.08 * n
