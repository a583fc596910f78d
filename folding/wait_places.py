"""Names for where followed queries waited and ran: stackfold reads the stacks that the eBPF room wrote."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from folding.locks import LockRules, lock_of
from folding.stackfold import run_stackfold
from ground.results.profile import OTHER, FoldedStack, read_profile
from ground.system.atomic_files import check_readable

WAIT_EVENT = "blocked"
_VIEW = "owner"
_KERNEL = "_[k]"
_LOCKS = ("lock", "condition")
# A C library and the loader: what waits in them waits for their caller.
_LIBRARY = re.compile(r"(lib(c|pthread)[-.].*|ld-.*|\[vdso\])")
_NAMELESS = "[no stack]"


@dataclass(frozen=True)
class WaitPlace:
    """Where queries waited, or ran.

    state:  one of STATES, or `on_cpu`
    frames: root first, kernel frames marked `_[k]`
    where:  the frame that waits: of a lock or a condition the first that is none of their primitives, elsewhere the
            first that is none of the C library's
    owner:  what the category of the stack is called by the rules
    """

    state: str
    frames: tuple[str, ...]
    where: str
    owner: str = OTHER


def fold_wait_places(recording: Path, profile: Path, rules: str, locks: LockRules) -> dict[int, WaitPlace]:
    """Folds the recording into `profile`; the places by their numbers, without those that have no stack.

    rules: of the categories. MeasurementError where stackfold cannot read it.
    """
    argv = ["--kernel", "--no-inlines", "--event", WAIT_EVENT, str(check_readable(recording))]
    run_stackfold(argv, profile, rules, [_VIEW]).require(f"stackfold on {recording}")
    folded = read_profile(profile)
    labels = {row["name"]: row["label"] or row["name"] for row in folded.views[_VIEW].report["rows"]}
    return wait_places(folded.each_stack(_VIEW), locks, labels)


def wait_places(
    stacks: Iterable[FoldedStack], locks: LockRules, labels: Mapping[str, str] | None = None
) -> dict[int, WaitPlace]:
    """A place is a thread of its number, called by its state. labels: of the categories; their names without."""
    called = labels or {}
    return {
        stack.tid: WaitPlace(stack.comm, stack.frames, _where(stack, locks), called.get(stack.category, stack.category))
        for stack in stacks
        if stack.tid is not None
    }


def _where(stack: FoldedStack, locks: LockRules) -> str:
    found = lock_of(stack.frames, locks) if stack.comm in _LOCKS else None
    return found[1] if found is not None else _outside_of_libraries(stack.frames, stack.objects)


def _outside_of_libraries(frames: Sequence[str], objects: Sequence[str]) -> str:
    """The innermost frame of the program's own; the innermost of the user's where there is none."""
    user = [(frame, of) for frame, of in zip(frames, objects, strict=True) if not frame.endswith(_KERNEL)]
    own = (frame for frame, of in reversed(user) if not _LIBRARY.fullmatch(PurePath(of).name))
    return next(own, user[-1][0] if user else (frames[-1] if frames else _NAMELESS))


def place_of(places: Mapping[int, WaitPlace], number: int, state: str) -> WaitPlace:
    """The place of a wait; one without frames where its stack was not kept."""
    return places.get(number) or WaitPlace(state, (), _NAMELESS)
