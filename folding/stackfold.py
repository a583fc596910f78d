"""Calls the `stackfold` binary: one run of it makes stacks, categories and a comparison with perf report."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ioflame.binaries import built_binary
from ioflame.files import Files
from ioflame.process import Output, capture, tool_path
from ioflame.results.profile import Folded, read_profile
from ioflame.scratch import scratch_directory
from ioflame.whole import check_lines, write_json

__all__ = ("VIEWS", "categorised_profile", "fold", "run_stackfold", "stackfold_binary")

# A recording of many gigabytes takes minutes; what takes longer than this hangs.
_TIMEOUT = 1800
# The views of an engine's rules that every profile is sorted by.
VIEWS = ("owner", "leaf")


def stackfold_binary() -> str:
    """The binary that `make setup` builds. HostError when it is not there."""
    return str(built_binary("stackfold"))


def fold(
    perf_data: Path,
    directory: Path,
    pid: int,
    *,
    rules: str | None = None,
    check: bool = False,
    event: str | None = None,
) -> Folded:
    """Folds the samples of `pid` into `directory`: `profile.json`, and the same stacks as folded text by weight, by
    number of samples and by second, as pprof, with statistics.

    rules: sort the stacks by the views of these rules, which are kept as well
    check: compare with perf report, whose account is kept as well
    Inlined functions are left out: with them, the stacks of a stripped engine and of one with debug information would
    differ. MeasurementError when the recording cannot be folded whole, or perf report cannot read it; what could be
    folded is kept.
    """
    argv = ["--kernel", "--no-inlines", "--only-pid", str(pid), "--threads", str(len(os.sched_getaffinity(0)))]
    argv += ["--slice-ms", "1000", "-o", str(directory / Files.FOLDED), "--slices", str(directory / Files.SLICES)]
    argv += ["--counts", str(directory / Files.SAMPLE_COUNTS), "--stats", str(directory / Files.FOLD_STATS)]
    argv += ["--pprof", str(directory / Files.PPROF), *(["--event", event] if event else [])]
    if check:
        tool_path("perf", "linux-perf")
        argv.append("--check")
    profile = directory / Files.PROFILE
    run_stackfold([*argv, "--input-format", "perf-data", str(perf_data)], profile, rules).require("stackfold")
    found = read_profile(profile)
    if found.check is not None:
        write_json(directory / Files.FOLD_CHECK, found.check)
    for view in found.views:
        write_json(directory / Files.of_view(view), found.category_file(view))
    return found


def run_stackfold(
    argv: Sequence[str],
    profile: Path,
    rules: str | None = None,
    views: Sequence[str] = VIEWS,
    data: bytes | None = None,
) -> Output:
    """Folds anything into the file `profile`; how stackfold ended.

    argv: what to fold, and what else to write; rules: sort the stacks by these views; data: standard input
    """
    sorting = ["--rules", rules, "--views", ",".join(views)] if rules else []
    command = [stackfold_binary(), "-q", "--profile", str(profile), *sorting, *argv]
    # What an earlier run left is not taken for this one's, should it fail.
    profile.unlink(missing_ok=True)
    return capture(command, timeout=_TIMEOUT, stdin=data)


def categorised_profile(
    profile: Path,
    rules: str,
    *,
    folded: Path,
    counts: Path,
    views: Sequence[str] = VIEWS,
) -> Folded:
    """The profile in a run directory. Where there is none, as in runs of ioflame 0.1.0, it is made of the folded
    stacks, which know neither threads nor objects.

    counts: numbers of samples of `folded`
    """
    if profile.exists():
        return read_profile(profile)
    numbers = ["--counts-from", str(check_lines(counts))] if counts.exists() else []
    with scratch_directory() as place:
        made = place / profile.name
        run_stackfold(["--kernel", *numbers, str(check_lines(folded))], made, rules, views).require("stackfold")
        return read_profile(made)
