"""Two profiles of whatever kind as two sides of a comparison of frames, each of one profile."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from folding.frames import ProfileRun, compare_frames
from ground.errors import MeasurementError, UsageError
from ground.results.files import Files
from ground.results.frame_differences import FrameDifferences
from ground.results.run import open_run
from ground.system.scratch import scratch_directory
from ioflame.analysis.compare.runs import apart
from ioflame.analysis.what_differs import said
from ioflame.present.frames import profile_runs
from ioflame.present.stacks import fold_source, read_source
from viz.flame.difference import PER_QUERY, SHARE

# Names that are guessed for one would hide what is gone and what is new.
_MATCHING = "canonical,alias,thread"
_COUNTS = {
    Files.FOLDED: Files.SAMPLE_COUNTS,
    Files.PMP_FOLDED: Files.PMP_COUNTS,
    Files.OFF_CPU_FOLDED: Files.OFF_CPU_COUNTS,
}


@dataclass(frozen=True)
class TwoProfiles:
    """The second side against the first.

    unit: of the costs; notes: what a reader has to know first; cut_short: by path, why some of it is not in here
    also_different: in what else two runs differ, in a sentence; "" for none, and for files
    """

    found: FrameDifferences
    unit: str
    notes: list[str]
    cut_short: dict[str, str]
    also_different: str = ""


@dataclass(frozen=True)
class _Side:
    """cut_short: why some of the input is not in it; "" for a whole one"""

    run: ProfileRun
    event: str
    unit: str
    cut_short: str = ""


def compare_two(
    paths: Sequence[str], event: str | None, us_per_query: Sequence[float] | None, weights_are_samples: bool = False
) -> TwoProfiles:
    """Two files, or two run directories; the first is the base.

    us_per_query: of either: costs are compared, and without them shares; two runs know their own
    weights_are_samples: of folded text, whose numbers of samples nothing else tells
    """
    directories = [Path(path).is_dir() for path in paths]
    if any(directories) and not all(directories):
        raise UsageError(
            f"{paths[0]} and {paths[1]}: one is a directory and one a file",
            means="a run is compared with a run, a profile with a profile",
            mend=f"the {Files.PERF_DATA} in the run's directory",
        )
    differing: list[str] = []
    with scratch_directory() as scratch:
        if all(directories):
            sides, differing = _runs(paths)
        else:
            sides = [
                _file(path, scratch / f"{place}.{Files.PROFILE}", event, weights_are_samples)
                for place, path in enumerate(paths)
            ]
        _refuse_unlike(paths, sides)
        costs = us_per_query or [side.run.us_per_query for side in sides if side.run.us_per_query is not None]
        per_query = len(costs) == len(sides)
        whole = costs if per_query else [100.0] * len(sides)
        runs = [ProfileRun(side.run.profile, 1, cost) for side, cost in zip(sides, whole, strict=True)]
        found = compare_frames(
            [(name, [run]) for name, run in zip(_names(paths), runs, strict=True)],
            scratch / "frames.json",
            intervals="samples" if per_query else "shares",
            matching=_MATCHING,
        )
    cut_short = {path: side.cut_short for path, side in zip(paths, sides, strict=True) if side.cut_short}
    notes = [f"Cut short: {path}: {why}." for path, why in cut_short.items()]
    also = f"Also different: {'; '.join(differing)}." if differing else ""
    notes += [also] if also else []
    unit = PER_QUERY if per_query else SHARE
    return TwoProfiles(found, unit, [*notes, *_notes(sides, found, unit)], cut_short, also)


def _file(path: str, profile: Path, event: str | None, weights_are_samples: bool) -> _Side:
    source = read_source(path)
    if not source.head.strip():
        raise MeasurementError(f"{path} is empty", means="there is nothing to compare")
    # Text of perf script need not have the time of each sample; what is packed may be text.
    more = ["--slice-ms", "1000"] if source.head.startswith(b"PERFILE2") or source.is_packed else []
    if source.is_folded or (source.is_packed and weights_are_samples):
        counted = path if weights_are_samples else _counts_beside(path)
        more = ["--counts-from", counted] if counted else []
    elif weights_are_samples:
        raise UsageError(
            f"--unit samples: {path} is not folded text and has its own numbers of samples",
            means="nothing was compared",
            mend="without --unit",
        )
    try:
        told = fold_source(source, profile, event, more=more).statistics
    except UsageError:
        if not source.is_packed or weights_are_samples:
            raise
        told = fold_source(source, profile, event).statistics
    if not told.weight:
        raise MeasurementError(f"{path} has no stack with any weight", means="there is nothing to compare")
    return _Side(ProfileRun(profile, 1), told.event or "", told.unit, told.truncated_input or "")


def _counts_beside(path: str) -> str:
    """The numbers of samples of a run's own folded stacks; "" for any other file."""
    beside = _COUNTS.get(Path(path).name)
    return str(Path(path).with_name(beside)) if beside and Path(path).with_name(beside).is_file() else ""


def _runs(paths: Sequence[str]) -> tuple[list[_Side], list[str]]:
    """Both, and in what they differ as `ioflame report` has it: to see what a setting does is one reason to compare
    them."""
    runs = [open_run(Path(path).resolve()) for path in paths]
    both = apart([run.record for run in runs])
    if refused := both.comparability.frames:
        raise UsageError(
            f"the frames of {paths[0]} and {paths[1]} cannot be compared: {'; '.join(refused)}",
            means="a difference would be of what measured them, not of what ran",
            mend=f"{shlex.join(['ioflame', 'report', *paths])} shows what can be compared",
        )
    sides = []
    for path, run in zip(paths, runs, strict=True):
        found, profile = profile_runs([run]), run.record.profile
        if not found or profile is None:
            raise UsageError(
                f"{path} has no {Files.PROFILE} whose cost is known",
                means="it was not profiled, or its queries were not counted",
                mend=f"{shlex.join(['ioflame', 'analyse', path])}, or the {Files.PERF_DATA} of both runs",
            )
        sides.append(_Side(found[0], profile.event, profile.unit))
    # Those that bar a comparison first.
    rows = sorted(both.differing, key=lambda row: row[0] not in both.barriers)
    return sides, said(rows)


def _refuse_unlike(paths: Sequence[str], sides: Sequence[_Side]) -> None:
    units = [side.unit for side in sides]
    if "unstated" not in units and len(set(units)) > 1:
        raise UsageError(
            f"{paths[0]} is in {units[0]} and {paths[1]} in {units[1]}",
            means="shares of two units are shares of two things",
            mend="record both with the same event (perf record -e), or --event NAME where a file has several",
        )


def _names(paths: Sequence[str]) -> list[str]:
    """As short as they differ."""
    short = [Path(path).name for path in paths]
    if short[0] != short[1]:
        return short
    return list(paths) if paths[0] != paths[1] else [f"{paths[0]} (A)", f"{paths[1]} (B)"]


def _notes(sides: Sequence[_Side], found: FrameDifferences, unit: str) -> list[str]:
    base, arm = found.sides
    events = {side.event for side in sides if side.event}
    of = f" of {', '.join(sorted(events))}" if events else ""
    counts = [f"{side.name} ({side.samples:,} samples)" if side.samples else side.name for side in (base, arm)]
    if unit == PER_QUERY:
        how = f"CPU us per query{of}; the costs of a query are taken as exact."
    else:
        how = (
            f"Shares{of}, both totals scaled to 100 %: where one frame grows, the shares of all others shrink; "
            "--us-per-query A B compares costs."
        )
    notes = [f"Base: {counts[0]}; against it: {counts[1]}. {how}"]
    uneven = sum(max(level.before, level.after) for level in found.levels)
    if uneven:
        notes.append(f"{uneven:.3f} {unit} are in frames that one side has no names for: they are not drawn.")
    return notes
