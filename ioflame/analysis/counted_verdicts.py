"""Whether an arm takes more instructions than the base: by ranges, for counts have no noise but that of addresses.

The words of a verdict rest on instructions alone. Code with fewer of them can take longer where branches are
mispredicted, but simulated mispredictions may fall on one host and rise on another. So they only cast doubt, by an
estimate of cycles: half a cycle an instruction, 16 a simulated misprediction, 20 a locked instruction.
"""

from __future__ import annotations

import enum
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ground.results.counted import REPEATS_WITHIN, Counted, Event
from ground.results.differences import Decision, Outcome, percent

_CYCLES = {Event.INSTRUCTIONS: 0.5, Event.MISPREDICTIONS: 16.0, Event.LOCKED: 20.0}
# A change of instructions below which nobody would act: other flags, or where the compiler puts code, make as much.
ACTED_ON = 0.01
# Of what instructions change the estimate by: mispredictions that change it less do not speak against them.
_SPEAKS = 0.1
# Mispredictions that change by less change with where the code lies: 20 nops in a Get were seen to make 0.1 % fewer.
_LIES_ELSEWHERE = 0.01
_MEASURED = {Outcome.SAME: "same user CPU", Outcome.REGRESSED: "more user CPU", Outcome.IMPROVED: "less user CPU"}
_UNSEEN = "the cause is what counts do not see: caches, real branch prediction, where the code lies"


class CountVerdict(enum.Enum):
    """Of an arm against the base."""

    SAME = "same"
    SLIGHT = f"below {ACTED_ON:.0%}"
    MORE = "more instructions"
    FEWER = "fewer instructions"
    NOT_COUNTED = "not counted"


@dataclass(frozen=True)
class Spread:
    """Of an event, an operation: the median of the paddings, the least, the most."""

    middle: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """Of the range, as a part of the median; 0 where nothing was counted."""
        return (self.high - self.low) / self.middle if self.middle else 0.0


@dataclass(frozen=True)
class Against:
    """change: of the median of instructions, as a part of the base's; tells: the smallest change that could be seen

    more: instructions an operation; mispredictions: their change, as a part of the base's; None where it had none
    doubted: mispredictions or locked instructions speak against the instructions, or change alone: time decides
    """

    verdict: CountVerdict
    change: float = 0.0
    tells: float = 0.0
    more: float = 0.0
    mispredictions: float | None = None
    doubted: bool = False


def spread(counted: Counted, event: Event) -> Spread | None:
    """None where it was not counted."""
    counts = counted.events.get(event)
    if not counts or not counted.operations:
        return None
    return _spread([count / counted.operations for count in counts])


def _spread(values: list[float]) -> Spread:
    return Spread(statistics.median(values), min(values), max(values))


def against(base: Counted, arm: Counted) -> Against:
    """The verdict on `arm`."""
    before, after = spread(base, Event.INSTRUCTIONS), spread(arm, Event.INSTRUCTIONS)
    if before is None or after is None or not before.middle:
        return Against(CountVerdict.NOT_COUNTED)
    more, direction = after.middle - before.middle, _direction(before, after)
    change, tells = more / before.middle, max(before.width, after.width)
    doubted = _doubted(base, arm, direction)
    return Against(_verdict(direction, change), change, tells, more, _change(base, arm, Event.MISPREDICTIONS), doubted)


def _change(base: Counted, arm: Counted, event: Event) -> float | None:
    before, after = spread(base, event), spread(arm, event)
    return after.middle / before.middle - 1 if before and after and before.middle else None


def _verdict(direction: int, change: float) -> CountVerdict:
    """direction: as of `_direction`"""
    if not direction:
        return CountVerdict.SAME
    if abs(change) < ACTED_ON:
        return CountVerdict.SLIGHT
    return CountVerdict.MORE if direction > 0 else CountVerdict.FEWER


def _doubted(base: Counted, arm: Counted, instructions: int) -> bool:
    """instructions: their direction"""
    events = _told_apart(base, arm)
    before, after = _cycles(base, events), _cycles(arm, events)
    if not instructions:
        return _direction(before, after) != 0
    if (after.middle - before.middle) * instructions <= 0:
        return True
    return Event.MISPREDICTIONS in events and _mispredictions_speak_against(base, arm, instructions)


def _told_apart(base: Counted, arm: Counted) -> list[Event]:
    """Events of the estimate: of mispredictions only such a change as is not made by moving the code."""
    change = _change(base, arm, Event.MISPREDICTIONS)
    moved = change is not None and abs(change) < _LIES_ELSEWHERE
    both = [event for event in _CYCLES if event in base.events and event in arm.events]
    return [event for event in both if event is not Event.MISPREDICTIONS or not moved]


def _mispredictions_speak_against(base: Counted, arm: Counted, instructions: int) -> bool:
    cycles = {event: _changed_cycles(base, arm, event) for event in (Event.INSTRUCTIONS, Event.MISPREDICTIONS)}
    return -cycles[Event.MISPREDICTIONS] * instructions > _SPEAKS * abs(cycles[Event.INSTRUCTIONS])


def _changed_cycles(base: Counted, arm: Counted, event: Event) -> float:
    before, after = spread(base, event), spread(arm, event)
    return _CYCLES[event] * (after.middle - before.middle) if before and after else 0.0


def _cycles(counted: Counted, events: Sequence[Event]) -> Spread:
    """An operation's, estimated of these events; by padding, and then the middle of them."""
    by_padding = zip(*(counted.events[event] for event in events), strict=True)
    return _spread([
        sum(_CYCLES[event] * count for event, count in zip(events, counts, strict=True)) / counted.operations
        for counts in by_padding
    ])  # fmt: skip


def _direction(before: Spread, after: Spread) -> int:
    """1 for more, -1 for less, 0 where the ranges overlap."""
    return (after.low > before.high) - (after.high < before.low)


def not_repeatable(counted: Counted, within: float = REPEATS_WITHIN) -> float | None:
    """By which part two counts with the same padding differ, where that is too much; None where they agree."""
    first = counted.events.get(Event.INSTRUCTIONS, [0])[0]
    off = abs(counted.again - first) / first if first else 0.0
    return off if off > within else None


def which_to_believe(time: Decision | None, count: Against) -> str:
    """time: of the user CPU of a query; None, or undecided, where it cannot be decided on this host"""
    if count.verdict is CountVerdict.NOT_COUNTED:
        return "not counted; there is the time alone"
    same = count.verdict is CountVerdict.SAME
    way = "more" if count.change > 0 else "fewer"
    counted = "same instructions" if same else f"{abs(count.change):.2%} {way} instructions"
    if count.doubted:
        counted += ", but mispredictions or locks say otherwise"
    if time is None or time.outcome not in _MEASURED:
        believe = (
            "neither is to be believed before the time is" if count.doubted else "believe the count, for the code alone"
        )
        return f"{counted}; the time is undecided here: {believe}"
    measured = _MEASURED[time.outcome]
    if count.doubted:
        return f"{counted}; {measured}: believe the time"
    if time.outcome is Outcome.SAME:
        within = f"{measured} within {percent(time.delta)}"
        return f"{counted}, {within}: {'both agree' if same else 'the code changed, by too little to be seen in time'}"
    if not same and (time.outcome is Outcome.REGRESSED) == (count.change > 0):
        return f"{counted}, {measured}: both agree; the time says what it costs"
    return f"{counted}, but {measured}: believe the time; {_UNSEEN}"
