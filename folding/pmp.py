"""Folds the recording of a poor man's profiler: `pmp.data` into stacks whose leaf frame is the thread's state."""

from __future__ import annotations

import re
from pathlib import Path

from folding.stackfold import categorised_profile, run_stackfold
from ioflame.errors import MeasurementError
from ioflame.files import Files
from ioflame.results.profile import Folded

__all__ = ("fold_pmp", "pmp_profile", "state_of")

_STATE = re.compile(r"_\[([A-Z])\]$")
# What follows from the wall clock is told by who owns it.
_VIEWS = ("owner",)


def fold_pmp(directory: Path, rules: str) -> Folded:
    """Folds what a sampler left in `directory` into `pmp.profile.json`, its stacks sorted by the owner view of `rules`;
    `pmp.data` into `pmp.folded` as well, and the same by number of samples.

    Inlined functions are left out, as in the stacks of perf. MeasurementError when the recording is broken or empty.
    """
    data, profile = directory / Files.PMP_DATA, directory / Files.PMP_PROFILE
    if data.exists():
        run_stackfold(
            [
                *("--kernel", "--no-inlines", "-o", str(directory / Files.PMP_FOLDED)),
                *("--counts", str(directory / Files.PMP_COUNTS), "--stats", str(directory / Files.PMP_FOLD_STATS)),
                str(data),
            ],
            profile,
            rules,
            _VIEWS,
        ).require("stackfold")
    else:
        profile.unlink(missing_ok=True)
    return pmp_profile(directory, rules)


def pmp_profile(directory: Path, rules: str) -> Folded:
    """The profile as `fold_pmp` left it; made from folded stacks where there is none: gdb's sampler folds by itself."""
    folded = directory / Files.PMP_FOLDED
    if not folded.exists() or not folded.stat().st_size:
        raise MeasurementError(f"{folded} holds no stack", means="no thread was sampled", mend="sample for longer")
    return categorised_profile(
        directory / Files.PMP_PROFILE, rules, folded=folded, counts=directory / Files.PMP_COUNTS, views=_VIEWS
    )


def state_of(leaf: str) -> str | None:
    """R, S, D, T or O, of a leaf frame that names a thread's state; None for any other frame."""
    found = _STATE.search(leaf)
    return found[1] if found else None
