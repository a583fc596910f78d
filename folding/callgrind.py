"""What callgrind counted of an operation, by event and by category, as stackfold folds it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from folding.stackfold import run_stackfold
from ground.errors import MeasurementError
from ground.results.counted import Event
from ground.results.profile import Folded, read_profile
from ground.system.scratch import scratch_directory

__all__ = ("CountedRow", "Counts", "counts_below", "not_called")

_CALLS = "calls"
# Events of callgrind's by ours; those of the second are sorted into categories.
_TOTALS = {Event.SYSTEM_CALLS: "sysCount"}
_SORTED = {Event.INSTRUCTIONS: "Ir", Event.MISPREDICTIONS: "Bcm", Event.LOCKED: "Ge"}
# By the functions that were called; one that calls another of its kind counts once.
_CALLED = {
    Event.ALLOCATIONS: {
        "malloc", "calloc", "realloc", "aligned_alloc", "posix_memalign", "memalign", "operator new", "operator new[]",
    },
    Event.MUTEX_LOCKS: {"pthread_mutex_lock", "pthread_mutex_trylock"},
}  # fmt: skip


@dataclass(frozen=True)
class CountedRow:
    """A category of a view. events: what was counted in it"""

    name: str
    label: str
    events: dict[Event, int]


@dataclass(frozen=True)
class Counts:
    """events: in all; views: by name, their categories, which add up to all; what rules do not know is the last

    calls: how often the function was called below which they were counted
    """

    events: dict[Event, int]
    views: dict[str, list[CountedRow]]
    calls: int = 0


def counts_below(path: Path, root: str, rules: str, folded: Path | None = None) -> Counts:
    """What was counted in the function `root` and whatever it called.

    rules:  of the categories; folded: where the stacks are written, in instructions
    MeasurementError where nothing was counted there.
    """
    events: dict[Event, int] = {}
    views: dict[str, list[CountedRow]] = {}
    with scratch_directory() as scratch:
        for event, name in {**_SORTED, **_TOTALS}.items():
            by_view = rules if event in _SORTED else None
            kept = folded if event is Event.INSTRUCTIONS else None
            found = _folded(path, root, name, scratch / "profile.json", by_view, kept)
            events[event] = found.statistics.weight
            for view, sorted_ in found.views.items():
                for place, row in enumerate(sorted_.report["rows"]):
                    rows = views.setdefault(view, [])
                    if place == len(rows):
                        rows.append(CountedRow(row["name"], row["label"], {}))
                    rows[place].events[event] = row["weight"]
        calls = _folded(path, root, _CALLS, scratch / "profile.json", None, None)
    if not events[Event.INSTRUCTIONS]:
        raise not_called(path, root)
    stacks = list(calls.each_stack())
    for event, functions in _CALLED.items():
        events[event] = sum(
            stack.weight
            for stack in stacks
            if stack.frames and stack.frames[-1] in functions and not functions.intersection(stack.frames[-2:-1])
        )
    return Counts(events, views, sum(stack.weight for stack in stacks if stack.frames == (root,)))


def not_called(path: Path, function: str) -> MeasurementError:
    """With the command that lists the functions that were."""
    return MeasurementError(
        f"nothing was counted below {function}",
        means="the function was not called, or has another name in this build",
        mend=f"stackfold --event calls {shlex.quote(str(path))} | grep -o '[^;]*$'   (those that were)",
    )


def _folded(path: Path, root: str, event: str, profile: Path, rules: str | None, folded: Path | None) -> Folded:
    argv = ["--input-format", "callgrind", "--event", event, "--from", root, str(path)]
    if folded is not None:
        argv = ["-o", str(folded), *argv]
    done = run_stackfold(argv, profile, rules)
    found = read_profile(profile) if profile.exists() else None
    # None of an event is an answer here.
    if found is None or found.statistics.weight or found.statistics.truncated_input:
        done.require("stackfold")
    assert found is not None
    return found
