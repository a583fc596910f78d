"""`cells.json`: every run of every cell of an experiment, so that it can be resumed after an interruption."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ground.errors import UsageError
from ground.results.checks import Check, Verdict
from ground.results.ranges import Amount, Count, Ends, Signed, Stated
from ground.results.study import StudyRun

if TYPE_CHECKING:
    from typing_extensions import Self

SCHEMA = 1
# The record of an io-efficiency experiment from before experiments had cells.
FORMER = "experiment.json"


@dataclass
class Baseline:
    """What fio got from the device: figures per read, latencies in us, reqsz in KiB.

    lat: by fio, submission to completion; io_lat: by the device's counter over the whole fio process
    others: part of the bytes read from the device in that time that fio did not read
    """

    iops: Amount
    reads: Count
    us_per: Amount
    sy_per: Amount
    lat: Amount
    io_lat: Amount
    reqsz: Amount
    others: Amount = 0.0

    @property
    def cpu_per(self) -> float:
        return self.us_per + self.sy_per


# Of a `Baseline`, those of a read.
BASELINE_FIGURES = ("iops", "reqsz", "us_per", "sy_per", "cpu_per", "lat", "io_lat")


@dataclass
class CellOutcome:
    """A run of a cell. status: `todo`, `done`, `failed` or `left out`; figures: by step and name; why: it is not done

    turn, round: which of the cell's runs it is, and the round that it is part of
    runs:   by step, of one that was measured window by window: its run directory, relative
    amiss:  failed checks of those runs, in words
    baselines: of its steps that are fio, in their order
    asked:  a digest of what its file said to run; "" in older experiments, which did not keep it
    """

    cell: str
    turn: Count
    round: Count = 0
    status: str = "todo"
    figures: dict[str, Stated] = field(default_factory=dict)
    commands: list[list[str]] = field(default_factory=list)
    seconds: Amount = 0.0
    why: str = ""
    runs: dict[str, str] = field(default_factory=dict)
    amiss: list[str] = field(default_factory=list)
    baselines: list[Baseline] = field(default_factory=list)
    asked: str = ""

    def note_failed(self, step: str, checks: Iterable[Check]) -> None:
        self.amiss += [f"{step}: {one.name}: {one.value}" for one in checks if one.verdict is Verdict.FAILED]


@dataclass
class CellsRecord:
    """The whole experiment: what was asked, where it ran, every run.

    builds:     facts of each, where there are several
    callgraphs: by step, of all its profiles, as the first one's trial chose it: tables put them side by side
    request_bytes: of a read of fio on average, as the engine sends them; None before that was looked at
    """

    name: str
    created: str
    num_keys: Count
    options: dict[str, str]
    host: dict[str, str]
    tools: dict[str, str]
    runs: list[CellOutcome] = field(default_factory=list)
    builds: dict[str, dict[str, str]] = field(default_factory=dict)
    callgraphs: dict[str, str] = field(default_factory=dict)
    request_bytes: Amount | None = None
    schema: int = SCHEMA

    def figures(self, cell: str) -> list[dict[str, float]]:
        """Those of the runs of a cell; of one that failed, those of the steps before that."""
        runs = [run for run in self.runs if run.cell == cell and run.figures]
        return [
            {name: value for name, value in run.figures.items() if run.status == "done" or not name.startswith("last.")}
            for run in runs
        ]


class CellsRun(StudyRun[CellsRecord]):
    """The directory of an experiment of cells."""

    file = "cells.json"
    form = CellsRecord
    what = "an experiment of cells"
    kind = "experiment"

    @classmethod
    def open(cls, path: Path) -> Self:
        """UsageError also for an io-efficiency of an ioflame that had no cells for it."""
        if (path / FORMER).is_file() and not cls.is_in(path):
            raise UsageError(
                f"{path} was begun by an older ioflame, whose io-efficiency had no cells",
                means="it cannot be resumed; the runs in it are read as any other: ioflame report|show DIRECTORY/RUN",
                mend="leave --resume out",
            )
        return super().open(path)

    @staticmethod
    def name_of(record: CellsRecord) -> str:
        return record.name

    @staticmethod
    def identity(record: CellsRecord) -> dict[str, object]:
        return {
            "keys": record.num_keys,
            **{f"runs of {cell}": number for cell, number in Counter(run.cell for run in record.runs).items()},
            **{f"steps of {run.cell}": run.asked for run in record.runs},
            **record.options,
            **record.tools,
            **{f"{fact} of {name}": value for name, facts in record.builds.items() for fact, value in facts.items()},
        }

    def summary(self) -> tuple[str, str]:
        runs = self.record.runs
        counts = Counter(run.status for run in runs)
        each = ", ".join(f"{number} {status}" for status, number in sorted(counts.items()))
        what = ": ".join(filter(None, [self.record.name, ", ".join(self.record.builds)]))
        return what, f"of {len(runs)} cell runs: {each}"


@dataclass(frozen=True)
class Heading:
    """A printed column: its name, its line in the legend, and the digits of its values."""

    name: str
    about: str
    digits: int


@dataclass(frozen=True)
class Value(Ends):
    """A column of a cell over its runs: the median, the quartiles (None of fewer than four runs), n."""

    median: Stated
    low: Stated | None
    high: Stated | None
    runs: Count


@dataclass(frozen=True)
class Judged:
    """What became of a proof: holds is None where it could not be judged; why: the values that it saw."""

    holds: bool | None
    why: str


@dataclass(frozen=True)
class Change:
    """Between two cells. percent: of the first; None where no difference is seen; of_fio: fio's runs differ as much."""

    percent: Signed | None
    of_fio: bool = False
