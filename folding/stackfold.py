"""Calls the `stackfold` binary on a recording: its folds, its categories, and how it compares with perf report."""

from __future__ import annotations

import json
import os
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from ioflame.binaries import built_binary
from ioflame.categories import Categories, read_categories
from ioflame.errors import MeasurementError
from ioflame.files import Files
from ioflame.process import capture, tool_path
from ioflame.stats import share_intervals
from ioflame.whole import check_lines, read_json, read_whole, write_whole

__all__ = (
    "Comparison",
    "Difference",
    "FoldStats",
    "categorise",
    "categorise_stacks",
    "compare_with_perf_report",
    "fold",
    "read_stats",
    "stackfold_binary",
    "weight_by_thread_name",
)

# A recording of many gigabytes takes minutes; what takes longer than this hangs.
_TIMEOUT = 1800
# A window is no longer than a week.
_MOST_SECONDS = 7 * 86_400


@dataclass(frozen=True)
class CutCopies:
    """Weight of samples whose copied stack (`dwarf`) goes on where the copy ends.

    by_size: as much was copied as was asked for
    by_page: the kernel stopped sooner, at a page that was not in memory
    bytes:   that were asked for
    """

    by_size: int
    by_page: int
    bytes: int


@dataclass(frozen=True)
class FoldStats:
    """What was folded: weights are sums of periods in `unit`, samples are counts; no event in an empty recording."""

    event: str | None
    unit: str
    samples: int
    weight: int
    unique_stacks: int
    lost_records: int
    dropped_lines: int
    incomplete_weight: int
    unresolved_weight: int
    cut_copies: CutCopies
    truncated_chains: int
    largest_sample_weight: int


@dataclass(frozen=True)
class Difference:
    """A symbol whose self weight is not that of perf report, and why."""

    symbol: str
    folded: int
    reported: int
    reason: str


@dataclass(frozen=True)
class Comparison:
    """An event of a recording as stackfold folds it and as perf report tells it; weights are sums of periods.

    symbols:      how many names either side knows; all nameless addresses are one
    differences:  of self weights, the largest first
    lost_samples: those of the whole recording, whatever the process, as perf report says
    """

    event: str
    folded: int
    reported: int
    symbols: int
    differences: list[Difference]
    lost_samples: int = 0


class _Checked(msgspec.Struct):
    """What `stackfold check --format json` prints."""

    lost_samples: int
    events: list[Comparison]


def stackfold_binary() -> str:
    """The binary that `make setup` builds. HostError when it is not there."""
    return str(built_binary("stackfold"))


def fold(perf_data: Path, directory: Path, pid: int, event: str | None = None) -> FoldStats:
    """Folds the samples of `pid` into `directory`: stacks by weight, by number of samples and by second, pprof (with
    objects, addresses and threads), and statistics.

    Inlined functions are left out: with them, the stacks of a stripped engine and of one with debug information would
    differ. MeasurementError when the recording cannot be folded whole; what could be folded is kept.
    """
    stats = directory / Files.FOLD_STATS
    argv = [stackfold_binary(), "--kernel", "--no-inlines", "-q", *_selection(pid, event)]
    argv += ["-o", str(directory / Files.FOLDED), "--counts", str(directory / Files.SAMPLE_COUNTS)]
    argv += ["--stats", str(stats), "--pprof", str(directory / Files.PPROF)]
    argv += ["--slices", str(directory / Files.SLICES), "--input-format", "perf-data", str(perf_data)]
    capture(argv, timeout=_TIMEOUT).require("stackfold")
    return read_stats(stats)


def compare_with_perf_report(perf_data: Path, directory: Path, pid: int, event: str | None = None) -> Comparison:
    """Lets `stackfold check` hold a recording's one event, or `event`, against perf report; kept in `directory`.

    MeasurementError when either of them cannot read the recording, and when there is not exactly one event to compare.
    Totals that differ are no failure here.
    """
    tool_path("perf", "linux-perf")
    path = directory / Files.FOLD_CHECK
    path.unlink(missing_ok=True)
    argv = [stackfold_binary(), "check", "--format", "json", "-o", str(path), *_selection(pid, event), str(perf_data)]
    done = capture(argv, timeout=_TIMEOUT)
    if not path.exists():
        # Exit code 1 with a result is a total that differs; the caller judges that.
        done.require("stackfold check")
    try:
        checked = msgspec.json.decode(path.read_bytes(), type=_Checked)
        (comparison,) = checked.events
    except (OSError, ValueError) as error:
        raise MeasurementError(f"{path} is not the comparison of one event by stackfold check: {error}") from None
    return replace(comparison, lost_samples=checked.lost_samples)


def _selection(pid: int, event: str | None) -> list[str]:
    """The samples meant, for fold and check alike."""
    threads = len(os.sched_getaffinity(0))
    return ["--only-pid", str(pid), "--threads", str(threads), *(["--event", event] if event else [])]


def read_stats(path: Path) -> FoldStats:
    """The statistics that a fold left. MeasurementError when they are missing or of another form."""
    return read_json(path, FoldStats, "a statistics file of stackfold")


def categorise(directory: Path, rules: str, view: str) -> Categories:
    """Writes the view of the folded stacks in `directory` beside them, and returns it.

    Where the fold kept the seconds, the view has each row's weight in each of them, and the interval of its share.
    """
    output = capture(_categories_argv(directory, rules, view, "json"), timeout=600).require("stackfold categories")
    data: dict[str, Any] = json.loads(output.stdout)
    if (directory / Files.SLICES).exists():
        data["slices"] = _weights_by_second(directory, rules, view, [row["name"] for row in data["rows"]])
        for row, interval in zip(data["rows"], share_intervals([data["slices"]]), strict=True):
            row["interval"] = None if interval is None else asdict(interval)
    write_whole(directory / Files.of_view(view), (json.dumps(data, indent=1) + "\n").encode())
    return read_categories(directory, view)


def _weights_by_second(directory: Path, rules: str, view: str, rows: Sequence[str]) -> list[list[int]]:
    place = {}
    for line in categorise_stacks(directory, rules, view).splitlines():
        category, _, _, _, stack = line.split(b"\t", 4)
        place[stack] = rows.index(category.decode("utf-8", "replace"))
    seconds: list[list[int]] = []
    for number, line in enumerate(read_whole(directory / Files.SLICES).splitlines(), 1):
        try:
            second, _, weight, stack = line.split(b"\t", 3)
            row, at, value = place[stack], int(second), int(weight)
        except (ValueError, KeyError):
            at = -1
        if not 0 <= at < _MOST_SECONDS:
            raise MeasurementError(
                f"line {number} of {Files.SLICES} is no second of the stacks: {line[:120]!r}",
                means="the file is damaged, or of another fold",
                mend=f"ioflame analyse {shlex.quote(str(directory))}   (makes it anew from {Files.PERF_DATA})",
            )
        while len(seconds) <= at:
            seconds.append([0] * len(rows))
        seconds[at][row] += value
    return seconds


def categorise_stacks(directory: Path, rules: str, view: str) -> bytes:
    """The stacks with their category, as the flame graph wants them: a line a stack,
    `category, anchor depth, samples, weight, stack` by tabs."""
    return (
        capture(_categories_argv(directory, rules, view, "stacks"), timeout=600).require("stackfold categories").stdout
    )


def weight_by_thread_name(directory: Path) -> dict[str, int]:
    """The weight of each thread name (comm), which is the first frame of a folded stack."""
    weights: Counter[str] = Counter()
    for line in read_whole(directory / Files.FOLDED).splitlines():
        stack, _, weight = line.rpartition(b" ")
        weights[stack.partition(b";")[0].decode("utf-8", "replace")] += int(weight)
    return dict(weights)


def _categories_argv(directory: Path, rules: str, view: str, form: str) -> Sequence[str]:
    argv = [stackfold_binary(), "categories", "--rules", rules, "--view", view, "--format", form]
    counts, folded = (check_lines(directory / name) for name in (Files.SAMPLE_COUNTS, Files.FOLDED))
    return [*argv, "--counts", str(counts), str(folded)]
