"""What callgrind counted of an operation, by event and by category, as stackfold folds it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from folding.stackfold import run_stackfold
from ground.errors import MeasurementError
from ground.results.counted import Event
from ground.results.profile import Folded, read_profile
from ground.system.scratch import scratch_directory

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
    files: those in which something was counted
    """

    events: dict[Event, int]
    views: dict[str, list[CountedRow]]
    calls: int = 0
    files: Sequence[Path] = ()


def counts_below(paths: Sequence[Path], root: str, rules: str, folded: Path | None = None) -> Counts:
    """What was counted in the function `root` and whatever it called, in all processes together.

    paths:  a file of each process; rules: of the categories; folded: where the stacks are written, in instructions
    MeasurementError where nothing was counted there.
    """
    every = [_counts_of(path, root, rules, folded) for path in paths]
    found = [one for one in every if one.events[Event.INSTRUCTIONS]]
    if not found:
        raise not_called(paths, root)
    whole = found[0]
    for one in found[1:]:
        whole = _sum(whole, one)
    return whole


def _sum(one: Counts, other: Counts) -> Counts:
    """Of the same rules, whose rows are in one order."""

    def added(first: Mapping[Event, int], second: Mapping[Event, int]) -> dict[Event, int]:
        return {event: first[event] + second[event] for event in first}

    views = {
        view: [
            CountedRow(a.name, a.label, added(a.events, b.events)) for a, b in zip(rows, other.views[view], strict=True)
        ]
        for view, rows in one.views.items()
    }
    return Counts(added(one.events, other.events), views, one.calls + other.calls, [*one.files, *other.files])


def _counts_of(path: Path, root: str, rules: str, folded: Path | None) -> Counts:
    """Of one process. Its stacks are added to `folded`."""
    events: dict[Event, int] = {}
    views: dict[str, list[CountedRow]] = {}
    with scratch_directory() as scratch:
        found = _folded(path, root, [*_SORTED.values(), *_TOTALS.values(), _CALLS], scratch, rules, folded)
    for event, name in {**_SORTED, **_TOTALS}.items():
        events[event] = found[name].statistics.weight
    for event, name in _SORTED.items():
        for view, sorted_ in found[name].views.items():
            for place, row in enumerate(sorted_.report["rows"]):
                rows = views.setdefault(view, [])
                if place == len(rows):
                    rows.append(CountedRow(row["name"], row["label"], {}))
                rows[place].events[event] = row["weight"]
    stacks = list(found[_CALLS].each_stack())
    for event, functions in _CALLED.items():
        events[event] = sum(
            stack.weight
            for stack in stacks
            if stack.frames and stack.frames[-1] in functions and not functions.intersection(stack.frames[-2:-1])
        )
    return Counts(events, views, sum(stack.weight for stack in stacks if stack.frames == (root,)), [path])


def not_called(paths: Sequence[Path], function: str) -> MeasurementError:
    """With the command that lists the functions that were."""
    return MeasurementError(
        f"nothing was counted below {function}" + f" in any of {len(paths)} processes" * (len(paths) > 1),
        means="the function was not called, or has another name in this build",
        mend=f"for f in {shlex.join(map(str, paths))}; do stackfold --event calls \"$f\"; done | grep -o '[^;]*$'"
        "   (those that were)",
    )


def _folded(
    path: Path, root: str, events: Sequence[str], scratch: Path, rules: str, folded: Path | None
) -> dict[str, Folded]:
    """By event. The stacks of the first are added to `folded`."""
    profiles = {event: scratch / f"{event}.json" for event in events}
    first, *others = events
    argv = ["--input-format", "callgrind", "--event", first, "--from", root, str(path)]
    stacks = scratch / "folded"
    if folded is not None:
        argv = ["-o", str(stacks), *argv]
    for event in others:
        argv += ["--profile-of", f"{event}={profiles[event]}"]
    done = run_stackfold(argv, profiles[first], rules)
    if folded is not None and stacks.exists():
        with folded.open("ab") as file:
            file.write(stacks.read_bytes())
    found = {event: read_profile(profile) for event, profile in profiles.items() if profile.exists()}
    # None of an event is an answer here.
    if len(found) < len(events) or found[first].statistics.weight or found[first].statistics.truncated_input:
        done.require("stackfold")
    return found
