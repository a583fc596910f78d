"""What a comparison is asked for; every value is checked before there is one of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ioflame.measure.options import ProfileOptions
from workloads.engines.rocksdb.command_line import BenchCommand


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
