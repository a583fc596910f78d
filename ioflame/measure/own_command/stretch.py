"""What of a command is watched as one run, and how long it still lasts."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from collectors.report_phases import ReportedPhase
from ground.system.held_process import HeldProcess
from ground.system.target import Target
from ioflame.measure.attach.benchmarks import Benchmark
from workloads.engines.rocksdb.command_line import BenchCommand


@dataclass(frozen=True)
class Stretch:
    """What is watched as one run: of `process`, called `name`.

    bench: where it is a db_bench's; left: seconds until its end, infinite where that is not known
    lasts: it was asked to run so long
    """

    process: HeldProcess
    target: Target
    name: str
    bench: Benchmark | None
    left: Callable[[], float]
    lasts: bool = False


def seconds_left(bench: BenchCommand, name: str, phase: ReportedPhase) -> float:
    """Until a benchmark ends: by its duration, or by its number of operations at its rate of now."""
    with contextlib.suppress(ZeroDivisionError):
        seconds = bench.seconds(name)
        if seconds is None:
            return max((bench.operations(name) - phase.operations) / phase.rate, 0.0)
        begun = phase.report.started_ns
        done = (time.monotonic_ns() - begun) / 1e9 if begun is not None else len(phase.report.rates) * bench.interval
        return seconds - done
    return math.inf
