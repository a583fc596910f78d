"""Folds the recording of a poor man's profiler: in `pmp.folded` the thread's state is the leaf frame of its stack, in
`pmp.profile.json` a column."""

from __future__ import annotations

from pathlib import Path

from folding.stackfold import categorised_profile, run_stackfold
from ground.errors import MeasurementError
from ground.results.files import Files
from ground.results.profile import Folded
from ground.results.states import SAMPLED_FRAMES

# Wall-clock samples are sorted by owner only.
_VIEWS = ("owner",)
_STATES = tuple(SAMPLED_FRAMES.values())


def fold_pmp(directory: Path, rules: str) -> Folded:
    """Folds what a sampler left in `directory` into `pmp.profile.json`, its stacks sorted by the owner view of `rules`;
    `pmp.data` into `pmp.folded` as well, and the same by number of samples.

    Inlined functions are left out, as in the stacks of perf. MeasurementError when the recording is broken or empty.
    """
    data, profile = directory / Files.PMP_DATA, directory / Files.PMP_PROFILE
    if data.exists():
        run_stackfold(
            [
                *("--states", ",".join(_STATES), "--kernel", "--no-inlines", "-o", str(directory / Files.PMP_FOLDED)),
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
    counts = directory / Files.PMP_COUNTS
    return categorised_profile(
        directory / Files.PMP_PROFILE, rules, folded=folded, counts=counts, views=_VIEWS, states=_STATES
    )
