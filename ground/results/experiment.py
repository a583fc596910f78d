"""`experiment.json`: the steps of an experiment, what each gave, and so where to go on after an interruption."""

from __future__ import annotations

from dataclasses import dataclass, field

from ground.results.cells import Baseline
from ground.results.resumable import ResumableRun
from ground.results.writes import Writes

__all__ = ("ExperimentRecord", "ExperimentRun", "StepRecord")

SCHEMA = 1


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
    orders: how shares of the owner view moved from the first step to the last where it was published
    """

    name: str
    about: str
    created: str
    options: dict[str, str]
    host: dict[str, str]
    tools: dict[str, str]
    steps: list[StepRecord] = field(default_factory=list)
    request_bytes: float | None = None
    callgraph: str = ""
    orders: dict[str, str] = field(default_factory=dict)
    schema: int = SCHEMA


class ExperimentRun(ResumableRun[ExperimentRecord]):
    """An experiment's directory: its record, and the runs of its measured steps."""

    file = "experiment.json"
    form = ExperimentRecord
    what = "an experiment"

    @staticmethod
    def name_of(record: ExperimentRecord) -> str:
        return record.name
