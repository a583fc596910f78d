"""What a comparison is asked for, and its arms as they can be run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ground.results.comparison import Arm
from ground.results.record import RunRecord
from ioflame.measure.job import Job
from ioflame.measure.options import ProfileOptions
from workloads.engines.rocksdb.command_line import BenchCommand
from workloads.releases import version_number

# Of the copy of the base that is measured as a negative control.
TWIN = "twin"


@dataclass(frozen=True)
class AskedArm:
    """An arm as asked for.

    options:     of its profile: its client and whichever of them is the factor
    environment: variables of its own
    flags:       of the client, over those of the workload: of a factor that is none of the options
    bench:       its whole command line, where it was given as one
    """

    name: str
    value: str
    options: ProfileOptions
    environment: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)
    bench: BenchCommand | None = None


@dataclass(frozen=True)
class CompareOptions:
    """arms: the base first; factor: what is meant to differ; schedule, tree: "" for the choice by what is read.

    null:     the same client twice
    delta:    the smallest difference that matters, as a part
    sessions: the most; blocks: of a session; None for the default
    time:     seconds that it may take; None without a limit
    seed:     None for a new one
    relink:   the command that links an arm anew, for each session; "" for none
    """

    arms: tuple[AskedArm, ...]
    factor: str
    null: bool = False
    schedule: str = ""
    tree: str = ""
    delta: float = 0.02
    sessions: int = 16
    blocks: int | None = None
    time: float | None = None
    seed: int | None = None
    twin: bool = True
    relink: str = ""

    @property
    def base(self) -> AskedArm:
        return self.arms[0]


@dataclass(frozen=True)
class PlannedArm:
    """An arm that can be run. record: of a run of it that has measured nothing yet."""

    name: str
    value: str
    job: Job
    environment: dict[str, str]
    record: RunRecord
    twin_of: str = ""

    def recorded(self) -> Arm:
        return Arm(
            self.name, self.value, self.job.options.threads, self.twin_of, dict(self.environment),
            self.record.options, self.record.tools,
        )  # fmt: skip

    @property
    def identity(self) -> object:
        """What it is, wherever its files are: two arms of one identity do not differ."""
        settings = replace(self.job.options, db_bench=None, library=None)
        artifact, flags = self.record.tools["engine_artifact"], self.job.configuration.flags
        return artifact, self.environment, settings, flags, self.job.sizing.shape


def oldest(arms: Sequence[PlannedArm]) -> PlannedArm:
    """The one whose engine is of the lowest version: what it writes the others can read."""
    return min(arms, key=lambda arm: version_number(arm.job.build.version))
