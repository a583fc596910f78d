"""Runs of our client at one rate after another, each a process of its own on the same database."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ground.errors import MeasurementError, RefusedError
from ground.results.sweep import PERCENTILES, Offered, SweepRecord, SweepRun
from ground.settings import Setting
from ground.system.host import host_facts
from ground.system.proc_stat import stat_fields
from ground.system.process import Child, Children
from ground.text.progress import Reporter
from ioflame import __version__
from ioflame.analysis.knee import next_rate
from ioflame.measure.job import Planned, describe_database
from workloads.database import Database
from workloads.engine import Engine
from workloads.our_client import closing_lines

# Of a run, beside its seconds: opening the database, and closing it.
_SLACK_SECONDS = 120
_LOOK_SECONDS = 0.05
_LOG_END = 400
_TWICE = 2
# utime and stime, among the fields from the third on.
_USER_AND_SYSTEM = (11, 12)


@dataclass(frozen=True)
class SweepOptions:
    """percentile, limit_us: as `SweepRecord` has them; runs: rates at most; seconds: of each, and of its warm-up"""

    percentile: str
    limit_us: float | None
    runs: int
    seconds: int
    arrivals: str


def check_swept(engine: Engine, workload: str) -> None:
    """UsageError for a workload without queries that could come at a rate."""
    step = engine.step(workload)
    if step.creates or (step.changing and not step.write_rate):
        reading = [name for name, one in engine.workloads().items() if not one.changing or one.write_rate]
        raise RefusedError(
            f"{Setting.WORKLOAD.to(workload)} only writes, and a sweep is of queries",
            mend=Setting.WORKLOAD.to("|".join(reading)),
        )


def sweep(what: Planned, options: SweepOptions, database: Database, directory: Path, reporter: Reporter) -> None:
    """Loads the database where it is not there, runs, and leaves its record after each run.

    MeasurementError where the client fails; the runs before it are kept.
    """
    workload = what.options.workload
    with Children() as children:
        if not database.check():
            database.load(children, reporter, directory / "load.log")
        tree = database.settle(children, reporter, directory / "settle.log")
        run = _Runs(what, options, database, directory, children)
        with reporter.stage(f"{workload} without a rate", 2 * options.seconds):
            closed = run.at(None)
        record = SweepRecord(
            __version__, time.strftime("%Y-%m-%dT%H:%M:%S%z"), what.engine.name, what.build.version, workload,
            what.options.threads, options.arrivals, options.percentile, options.limit_us, closed,
            database=describe_database(what, tree).description or "", command=" ".join(run.argv), host=host_facts(),
        )  # fmt: skip
        study = SweepRun(directory, record)
        study.save()
        for _ in range(options.runs):
            rate = next_rate(closed, record.offered, options.percentile, options.limit_us)
            if rate is None:
                break
            with reporter.stage(f"{workload} at {rate:,.0f} a second", 2 * options.seconds):
                record.offered.append(run.at(rate))
            record.command = " ".join(run.argv)
            study.save()


@dataclass
class _Runs:
    """argv: of the last run"""

    what: Planned
    options: SweepOptions
    database: Database
    directory: Path
    children: Children
    argv: Sequence[str] = ()
    number: int = 0

    def at(self, rate: float | None) -> Offered:
        """The benchmark twice in one process: the first fills caches, the second is measured."""
        self.number += 1
        log = self.directory / f"run-{self.number:02}.log"
        workload, threads = self.what.options.workload, self.what.options.threads
        seeds = self.database.take_seeds(workload, threads)
        self.database.take_seeds(workload, threads)  # Of the second.
        report = self.directory / f"run-{self.number:02}.csv"
        benchmark = self.what.engine.step(workload).benchmarks.partition(",")[0]
        words = self.what.command(seeds.first, report, self.options.seconds)
        at_rate = [f"--benchmark_read_rate_limit={rate:.0f}", f"--arrivals={self.options.arrivals}"] if rate else []
        twice = f"--benchmarks={benchmark},{benchmark}"
        self.argv = [*(twice if word.startswith("--benchmarks=") else word for word in words), *at_rate]
        child = self.children.start(f"sweep {workload}", self.argv, stdout=log)
        cpu = _cpu_of_the_second(child, log, benchmark, _SLACK_SECONDS + 2 * self.options.seconds)
        text = log.read_text(encoding="utf-8", errors="replace")
        if child.returncode or len(closing_lines(text, benchmark)) < _TWICE:
            ended = child.describe_end() if child.returncode is not None else "it did not end in time"
            child.stop()
            at = f" at {rate:,.0f} a second" if rate else ""
            raise MeasurementError(f"{workload}{at}: {ended}; its output: {text[-_LOG_END:].strip()}")
        return offered_of(closing_lines(text, benchmark)[-1], rate, cpu)


def _cpu_of_the_second(child: Child, log: Path, benchmark: str, seconds: float) -> float:
    """Seconds of CPU between the end of the first and that of the process, to a look."""
    before = last = 0.0
    deadline = time.monotonic() + seconds
    while child.wait(_LOOK_SECONDS) is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            last = _cpu_seconds(child.pid)
        if not before and closing_lines(log.read_text(encoding="utf-8", errors="replace"), benchmark):
            before = last
    return last - before


def _cpu_seconds(pid: int) -> float:
    fields = stat_fields(f"/proc/{pid}/stat")
    return sum(int(fields[at]) for at in _USER_AND_SYSTEM) / os.sysconf("SC_CLK_TCK")


def offered_of(closing: Mapping[str, Any], rate: float | None, cpu_seconds: float) -> Offered:
    """Of the readers; several kinds of query, as of mixgraph, have no percentile in common: the worst of each."""
    role = closing["roles"]["readers"]
    by_kind = list(role.get("latency_from_schedule_us", role["latency_from_call_us"]).values())
    overloaded = bool(role.get("overloaded"))
    latency = {} if overloaded else {name: max(float(one[name]) for one in by_kind) for name in PERCENTILES}
    operations = int(role["operations"])
    return Offered(
        rate,
        float(role["ops_per_second"]),
        operations,
        float(closing["seconds"]),
        latency,
        late=float(role["late_us"]["p99"]) if "late_us" in role else 0.0,
        cpu=cpu_seconds * 1e6 / operations if operations else 0.0,
        overloaded=overloaded,
    )
