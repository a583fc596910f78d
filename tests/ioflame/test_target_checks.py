"""What is said of the count of a target's queries."""

from __future__ import annotations

import random
import re

import pytest

from ground.results.checks import Check, Verdict
from ground.results.record import Target
from ioflame.analysis.checks.target import target_checks
from tests.records import window


def count_check(seconds: list[float], lag: float) -> Check:
    target = Target("--pid 1", "postgres", [1], count="psql", count_lag=lag)
    checks = target_checks(target, [window("plain", one) for one in seconds])
    return next(check for check in checks if check.name == "count")


@pytest.mark.parametrize("seconds", [[6.0] * 4, [1.0] * 4, [20.0], [3.0] * 7])
def test_what_old_answers_may_be_off_by_holds_nineteen_times_in_twenty(seconds: list[float]) -> None:
    found = re.search(r"up to 1 s old: \+-([\d.]+) %", count_check(seconds, 1.0).value)
    assert found is not None
    draw = random.Random(7)
    # 100 queries a second; an answer lacks those of up to a second, each edge its own.
    off = [100 * sum(draw.random() - draw.random() for _ in seconds) / sum(seconds) for _ in range(20_000)]
    within = sum(abs(one) <= float(found[1]) for one in off) / len(off)
    assert 0.94 < within < 0.97


def test_only_what_makes_a_figure_doubtful_warns() -> None:
    assert count_check([6.0] * 4, 1.0).verdict is Verdict.OK
    assert count_check([1.0] * 4, 1.0).verdict is Verdict.WARN
    assert count_check([1.0] * 4, 0.0).value == "psql"
