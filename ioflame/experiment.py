"""`experiment.json`: the steps of an experiment, what each gave, and so where to go on after an interruption."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ioflame.errors import MeasurementError, UsageError
from ioflame.run import new_directory
from ioflame.whole import read_json, write_json
from ioflame.writes import Writes

__all__ = ("Baseline", "ExperimentRecord", "ExperimentRun", "StepRecord")

SCHEMA = 1
_NAME = "experiment.json"


@dataclass
class Baseline:
    """What fio got from the device: figures per read, latencies in us, reqsz in KiB.

    lat: by fio, submission to completion; io_lat: by the device's counter over the whole fio process
    others: part of the bytes read from the device in that time that fio did not read
    """

    iops: float
    reads: int
    us_per: float
    sy_per: float
    lat: float
    io_lat: float
    reqsz: float
    others: float = 0.0

    @property
    def cpu_per(self) -> float:
        return self.us_per + self.sy_per


@dataclass
class StepRecord:
    """A step as laid out, and its outcome. status: `todo` or `done`; directory: a measured step's run, relative.

    writes: of a step that wrote; baseline: of one of fio
    """

    id: str
    kind: str
    step: str
    users: int
    repeat: int
    levels: str
    status: str = "todo"
    started: float | None = None
    ended: float | None = None
    directory: str = ""
    baseline: Baseline | None = None
    writes: Writes | None = None


@dataclass
class ExperimentRecord:
    """The whole experiment.

    callgraph: of all its profiles, as the first one's trial chose it; "" before it
    request_bytes: of a read of fio on average, as the workload sends them; None before that was looked at
    """

    schema: int
    name: str
    about: str
    created: str
    options: dict[str, str]
    host: dict[str, str]
    tools: dict[str, str]
    steps: list[StepRecord] = field(default_factory=list)
    request_bytes: float | None = None
    callgraph: str = ""


class ExperimentRun:
    """An experiment's directory: its record, and the runs of its measured steps."""

    def __init__(self, directory: Path, record: ExperimentRecord) -> None:
        self.directory = directory
        self.record = record

    @classmethod
    def create(cls, out: Path, record: ExperimentRecord) -> ExperimentRun:
        run = cls(new_directory(out, record.name), record)
        run.save()
        return run

    @classmethod
    def open(cls, directory: Path) -> ExperimentRun:
        """The experiment in `directory`; UsageError when there is none, MeasurementError when its record is broken."""
        path = directory / _NAME
        try:
            path.stat()
        except OSError as error:
            raise UsageError(
                f"{path} cannot be read: {error.strerror}", mend="--resume <a directory that holds an experiment.json>"
            ) from None
        record = read_json(path, ExperimentRecord, "an experiment's record")
        if record.schema != SCHEMA:
            raise MeasurementError(f"{path} has schema {record.schema}; this ioflame reads schema {SCHEMA}")
        return cls(directory, record)

    def save(self) -> None:
        """Writes the record whole or not at all."""
        write_json(self.directory / _NAME, self.record)
