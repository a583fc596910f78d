"""Every run of a directory, as far as its record tells: what it was, how it came out, its two main figures."""

from __future__ import annotations

import importlib
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ground.errors import IoflameError, UsageError
from ground.results.checks import Verdict
from ground.results.created import created_at
from ground.results.files import Files
from ground.results.record import RunRecord
from ground.results.run import open_run

if TYPE_CHECKING:
    from ground.results.study import StudyRun

# As every command of ours names its directory.
_TIMED = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)-")
_SETTINGS = ("configuration", "scale")
_NAMED = 3
# The module and the class of each study by the file of its record: they are imported where there is one, so that a list
# of profiles is there in a third of the time.
_STUDIES = {
    "comparison.json": ("comparison", "ComparisonRun"),
    "bisect.json": ("bisect", "BisectRun"),
    "cells.json": ("cells", "CellsRun"),
    "counted.json": ("counted", "CountRun"),
    "sweep.json": ("sweep", "SweepRun"),
}


@dataclass(frozen=True)
class ListedRun:
    """kind: that of a study, or profile, attach, command, pmp, or unreadable, and then `verdict` says why

    created: ISO 8601, with its zone where the record has one
    qps, us_per_query: of one workload; None where several were measured, or no queries were counted
    """

    name: str
    created: str
    kind: str
    what: str
    verdict: str
    qps: float | None = None
    us_per_query: float | None = None


@dataclass(frozen=True)
class RunList:
    """The oldest first."""

    directory: Path
    runs: list[ListedRun]


def list_runs(directory: Path) -> RunList:
    """Directories that hold no run of ours are left out. UsageError where `directory` cannot be read, or is a run."""
    if (directory / Files.RECORD).is_file():
        raise UsageError(
            f"{directory} is a run itself",
            means="`ioflame runs` lists a directory of runs",
            mend=f"{shlex.join(['ioflame', 'show', str(directory)])}, or ioflame runs on the directory above",
        )
    try:
        # `latest` is one of the others.
        found = [one for one in directory.iterdir() if one.is_dir() and not one.is_symlink()]
    except OSError as error:
        raise UsageError(
            f"{directory} cannot be listed: {error.strerror}",
            means="runs are in the directory that --out or OUT named, `runs` by default",
            mend="ioflame runs DIR, or ioflame profile for a first run",
        ) from None
    runs = [run for run in map(_listed, found) if run is not None]
    return RunList(directory, sorted(runs, key=lambda run: (_order(run), run.name)))


def _listed(directory: Path) -> ListedRun | None:
    try:
        return _read(directory)
    except (IoflameError, OSError) as error:
        why = error.what if isinstance(error, IoflameError) else f"{directory}: {error.strerror}"
        return _unreadable(directory, why)


def _read(directory: Path) -> ListedRun | None:
    name = directory.name
    for file in _STUDIES:
        if (directory / file).is_file():
            study = study_of(file).open(directory)
            return ListedRun(name, study.record.created, study.kind, *study.summary())
    return _of_command(directory) if (directory / Files.COMMAND).is_file() else _of_windows(directory)


def study_of(file: str) -> type[StudyRun[Any]]:
    """The class of the study whose record is in `file`."""
    module, name = _STUDIES[file]
    study: type[StudyRun[Any]] = getattr(importlib.import_module(f"ground.results.{module}"), name)
    return study


def _of_command(directory: Path) -> ListedRun:
    """A command of the user's: the figures of its only benchmark, or how many there are."""
    from ground.results.command_run import CommandRun

    record = CommandRun.open(directory).record
    runs = [one for run in record.runs if (one := _listed(directory / run)) is not None]
    one = runs[0] if len(runs) == 1 else None
    how_many = f"{len(runs)} runs: {shlex.join(['ioflame', 'runs', str(directory)])}"
    return ListedRun(
        directory.name, record.created, "command", shlex.join(record.argv),
        one.verdict if one is not None else how_many,
        one.qps if one is not None else None, one.us_per_query if one is not None else None,
    )  # fmt: skip


def _of_windows(directory: Path) -> ListedRun | None:
    """What was measured of one process."""
    name = directory.name
    if (directory / Files.RECORD).exists():
        return _of_record(name, open_run(directory).record)
    if (directory / Files.PMP).exists():
        from ground.results.pmp import read_pmp

        pmp = read_pmp(directory)
        what = f"process {pmp.pid}, {pmp.seconds:.1f} s"
        return ListedRun(name, _of_name(name), "pmp", what, f"{pmp.samples:,} samples")
    if _TIMED.match(name):
        return _unreadable(directory, "no record: the command ended before it wrote one")
    return None


def _of_record(name: str, record: RunRecord) -> ListedRun:
    kind, what = "profile", [record.workload, record.build]
    if record.target is not None:
        kind, what = "attach", [record.target.program or record.target.asked, record.build]
        if "command" in record.options:
            kind, what = "command", [record.workload, record.build]
    library = record.options.get("library")
    if library:
        what.append(f"library {record.tools.get('engine_release') or library}")
    what += [record.options[key] for key in _SETTINGS if record.options.get(key)]
    metrics = record.metrics
    if "qps.client" in metrics:
        what.append(f"QPS of the whole benchmark {metrics['qps.client']:,.0f}")
    return ListedRun(
        name, record.created, kind, ", ".join(dict.fromkeys(what)), _verdict(record), metrics.get("qps"),
        metrics.get("cpuPer"),
    )  # fmt: skip


def _verdict(record: RunRecord) -> str:
    if record.missing:
        return f"incomplete: {'; '.join(record.missing)}"
    if not record.metrics:
        return "not analysed"
    for verdict, word in ((Verdict.BLOCKED, "blocked"), (Verdict.FAILED, "failed"), (Verdict.WARN, "warned")):
        names = [check.name for check in record.checks if check.verdict is verdict]
        if names:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            return f"{word}: {', '.join(names[:_NAMED])}{more}"
    return "ok"


def _unreadable(directory: Path, why: str) -> ListedRun:
    return ListedRun(directory.name, _of_name(directory.name), "unreadable", "", why)


def _of_name(name: str) -> str:
    """When, by the name of the directory; "" where that does not begin with a time."""
    found = _TIMED.match(name)
    return "{}-{}-{}T{}:{}:{}".format(*found.groups()) if found else ""


def _order(run: ListedRun) -> float:
    # A time without a zone is in the host's local time, as names of directories are.
    try:
        return created_at(run.created).timestamp()
    except (ValueError, OverflowError):
        return 0.0
