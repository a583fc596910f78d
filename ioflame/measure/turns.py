"""Rounds: in each of them every observer has one short turn, and between any two turns there is one with nothing
attached.

A host and its disk change from minute to minute by more than most observers cost. What is measured in turns has seen
the same minutes, so that a change is on both sides of a ratio, and what is left of it is in the interval
(`analysis/rounds.py`).
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from collectors.windows import Windows
from ground.errors import IoflameError
from ground.system.observer import Observer
from ground.text.progress import Reporter

# Reports by second tell what was finished at their lines alone: no turn is shorter.
TURN_SECONDS = 1.0
# From so many seconds an observer on turns are twice as long: there are rounds enough, and less is spent between them.
_LONGER_FROM = 30.0


@dataclass(frozen=True)
class Rounds:
    """number: of rounds; seconds: of a turn"""

    number: int
    seconds: float

    @classmethod
    def of(cls, duration: float) -> Rounds:
        """Of turns that add up to so many seconds for each observer."""
        turn = TURN_SECONDS if duration < _LONGER_FROM else 2 * TURN_SECONDS
        return cls(max(round(duration / turn), 1), turn)

    def lasting(self, observers: int) -> float:
        """Seconds of all turns."""
        return (2 * observers * self.number + 1) * self.seconds


@dataclass
class Turns:
    """Observers that stay attached, and count in their turns alone.

    failed: told of one that failed, which then has no more turns; what it raises ends the run
    observers: that are attached, by kind
    """

    failed: Callable[[str, IoflameError], None]
    reporter: Reporter
    observers: dict[str, Observer] = field(default_factory=dict)

    def attach(self, observer: Observer) -> None:
        """Everything that takes time; it counts nothing yet."""
        self.observers[observer.kind] = observer
        with self.reporter.waits_for(f"{observer.kind} to attach ({observer.what})"):
            self._try(observer, observer.attach)

    def run(self, windows: Windows, rounds: Rounds, seed: int, another: Callable[[int], bool]) -> None:
        """seed: of the order of the observers in each round; another: whether there is one more, after so many"""
        draw, number = random.Random(seed), 0
        whole = rounds.lasting(len(self.observers))
        with self.reporter.stage(f"rounds of {', '.join(self.observers)}, in turns of {rounds.seconds:g} s", whole):
            windows.begin_turns()
            while another(number):
                number += 1
                order = list(self.observers)
                draw.shuffle(order)
                for kind in order:
                    windows.plain_turn(rounds.seconds, number)
                    observer = self.observers[kind]
                    self._try(observer, lambda: windows.turn(observer, rounds.seconds, number))  # noqa: B023
            windows.plain_turn(rounds.seconds, number)

    def detach(self) -> None:
        """Ends all of them; their files are whole afterwards. What one fails with keeps no other from its end."""
        while self.observers:
            kind, observer = self.observers.popitem()
            with self.reporter.waits_for(f"{kind} to end and to write what it saw"):
                try:
                    observer.detach()
                except IoflameError as error:
                    self.failed(kind, error)

    def _try(self, observer: Observer, action: Callable[[], None]) -> None:
        try:
            action()
        except IoflameError as error:
            del self.observers[observer.kind]
            with contextlib.suppress(IoflameError):
                observer.detach()
            self.failed(observer.kind, error)
