from __future__ import annotations

from collections import Counter

import pytest

from ioflame.analysis.compare.order import session_orders


def test_two_arms_stand_in_abba_and_baab_as_often_and_in_no_pattern() -> None:
    orders = session_orders(["A", "B"], 8, 4, seed=7)
    blocks = ["".join(block) for session in orders for block in session.blocks]
    assert Counter(blocks) == {"ABBA": 16, "BAAB": 16}
    assert all(Counter(session.blocks).most_common(1)[0][1] == 2 for session in orders)
    # Neither turn by turn nor session by session.
    assert len({tuple(session.blocks) for session in orders}) > 2
    assert len({session.start for session in orders}) == 2
    assert session_orders(["A", "B"], 8, 4, seed=7) == orders
    assert session_orders(["A", "B"], 8, 4, seed=8) != orders


@pytest.mark.parametrize("arms", [3, 4, 5])
def test_each_arm_stands_once_in_each_place_and_a_straight_drift_cancels(arms: int) -> None:
    names = [f"v{i}" for i in range(arms)]
    (session,) = session_orders(names, 1, arms, seed=3)
    for place in range(arms):
        assert sorted(block[place] for block in session.blocks) == names
    for block in session.blocks:
        assert {sum(i for i, arm in enumerate(block) if arm == name) for name in names} == {2 * arms - 1}


def test_blocks_left_over_are_balanced_over_the_sessions() -> None:
    orders = session_orders(["A", "B"], 6, 3, seed=1)
    assert Counter("".join(block) for session in orders for block in session.blocks) == {"ABBA": 9, "BAAB": 9}


def test_a_twin_joins_one_block_in_ten() -> None:
    orders = session_orders(["A", "B"], 10, 4, seed=1, twin="A'", twin_every=10)
    with_twin = [block for session in orders for block in session.blocks if "A'" in block]
    assert len(with_twin) == 4
    assert all(sorted(block) == ["A", "A", "A'", "A'", "B", "B"] for block in with_twin)
    assert all(sorted(session.start) == ["A", "A'", "B"] for session in orders)
