"""Searches for a commit in simulated noise with fixed seeds; how often the right one is named is a figure of
test_simulated.py."""

from __future__ import annotations

import math
from random import Random

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


def test_the_right_commit_of_a_thousand_is_named_with_the_size_of_its_change() -> None:
    for seed, culprit in ((10, 1), (11, 617), (12, COMMITS)):
        found, blocks = searched(culprit, Random(seed))
        assert found is not None and (found.first, found.last) == (culprit, culprit) and blocks <= 300
        assert abs(found.change - EFFECT) <= 3 * found.error < EFFECT


def test_what_cannot_be_built_is_not_asked_for_and_is_named_with_the_rest() -> None:
    found, _ = searched(32, Random(11), skipped={30, 31, 32, 33}, last=64)
    assert found is not None and (found.first, found.last) == (30, 34)


def test_the_posterior_is_bayes_theorem_in_numbers() -> None:
    """Blocks of two sessions; over the change D, which no prior favours, the likelihood is added up in small steps."""
    search = Search(3)
    search.observations = [
        Observation(1, [0.06, 0.03], [-0.03, -0.01]), Observation(2, [0.05, 0.04], [0.03, 0.00]),
    ]  # fmt: skip
    variance = search.block_variance()
    # Of one arm in one block: v differs by two arms, u by one and the mean of two.
    squares = (0.03**2 / 2 + 0.01**2 / 2) / 2 + (0.02**2 / 2 + 0.03**2 / 2) / 1.5
    assert variance == pytest.approx(squares / 4)

    def likelihood(change: float, culprit: int) -> float:
        log = 0.0
        for one in search.observations:
            mean = change / 2 if (one.candidate or 0) >= culprit else -change / 2
            log -= sum((v - change) ** 2 for v in one.ends) / (2 * 2 * variance)
            log -= sum((u - mean) ** 2 for u in one.off) / (2 * 1.5 * variance)
        return math.exp(log)

    parts = [0.0, *(sum(likelihood(step / 5000, culprit) for step in range(-1000, 1000)) for culprit in (1, 2, 3))]
    assert search.posterior() == pytest.approx([part / sum(parts) for part in parts], rel=0.01)


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
