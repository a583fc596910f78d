"""The order of everything, drawn from a seed before the first window."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class SessionOrder:
    """start: the arms in the order in which their processes are started; blocks: the arm of each window."""

    start: tuple[str, ...]
    blocks: tuple[tuple[str, ...], ...]


def session_orders(
    arms: Sequence[str], sessions: int, blocks: int, seed: int, *, twin: str | None = None, twin_every: int = 1
) -> list[SessionOrder]:
    """Mirrored blocks: each arm once in a random order, then the same backwards (of two arms ABBA and BAAB).

    A drift that is linear over a block cancels for every pair of arms. Where the blocks of a session are a multiple of
    the number of arms (and none has a twin), every arm is in every place equally often, so a slower place affects all
    arms alike.
    twin: a copy of the base that joins every `twin_every`-th block.
    """
    draw = random.Random(seed)
    decks: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    found = []
    for session in range(sessions):
        made = []
        for block in range(blocks):
            # Counted over all sessions, so that one block in ten is one in ten of five sessions of four blocks, too.
            joins = twin is not None and (session * blocks + block) % twin_every == 0
            here = (*arms, twin) if joins and twin is not None else tuple(arms)
            if not decks.get(here):
                decks[here] = _rotations(here, draw)
            order = decks[here].pop()
            made.append(order + order[::-1])
        started = [*arms, twin] if twin is not None else list(arms)
        draw.shuffle(started)
        # Blocks with a twin must not be the first of each session, nor every other one.
        draw.shuffle(made)
        found.append(SessionOrder(tuple(started), tuple(made)))
    return found


def _rotations(arms: tuple[str, ...], draw: random.Random) -> list[tuple[str, ...]]:
    """A Latin square in random order: one random order of the arms, rotated."""
    first = draw.sample(arms, len(arms))
    square = [tuple(first[i:] + first[:i]) for i in range(len(first))]
    draw.shuffle(square)
    return square
