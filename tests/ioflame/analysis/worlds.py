"""Comparisons that were never made: windows from a seeded generator, as a host with a known fault gives them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

from ground.results.differences import Difference, Outcome
from ioflame.analysis.compare.figures import ArmWindow, BlockLogs, Session
from ioflame.analysis.compare.nested import SessionSums, difference, sums_of
from ioflame.analysis.compare.order import session_orders
from ioflame.analysis.compare.verdict import VerdictRule, judged

# ln of a figure in the windows of one session: what the host does to them, whichever arm they are of.
Windows = Callable[[Random, int], list[float]]


def white(draw: Random, n: int) -> list[float]:
    return [draw.gauss(0, 0.06) for _ in range(n)]


def autoregressive(draw: Random, n: int) -> list[float]:
    """AR(1) 0.8, begun in its stationary state."""
    found = [draw.gauss(0, 0.06 / math.sqrt(1 - 0.8**2))]
    while len(found) < n:
        found.append(0.8 * found[-1] + draw.gauss(0, 0.06))
    return found


def ramp(draw: Random, n: int) -> list[float]:
    """3 % a window: a disk that fills up, a CPU that heats up."""
    return [0.03 * i + x for i, x in enumerate(white(draw, n))]


def first_slot(draw: Random, n: int) -> list[float]:
    """The first window of each block has 20 % less."""
    return [x + (math.log(0.8) if i % 4 == 0 else 0) for i, x in enumerate(white(draw, n))]


def heavy_tails(draw: Random, n: int) -> list[float]:
    """Student's t with 3 degrees of freedom."""
    return [0.035 * draw.gauss(0, 1) / math.sqrt(draw.gammavariate(1.5, 2) / 3) for _ in range(n)]


@dataclass(frozen=True)
class World:
    """session: standard deviation of what a session adds to ln(B/A); truth: ln(B/A) itself; blocks: a session."""

    windows: Windows
    session: float = 0.0
    truth: float = 0.0
    blocks: int = 4

    def sessions(self, draw: Random) -> Iterator[SessionSums]:
        """Sessions without end, each of new processes."""
        orders = _orders(self.blocks)
        while True:
            effect = self.truth + draw.gauss(0, self.session)
            logs = self.windows(draw, 4 * self.blocks)
            order = draw.choice(orders)
            yield sums_of([_block(arms, logs[4 * i : 4 * i + 4], effect) for i, arms in enumerate(order)], 2)


@cache
def _orders(blocks: int) -> list[tuple[tuple[str, ...], ...]]:
    return [order.blocks for order in session_orders("AB", 64, blocks, seed=1)]


def _block(arms: tuple[str, ...], logs: list[float], effect: float) -> BlockLogs:
    inner = (logs[1] + logs[2] - logs[0] - logs[3]) / 2
    return BlockLogs(inner + effect, (1, 0)) if arms[0] == "A" else BlockLogs(effect - inner, (0, 1))


@dataclass
class Comparison:
    """How one ended: the verdict at the look that gave one, the difference printed with it, and whether the intervals
    of all looks held the truth."""

    outcome: Outcome
    difference: Difference
    covered: bool


def compared(
    world: World, rule: VerdictRule, draw: Random, *, looks: Sequence[int] = (), every_look: bool = False
) -> Comparison:
    """looks: where they are not all those of the rule; every_look: also after a verdict, for the coverage of all."""
    stream = world.sessions(draw)
    sessions: list[SessionSums] = []
    ended: Comparison | None = None
    covered = True
    for look in looks or rule.looks:
        sessions += [next(stream) for _ in range(look - len(sessions))]
        found = difference(sessions, rule.confidence)
        assert found is not None
        covered &= math.log(found.low) <= world.truth <= math.log(found.high)
        if ended is None or ended.outcome is Outcome.UNDECIDED:
            ended = Comparison(judged(found, rule), found, covered)
            if ended.outcome is not Outcome.UNDECIDED and not every_look:
                break
    assert ended is not None
    ended.covered = covered
    return ended


@dataclass(frozen=True)
class Device:
    """A disk whose latency wanders by `wander` (deviation of its logarithm) from one window to the next.

    A query is 20 us of the engine and 0.9 reads of about 80 us. engine, reads: what arm B has of these, of A's.
    """

    wander: float = 0.6
    engine: float = 1.0
    reads: float = 1.0

    def sessions(self, draw: Random, sessions: int, blocks: int) -> list[Session]:
        return [
            [[self._window(arm, draw) for arm in block] for block in order.blocks]
            for order in session_orders("AB", sessions, blocks, draw.getrandbits(32))
        ]

    def _window(self, arm: str, draw: Random) -> ArmWindow:
        engine, reads = (self.engine, self.reads) if arm == "B" else (1.0, 1.0)
        io_lat = 80 * math.exp(draw.gauss(0, self.wander))
        cpu = 20 * engine * math.exp(draw.gauss(0, 0.02))
        per_query = 0.9 * reads * math.exp(draw.gauss(0, 0.005))
        latency = cpu + per_query * io_lat
        figures = {"qps": 1e6 / latency, "rx.lat": latency, "io.lat": io_lat, "readsPerQuery": per_query}
        user = 0.6 * cpu * math.exp(draw.gauss(0, 0.02))
        return ArmWindow(arm, figures | {"cpuPer": cpu, "usPer": user, "syPer": cpu - user})

    def adjusted_truth(self) -> float:
        """ln(B/A) of QPS at equal device time, on average over the device's latencies (normal, in steps of 1/8)."""
        total = weights = 0.0
        for i in range(-40, 41):
            z = i / 8
            weight = math.exp(-z * z / 2)
            device = 0.9 * 80 * math.exp(self.wander * z)
            total += weight * math.log((20 + device) / (20 * self.engine + device))
            weights += weight
        return total / weights


def steady(ratio: float, noise: float, sessions: int, metric: str = "qps", seed: int = 1) -> list[Session]:
    """Sessions of ABBA BAAB with windows of white noise, in which B has `ratio` of A."""
    draw = Random(seed)

    def window(arm: str) -> ArmWindow:
        return ArmWindow(arm, {metric: math.exp(draw.gauss(0, noise)) * (ratio if arm == "B" else 1)})

    return [[[window(arm) for arm in block] for block in ("ABBA", "BAAB")] for _ in range(sessions)]
