"""Call stacks with their weights, from a profile or from folded text (`comm;root;...;leaf weight`).

Weights are exact integers of any size.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ground.errors import MeasurementError
from ground.results.profile import OTHER, Folded
from viz.printable import printable

_WHOLE = re.compile(rb"[0-9]+(\.0*)?")  # some folders write 12.00


@dataclass(frozen=True, slots=True)
class Stack:
    """One distinct call stack with its weight.

    frames:        root first; index 0 is the thread name (comm)
    weight:        in the unit of the event, never a number of samples
    samples:       how many samples the weight comes from, None where that was not kept
    category:      what the whole stack is counted under
    anchor_depth:  index of the frame at which that category begins, -1 for `other`
    objects:       the object (DSO) of each frame, "" where it is not known; empty where none is
    thread:        `comm/tid`, "" where the thread is not known
    """

    frames: tuple[str, ...]
    weight: int
    samples: int | None = None
    category: str = OTHER
    anchor_depth: int = -1
    objects: tuple[str, ...] = ()
    thread: str = ""


def stacks_of(profile: Folded, view: str | None = None) -> list[Stack]:
    """The stacks of a profile, with their category in `view`, all `other` without one; with threads and objects where
    they are known. A state is the leaf of its stack."""
    known: dict[str, str] = {}

    def shown(name: str) -> str:
        if name not in known:
            known[name] = printable(name)
        return known[name]

    found = []
    for stack in profile.each_stack(view):
        state = (shown(stack.state),) if stack.state else ()
        objects = ("", *map(shown, stack.objects), *("" for _ in state)) if any(stack.objects) else ()
        comm = shown(stack.comm)
        found.append(
            Stack(
                (comm, *[shown(frame) or "[no name]" for frame in stack.frames], *state),
                stack.weight,
                stack.samples,
                shown(stack.category),
                # The command is the first frame here; a category that the thread's name decided begins at it.
                -1 if stack.category == OTHER else stack.anchor + 1,
                objects,
                "" if stack.tid is None else f"{comm}/{stack.tid}",
            )
        )
    return found


def by_name(stacks: Iterable[Stack]) -> list[Stack]:
    """The stacks without threads and objects, for which a drawing has no place."""
    return [replace(stack, objects=(), thread="") for stack in stacks]


def read_folded(lines: Iterable[bytes]) -> list[Stack]:
    """Read plain folded text, the format of FlameGraph; every stack is counted as `other`."""
    stacks = []
    for number, line in enumerate(lines, 1):
        text = line.rstrip(b" \t\r\n")
        if not text:
            continue
        stack, space, weight = text.rpartition(b" ")
        if not space or not stack:
            raise _bad_line(number, text, "no stack before the weight")
        stacks.append(Stack(_frames(stack), _weight(weight, number, text)))
    return stacks


def _frames(stack: bytes) -> tuple[str, ...]:
    return tuple(printable(frame) or "[no name]" for frame in stack.split(b";"))


def _weight(field: bytes, number: int, line: bytes) -> int:
    if not _WHOLE.fullmatch(field) or len(field) > 100:
        raise _bad_line(number, line, f"weight {printable(field[:40])!r} is not a whole number")
    return int(field.partition(b".")[0])


def _bad_line(number: int, line: bytes, why: str) -> MeasurementError:
    shown = printable(line[:120])
    return MeasurementError(
        f"line {number} of the stacks cannot be read: {why}: {shown!r}",
        means="the file was cut short, or is no folded text; no graph was drawn",
        mend="fold the profile again",
    )
