"""Calls the `stackfold` binary on a recording, and perf report as its judge."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ioflame.binaries import built_binary
from ioflame.errors import MeasurementError
from ioflame.process import capture, tool_path
from ioflame.run import Categories, Files, read_categories
from ioflame.stats import share_intervals

__all__ = (
    "FoldStats",
    "Report",
    "categorise",
    "categorise_stacks",
    "fold",
    "judge",
    "self_weight_differences",
    "stackfold_binary",
    "weight_by_thread_name",
)

_FIELDS = "comm,pid,tid,time,period,event,ip,sym,dso"
# perf script cuts chains at 127 frames unless told otherwise; the kernel already did so for frame-pointer chains.
_MAX_STACK = "1023"


@dataclass(frozen=True)
class FoldStats:
    """What was folded: weights are sums of periods in `unit`, samples are counts."""

    event: str
    unit: str
    samples: int
    weight: int
    unique_stacks: int
    lost_records: int
    dropped_lines: int
    incomplete_weight: int
    unresolved_weight: int
    truncated_chains: int
    largest_sample_weight: int


@dataclass(frozen=True)
class Report:
    """perf report's own account of the same samples: total period, and self period by symbol.

    lost_samples: those of the whole recording, whatever the process
    """

    weight: int
    lost_samples: int
    self_weights: dict[str, int]


def stackfold_binary() -> str:
    """The binary that `make setup` builds. HostError when it is not there."""
    return str(built_binary("stackfold"))


def fold(perf_data: Path, directory: Path, pid: int, event: str | None = None) -> FoldStats:
    """Folds the samples of `pid` into `directory`: stacks by weight, by number of samples and by second, pprof (with
    objects and threads), and statistics.

    perf script writes straight into stackfold, so memory stays bounded whatever the size of the recording.
    MeasurementError when either of them fails; what could be folded is kept.
    """
    script = [tool_path("perf", "linux-perf"), "script", "-i", str(perf_data), "--no-inline", "--pid", str(pid)]
    script += ["-F", _FIELDS, "--max-stack", _MAX_STACK, "--show-lost-events"]
    stats = directory / Files.FOLD_STATS
    folder = [stackfold_binary(), "--kernel", "-q", "-o", str(directory / Files.FOLDED)]
    folder += ["--counts", str(directory / Files.SAMPLE_COUNTS), "--stats", str(stats)]
    folder += ["--pprof", str(directory / Files.PPROF)]
    folder += ["--slices", str(directory / Files.SLICES)]
    folder += ["--event", event] if event else []
    environment = {**os.environ, "LC_ALL": "C", "PERF_CONFIG": os.devnull}
    with subprocess.Popen(
        script,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        process_group=0,
    ) as perf:
        try:
            done = subprocess.run(folder, stdin=perf.stdout, capture_output=True, check=False, process_group=0)
        except BaseException:
            perf.kill()
            raise
        assert perf.stdout is not None and perf.stderr is not None
        perf.stdout.close()
        perf_words = perf.stderr.read().decode("utf-8", "replace").strip()
        perf_code = perf.wait()
    if done.returncode != 0:
        words = done.stderr.decode("utf-8", "replace").strip()
        raise MeasurementError(
            f"stackfold failed with exit code {done.returncode}: {words[-1500:]}",
            mend=f"perf script said: {perf_words[-300:] or 'nothing'}",
        )
    if perf_code != 0:
        raise MeasurementError(f"perf script failed with exit code {perf_code}: {perf_words[-1500:]}")
    return read_stats(stats)


def read_stats(path: Path) -> FoldStats:
    """The statistics that a fold left. MeasurementError when they are missing or of another form."""
    try:
        data: dict[str, Any] = json.loads(path.read_text())
        return FoldStats(**{name: data[name] for name in FoldStats.__dataclass_fields__})
    except (OSError, ValueError, KeyError) as error:
        raise MeasurementError(f"{path} is not a statistics file of stackfold: {error}") from None


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
    path = directory / Files.of_view(view)
    partial = path.with_name(path.name + ".part")
    partial.write_text(json.dumps(data, indent=1) + "\n")
    partial.replace(path)
    return read_categories(directory, view)


def _weights_by_second(directory: Path, rules: str, view: str, rows: Sequence[str]) -> list[list[int]]:
    place = {}
    for line in categorise_stacks(directory, rules, view).splitlines():
        category, _, _, _, stack = line.split(b"\t", 4)
        place[stack] = rows.index(category.decode("utf-8", "replace"))
    seconds: list[list[int]] = []
    for line in (directory / Files.SLICES).read_bytes().splitlines():
        second, _, weight, stack = line.split(b"\t", 3)
        while len(seconds) <= int(second):
            seconds.append([0] * len(rows))
        seconds[-1][place[stack]] += int(weight)
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
    for stack, weight in _folded_stacks(directory):
        weights[stack.partition(";")[0]] += weight
    return dict(weights)


def _folded_stacks(directory: Path) -> Iterator[tuple[str, int]]:
    """The stacks of a run's fold, each with its weight."""
    for line in (directory / Files.FOLDED).read_bytes().splitlines():
        stack, _, weight = line.rpartition(b" ")
        yield stack.decode("utf-8", "replace"), int(weight)


def _categories_argv(directory: Path, rules: str, view: str, form: str) -> Sequence[str]:
    argv = [stackfold_binary(), "categories", "--rules", rules, "--view", view, "--format", form]
    return [*argv, "--counts", str(directory / Files.SAMPLE_COUNTS), str(directory / Files.FOLDED)]


def judge(perf_data: Path, pid: int, event: str | None = None) -> Report:
    """What `perf report` says of the samples of `pid`: the sum of its self periods, which no filter rounds.

    The header's "Event count (approx.)" covers the whole recording whatever the filter, so the rows are added up. The
    pid is among the fields because perf report filters rows, not samples: without it a row holds the samples of every
    process that ran the same symbol, and the filter takes or leaves them all.
    """
    argv = [tool_path("perf", "linux-perf"), "report", "-i", str(perf_data), "--stdio", "--no-children", "--no-inline"]
    argv += ["-g", "none", "-F", "period,pid,sym", "-t", "|", "--percent-limit", "0", "--pid", str(pid)]
    output = capture(argv, timeout=1800).require("perf report").text
    weights: Counter[str] = Counter()
    section = None
    for line in output.splitlines():
        header = re.match(r"# Samples: \S+\s+of event '(.+)'", line)
        if header:
            section = header[1]
        if line.startswith("#") or "|" not in line or (event and section and not section.startswith(event)):
            continue
        # perf writes "." for a "|" within a field, so the fields are safe to split.
        period, _, symbol = (field.strip() for field in line.split("|"))
        weights[symbol] += int(period)
    lost = sum(int(count) for count in re.findall(r"^# Total Lost Samples: (\d+)", output, re.MULTILINE))
    return Report(sum(weights.values()), lost, dict(weights))


def self_weight_differences(directory: Path, report: Report) -> list[tuple[str, int, int]]:
    """Symbols whose self weight is not that of perf report: name, folded, reported; the largest difference first.

    Only named symbols are compared: an address without a name is `[file]` in a folded stack and a number in perf's.
    """
    folded: Counter[str] = Counter()
    for stack, weight in _folded_stacks(directory):
        folded[_plain_name(stack.rpartition(";")[2])] += weight
    reported: Counter[str] = Counter()
    for symbol, period in report.self_weights.items():
        reported[_plain_name(symbol)] += period
    named = [s for s in folded.keys() | reported.keys() if not re.match(r"0x[0-9a-f]+$|\[|0000", s)]
    differences = [(s, folded[s], reported[s]) for s in named if folded[s] != reported[s]]
    return sorted(differences, key=lambda d: (-abs(d[1] - d[2]), d[0]))


def _plain_name(symbol: str) -> str:
    """A symbol without what only one side prints: annotations, perf's `[k] `, and `@@VERSION`."""
    return re.sub(r"^\[.\] |_\[[kij]\]$|@@?[A-Z][\w.]*$", "", symbol)
