"""How long the engine is asked to send queries for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from ioflame.measure.job import Planned
from tests.ioflame.asked import options
from workloads.registry import engine_named
from workloads.scales import scales


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
    plan = replace(Planned(asked, *[cast(Any, None)] * 6), engine=engine_named("rocksdb"), scale=scales()[scale])
    trial = 2.0 if "perf" in collect and callgraph == "auto" else 0.0
    round_of_all = plan.rounds.lasting(plan.in_turns, 1)
    assert plan.lifetime >= plan.scale.warmup + trial + round_of_all
    assert plan.lifetime >= plan.usual_warm_up + plan.rounds.lasting(plan.in_turns)
