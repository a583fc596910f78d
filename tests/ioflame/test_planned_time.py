"""How long the engine is asked to send queries for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from ioflame.measure.job import Planned
from ioflame.measure.options import ProfileOptions
from tests.ioflame.asked import options
from workloads.registry import engine_named
from workloads.scales import scales


def planned(asked: ProfileOptions, scale: str) -> Planned:
    return replace(Planned(asked, *[cast(Any, None)] * 6), engine=engine_named("rocksdb"), scale=scales()[scale])


def test_windows_have_more_time_where_the_host_was_busy_and_as_much_whenever_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = []
    for load in (0.0, 1e6):
        monkeypatch.setattr("os.getloadavg", lambda load=load: (load,) * 3)
        plan = planned(options(), "smoke")
        seconds.append(plan.seconds_of_windows(["tail"]))
        monkeypatch.setattr("os.getloadavg", lambda: (7.0,) * 3)
        assert plan.seconds_of_windows(["tail"]) == seconds[-1]
    assert seconds[1] > seconds[0]


@pytest.mark.parametrize("scale", scales())
@pytest.mark.parametrize("callgraph", ["auto", "fp"])
@pytest.mark.parametrize("duration", [0, 1, 10])
@pytest.mark.parametrize("collect", ["perf", "ladder", "perf ladder pmp"])
def test_after_the_longest_warm_up_there_is_time_for_a_round(
    scale: str, callgraph: str, duration: int, collect: str
) -> None:
    """Rounds can be fewer, but not none: with one round of a second a warm-up of its full bound left no time for it."""
    words = [f"--callgraph={callgraph}", f"--collect={collect}", f"--duration={duration}" if duration else ""]
    asked = options(*filter(None, words))
    plan = planned(asked, scale)
    trial = 2.0 if "perf" in collect and callgraph == "auto" else 0.0
    round_of_all = plan.rounds.lasting(plan.in_turns, 1)
    assert plan.lifetime >= plan.scale.warmup + trial + round_of_all
    assert plan.lifetime >= plan.usual_warm_up + plan.rounds.lasting(plan.in_turns)
