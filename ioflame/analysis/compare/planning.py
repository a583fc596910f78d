"""How long it takes to know: power by simulation of the very rule.

The closed form for one look at the end, blocks = ((z_a + z_b) s / delta)**2, is where the search starts. It knows
neither the looks before the end, nor that a few sessions estimate a variance badly, nor the sign-flip test: the power
printed is that of simulated comparisons under the rule that will decide.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from statistics import NormalDist

from ground.results.differences import Outcome, PlanRow, Variances
from ioflame.analysis.compare.nested import SessionSums, difference
from ioflame.analysis.compare.verdict import Costs, VerdictRule, judged
from ioflame.analysis.quantiles import t_quantile

DELTAS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1)

_LOOKS = VerdictRule().looks
_MOST_BLOCKS = 400
_SIMULATED = 500
_NORMAL = NormalDist()


def plan(variances: Variances, costs: Costs, delta: float, *, power: float = 0.8, block_step: int = 2) -> PlanRow:
    """The cheapest sessions and blocks that see `delta` with this power, under `VerdictRule(delta)`.

    Each look keeps its 1 %, whether those after it are made or not: sessions may be added to a comparison that has
    been looked at, up to the last look of the rule.

    variances: of a pilot's or a twin's sessions (`Difference.variances`)
    block_step: the blocks of a session are a multiple of it (number of arms), so each arm is in each place as often
    """
    starts = [(s, _closed_form(variances, delta, s, power, block_step)) for s in range(_LOOKS[0], _LOOKS[-1] + 1)]
    within = [start for start in starts if start[1] < _MOST_BLOCKS] or starts[-1:]
    cheapest = sorted(within, key=lambda start: _minutes(costs, *start))[:2]
    rows = [_searched(variances, costs, delta, *start, power, block_step) for start in cheapest]
    best = min(rows, key=lambda row: (not row.reached, row.minutes if row.reached else -row.power))
    same, _ = _outcomes(variances, VerdictRule(delta), best.looks, best.blocks, 0.0)
    return replace(best, power_same=same.count(Outcome.SAME) / _SIMULATED)


def plan_table(
    variances: Variances, costs: Costs, deltas: Sequence[float] = DELTAS, *, block_step: int = 2
) -> list[PlanRow]:
    """`plan` for each delta."""
    return [plan(variances, costs, delta, block_step=block_step) for delta in deltas]


def _minutes(costs: Costs, sessions: int, blocks: int) -> float:
    return sessions * (costs.session_seconds + blocks * costs.block_seconds) / 60


def _looks(sessions: int) -> tuple[int, ...]:
    return (*takewhile(lambda look: look < sessions, _LOOKS), sessions)


def _closed_form(variances: Variances, delta: float, sessions: int, power: float, step: int) -> int:
    """Blocks a session of one look at the end, at the level of a look."""
    needed = t_quantile(VerdictRule(delta).confidence.differs, sessions - 1) + _NORMAL.inv_cdf(power)
    room = sessions * (math.log1p(delta) / needed) ** 2 - variances.session**2
    return _MOST_BLOCKS if room <= 0 else _rounded(variances.block**2 / room, step)


def _rounded(blocks: float, step: int) -> int:
    return min(max(math.ceil(blocks / step) * step, step), _MOST_BLOCKS // step * step)


def _searched(
    variances: Variances, costs: Costs, delta: float, sessions: int, blocks: int, power: float, step: int
) -> PlanRow:
    """The fewest blocks whose simulated power is enough, then the fewest sessions."""
    rows: dict[tuple[int, int], PlanRow] = {}

    def row(sessions: int, blocks: int) -> PlanRow:
        place = (sessions, blocks)
        if place not in rows:
            rows[place] = _simulated(variances, costs, delta, _looks(sessions), blocks, power)
        return rows[place]

    for _ in range(6):
        made = row(sessions, blocks)
        # Power is about that of a normal variable shifted by delta / error: what shift would be enough?
        error = math.sqrt((variances.session**2 + variances.block**2 / blocks) / sessions)
        lacks = _NORMAL.inv_cdf(power + 0.02) - _NORMAL.inv_cdf(min(max(made.power, 0.01), 0.99))
        room = sessions * (math.log1p(delta) / (math.log1p(delta) / error + lacks)) ** 2 - variances.session**2
        blocks = _MOST_BLOCKS if room <= 0 else _rounded(variances.block**2 / room, step)
        if (sessions, blocks) in rows:
            break
    enough = [found for found in rows.values() if found.reached]
    if not enough:
        return max(rows.values(), key=lambda found: found.power)
    best = min(enough, key=lambda found: found.minutes)
    while best.sessions > _LOOKS[0] and row(best.sessions - 1, best.blocks).reached:
        best = row(best.sessions - 1, best.blocks)
    return best


def _simulated(
    variances: Variances, costs: Costs, delta: float, looks: tuple[int, ...], blocks: int, power: float
) -> PlanRow:
    seen, stopped = _outcomes(variances, VerdictRule(delta), looks, blocks, math.log1p(delta))
    share = seen.count(Outcome.REGRESSED) / _SIMULATED
    return PlanRow(
        delta=delta,
        looks=looks,
        blocks=blocks,
        minutes=_minutes(costs, looks[-1], blocks),
        expected_minutes=_minutes(costs, sum(stopped), blocks) / _SIMULATED,
        power=share,
        power_same=math.nan,
        reached=share >= power,
    )


def _outcomes(
    variances: Variances, rule: VerdictRule, looks: Sequence[int], blocks: int, shift: float
) -> tuple[list[Outcome], list[int]]:
    """Simulated comparisons: how each ended, and after how many sessions. The same draws for every plan."""
    draw = random.Random(1)
    outcomes, stopped = [], []
    deviation = math.sqrt(variances.session**2 + variances.block**2 / blocks)
    for _ in range(_SIMULATED):
        sessions: list[SessionSums] = []
        outcome = Outcome.UNDECIDED
        for look in looks:
            while len(sessions) < look:
                squares = variances.block**2 * draw.gammavariate((blocks - 1) / 2, 2) if blocks > 1 else 0.0
                log = draw.gauss(shift, deviation)
                sessions.append(SessionSums(blocks, log, (), squares, (), (), (0.0, 0), 0))
            found = difference(sessions, rule.confidence)
            outcome = judged(found, rule) if found else Outcome.UNDECIDED
            if outcome is not Outcome.UNDECIDED:
                break
        outcomes.append(outcome)
        stopped.append(len(sessions))
    return outcomes, stopped
