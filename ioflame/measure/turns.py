"""Rounds: in each of them every observer has one short turn, and between any two turns there is one with nothing
attached.

A host and its disk change from minute to minute by more than most observers cost. What is measured in turns has seen
the same minutes, so that a change is on both sides of a ratio, and what is left of it is in the interval
(`analysis/rounds.py`).
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from collectors.windows import Windows
from ground.errors import IoflameError
from ground.system.observer import Observer
from ground.text.progress import Reporter
from ground.text.titles import title_of
from ioflame.measure.windows import PLAIN

# Reports by second tell what was finished at their lines alone: no turn is shorter.
TURN_SECONDS = 1.0
# From so many seconds an observer on turns are twice as long: there are rounds enough, and less is spent between them.
_LONGER_FROM = 30.0


@dataclass(frozen=True)
class Rounds:
    """number: of rounds; seconds: of a turn with nothing attached; shares: of an observer whose turns are longer, how
    many times as long"""

    number: int
    seconds: float
    shares: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def adding_up_to(cls, duration: float) -> Rounds:
        """Of turns that add up to so many seconds for each observer."""
        turn = TURN_SECONDS if duration < _LONGER_FROM else 2 * TURN_SECONDS
        return cls(max(round(duration / turn), 1), turn)

    def of(self, kind: str) -> float:
        """Seconds of a turn of an observer."""
        return self.seconds * self.shares.get(kind, 1)

    def lasting(self, kinds: Iterable[str], rounds: int | None = None) -> float:
        """Seconds of so many rounds, or of all, with the plain turn at their end."""
        one = sum(self.seconds + self.of(kind) for kind in kinds)
        return one * (self.number if rounds is None else rounds) + self.seconds


@dataclass
class Turns:
    """Observers that stay attached, and count in their turns alone.

    failed: told of one that failed, which then has no more turns; what it raises ends the run
    ended:  whether what is watched has
    around: within it is all that is done for an observer, or for plain turns; whoever wants to know what that costs
    first:  by kind: called between two turns, in no window, once that observer has had its first
    observers: that are attached, by kind
    """

    failed: Callable[[str, IoflameError], None]
    reporter: Reporter
    ended: Callable[[], bool] = lambda: False
    around: Callable[[str], AbstractContextManager[None]] = lambda _: contextlib.nullcontext()
    first: dict[str, Callable[[Observer], None]] = field(default_factory=dict)
    observers: dict[str, Observer] = field(default_factory=dict)

    def attach(self, kind: str, make: Callable[[], Observer]) -> bool:
        """Everything that takes time; it counts nothing yet. False where this host's way of it takes no turns."""
        try:
            observer = make()
        except IoflameError as error:
            self.failed(kind, error)
            return True
        if not observer.takes_turns:
            return False
        self.observers[kind] = observer
        with self.reporter.waits_for(f"{title_of(observer.kind)} to attach ({observer.what})"):
            self._try(observer, observer.attach)
        return True

    def run(
        self, windows: Windows, rounds: Rounds, seed: int, another: Callable[[int], bool], seconds: float = 0.0
    ) -> None:
        """seed: of the order of the observers in each round; another: whether there is one more, after so many

        seconds: that all of them will take, where it is more than what was asked for
        """
        draw, number = random.Random(seed), 0
        whole = max(rounds.lasting(self.observers), seconds)
        what = f"rounds of {', '.join(map(title_of, self.observers))}, in turns of {rounds.seconds:g} s"
        with self.reporter.stage(what, whole, "rounds"):
            windows.begin_turns()
            while self.observers and not self.ended() and another(number):
                number += 1
                order = list(self.observers)
                draw.shuffle(order)
                for kind in order:
                    self._plain(windows, rounds, number)
                    if self.ended():
                        return
                    observer = self.observers[kind]
                    self._try(observer, lambda: windows.turn(observer, rounds.of(kind), number))  # noqa: B023
                    if self.ended():
                        return
                    if kind in self.first and kind in self.observers:
                        with self.around("first look"):
                            self.first.pop(kind)(observer)
                        windows.begin_turns()
                        if self.ended():
                            return
            self._plain(windows, rounds, number)

    def _plain(self, windows: Windows, rounds: Rounds, number: int) -> None:
        with self.around(PLAIN):
            windows.plain_turn(rounds.seconds, number)

    def detach(self) -> None:
        """Ends all of them; their files are whole afterwards. What one fails with keeps no other from its end."""
        while self.observers:
            kind, observer = self.observers.popitem()
            with self.around(kind), self.reporter.waits_for(f"{title_of(kind)} to end and to write what it saw"):
                try:
                    observer.detach()
                except IoflameError as error:
                    self.failed(kind, error)

    def _try(self, observer: Observer, action: Callable[[], None]) -> None:
        try:
            with self.around(observer.kind):
                action()
        except IoflameError as error:
            del self.observers[observer.kind]
            with contextlib.suppress(IoflameError):
                observer.detach()
            self.failed(observer.kind, error)
