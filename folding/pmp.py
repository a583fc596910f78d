"""Folds the recording of a poor man's profiler: `pmp.data` into stacks whose leaf frame is the thread's state."""

from __future__ import annotations

import re
from pathlib import Path

from folding.stackfold import FoldStats, read_stats, stackfold_binary
from ioflame.errors import MeasurementError
from ioflame.files import Files
from ioflame.process import capture
from ioflame.whole import check_lines

__all__ = ("fold_pmp", "pmp_categorised", "state_of")

_STATE = re.compile(r"_\[([A-Z])\]$")


def fold_pmp(directory: Path) -> FoldStats | None:
    """Folds `pmp.data` into `pmp.folded` and the same by number of samples; None where the sampler has folded itself.

    Inlined functions are left out, as in the stacks of perf. MeasurementError when the recording is broken or empty.
    """
    data = directory / Files.PMP_DATA
    if not data.exists():
        return None
    stats = directory / Files.PMP_FOLD_STATS
    argv = [stackfold_binary(), "--kernel", "--no-inlines", "-q", "-o", str(directory / Files.PMP_FOLDED)]
    argv += ["--counts", str(directory / Files.PMP_COUNTS), "--stats", str(stats), str(data)]
    capture(argv, timeout=600).require("stackfold")
    return read_stats(stats)


def pmp_categorised(directory: Path, rules: str) -> bytes:
    """The stacks with their owner category, a line each: `category, anchor depth, samples, weight, stack` by tabs."""
    folded, counts = directory / Files.PMP_FOLDED, directory / Files.PMP_COUNTS
    if not folded.exists() or not folded.stat().st_size:
        raise MeasurementError(f"{folded} holds no stack", means="no thread was sampled", mend="sample for longer")
    argv = [stackfold_binary(), "categories", "--rules", rules, "--view", "owner", "--format", "stacks"]
    argv += ["--counts", str(check_lines(counts)), str(check_lines(folded))]
    return capture(argv, timeout=600).require("stackfold categories").stdout


def state_of(leaf: str) -> str | None:
    """R, S, D, T or O, of a leaf frame that names a thread's state; None for any other frame."""
    found = _STATE.search(leaf)
    return found[1] if found else None
