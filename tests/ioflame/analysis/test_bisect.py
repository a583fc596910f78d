"""Searches for a commit in simulated noise: how often the right one is named, and what that takes."""

from __future__ import annotations

import math
from random import Random
from statistics import median

import pytest

from ioflame.analysis.bisect import Costs, Found, Observation, Search

COMMITS, EFFECT, BLOCK_SD = 1000, 0.05, 0.06
# Blocks in which the ends were proven to differ.
PROOF = 16


def measured(levels: list[float], candidate: int | None, blocks: int, draw: Random) -> Observation:
    """levels: ln of every commit; ln(B/A) of a block has BLOCK_SD."""
    ends, off = [], []
    for _ in range(blocks):
        good, bad, own = (draw.gauss(0, BLOCK_SD / math.sqrt(2)) for _ in range(3))
        good, bad = good + levels[0], bad + levels[-1]
        ends.append(bad - good)
        if candidate is not None:
            off.append(levels[candidate] + own - (good + bad) / 2)
    return Observation(candidate, ends, off)


def searched(
    culprit: int, draw: Random, skipped: set[int] | None = None, last: int = COMMITS
) -> tuple[Found | None, int]:
    """What was found, and the blocks that it took, the proof of the ends among them."""
    levels = [EFFECT * (commit >= culprit) for commit in range(last + 1)]
    search = Search(last)
    search.skipped = set(skipped or ())
    search.observations += [measured(levels, None, 4, draw) for _ in range(PROOF // 4)]
    blocks = PROOF
    built: set[int] = set()
    while blocks < 2000 and search.found() is None:
        step = search.next(Costs(lambda candidate: 60.0 * (candidate not in built), 30.0, 12.0))
        if step is None:
            return None, blocks
        assert step.candidate not in search.skipped
        built.add(step.candidate)
        search.observations.append(measured(levels, step.candidate, step.blocks, draw))
        blocks += step.blocks
    return search.found(), blocks


@pytest.mark.slow
def test_two_hundred_searches_over_a_thousand_commits() -> None:
    draw = Random(10)
    right, blocks = 0, []
    for _ in range(200):
        culprit = draw.randrange(1, COMMITS + 1)
        found, took = searched(culprit, draw)
        right += found is not None and found.first <= culprit <= found.last and found.last == found.first
        blocks.append(took)
    print(f"right {right / 2:.1f} %, blocks: median {median(blocks)}, most {max(blocks)}")
    assert right / 200 >= 0.95
    assert median(blocks) <= 150


def test_what_cannot_be_built_is_not_asked_for_and_is_named_with_the_rest() -> None:
    draw = Random(11)
    held = 0
    for _ in range(30):
        found, _ = searched(32, draw, skipped={30, 31, 32, 33}, last=64)
        assert found is not None
        held += (found.first, found.last) == (30, 34)
    assert held >= 28


def test_the_effect_is_within_its_interval() -> None:
    draw = Random(12)
    covered = 0
    for _ in range(60):
        found, _ = searched(20, draw, last=40)
        assert found is not None
        covered += abs(found.change - EFFECT) <= 1.96 * found.error
    print(f"covered {covered / 0.6:.0f} %")
    assert covered >= 0.85 * 60


def test_commits_that_change_no_bit_are_never_the_one() -> None:
    draw = Random(13)
    levels = [EFFECT * (commit >= 7) for commit in range(21)]
    search = Search(20)
    search.same = [(8, 14), (0, 3)]
    search.observations.append(measured(levels, None, 40, draw))
    posterior = search.posterior()
    possible = [commit for commit, chance in enumerate(posterior) if chance]
    assert possible == [4, 5, 6, 7, 8, 15, 16, 17, 18, 19, 20]
    assert sum(posterior) == pytest.approx(1)
    assert max(posterior) - min(posterior[commit] for commit in possible) < 1e-9
