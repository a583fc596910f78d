"""One process of one arm: started, warmed up, stopped and resumed, watched in windows, ended."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Sequence
from pathlib import Path

from collectors.counters import device_of
from collectors.perf import with_dwarf
from collectors.schedule import Schedule
from ground.errors import IoflameError
from ground.results.comparison import BlockWindow, Process
from ground.results.record import SeedRange, Unobserved
from ground.results.run import Run
from ground.system.process import Children
from ground.text.progress import Reporter
from ioflame.instruments import INSTRUMENTS
from ioflame.measure.compare.arms import PlannedArm
from ioflame.measure.job import describe_database
from ioflame.measure.jobs import clock_pair, note_jobs
from ioflame.measure.profile import choose_callgraph, query_report, roles_of
from ioflame.measure.recorded import commands_of
from workloads.artifact import loaded_libraries
from workloads.engine import Tree

# A page: what env and auxiliary vector move the stack by.
_MOST_PADDING = 4096
# Read by nobody; its length moves the stack, and with it what the caches of a CPU hold beside each other.
_PADDING = "IOFLAME_PADDING"


def padding(seed: int, session: int, arm: str) -> int:
    """By how many bytes the environment of an arm's process is made larger in a session, 0 to 4095."""
    return random.Random(f"{seed} {session} {arm}").randrange(_MOST_PADDING)


class ArmProcess:
    """A process of an arm on its tree, and its run directory.

    run:      what is kept of it; process: the same for the comparison's record
    children: that it is started in
    """

    def __init__(self, arm: PlannedArm, run: Run, process: Process, children: Children) -> None:
        self.arm, self.run, self.process = arm, run, process
        self._children = children
        # One line a block is enough: each window of each arm would be a flood of them.
        self._quiet = Reporter(quiet=True)
        self._slots: list[tuple[BlockWindow, int]] = []
        self._plan = arm.job.plan

    def start(self, seeds: SeedRange, tree: Tree, lifetime: int) -> None:
        """Starts it and returns when it sends queries. lifetime: seconds of queries, stopped time included"""
        job, run = self.arm.job, self.run
        self._began = clock_pair()
        run.record.database = describe_database(job, tree)
        run.record.seeds = [seeds]
        if job.engine.step(job.options.workload).creates:
            # Of the arm's own copy: our client overwrites no database.
            job.database().begin(job.options.workload)
        log, report = run.path(job.engine.log_name), run.path(job.engine.report_name)
        name = f"{job.engine.about.client} {job.options.workload}"
        # env and not the environment of what we start: a preloaded library is for the client alone.
        own = [f"{name}={value}" for name, value in self.arm.environment.items()]
        argv = job.command(seeds, report, lifetime, ["env", *own] if own else [])
        padded = {_PADDING: "x" * self.process.environment_bytes}
        self._child = self._children.start(name, argv, stdout=log, environment=padded)
        self._queries = query_report(job, report, log)
        self._schedule = Schedule(
            self._child, device_of(job.db_dir), self._queries, lifetime, log, self._quiet, roles_of(job)
        )
        self.pid = run.record.pid = self.process.pid = self._schedule.wait_until_reading()
        run.record.tools |= loaded_libraries(self.pid, job.build)
        run.save()

    def warm_up(self) -> None:
        """Until its cache is full and QPS is flat, or the scale's bound; then a trial of how its stacks are recorded,
        where that is not given."""
        job = self.arm.job

        def trial() -> None:
            if "perf" in job.collect and job.options.callgraph == "auto":
                self._plan = choose_callgraph(self._plan, self.pid, self.run, self._children, self._quiet)

        to_fill = 0 if job.configuration.cached_by_engine else job.sizing.cache_size
        self._schedule.warm_up(job.scale.warmup, to_fill, trial)

    @property
    def callgraph(self) -> str:
        return self._plan.callgraph

    def record_stacks_by(self, callgraph: str) -> None:
        if callgraph == "dwarf" != self._plan.callgraph:
            self._plan = with_dwarf(self._plan, "as all of the comparison")

    def hold_on(self, cpus: Sequence[int]) -> None:
        """Holds all its threads on these CPUs from now on."""
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(task.name), cpus)

    def hold(self) -> None:
        self._schedule.hold()

    def go_on(self) -> None:
        self._schedule.go_on()

    def rest(self, seconds: float) -> None:
        self._schedule.rest(seconds)

    def window(self, position: int, seconds: float) -> BlockWindow:
        """A plain window; its queries are known after the process has gone on from it, by `filled_in`."""
        self._schedule.plain(seconds)
        windows = self._schedule.windows()
        slot = BlockWindow(self.arm.name, position, windows[-1])
        self._slots.append((slot, len(windows) - 1))
        return slot

    def observe(self, name: str, seconds: float) -> None:
        """The window of an observer. If it fails and the process does not, the others continue."""
        watched = self.arm.job.watched(self.run, self._children, self.pid, self._plan)
        try:
            self._schedule.observed(INSTRUMENTS[name].observer(watched), seconds)
        except IoflameError as error:
            if not self._child.running:
                raise
            self.run.record.unobserved.append(Unobserved(name, error.what, error.mend, True))

    def fill_in(self) -> None:
        """Gives every window its queries, by what the engine has reported since; keeps all of it in the run."""
        windows, series = self._schedule.windows(), self._schedule.series()
        for slot, index in self._slots:
            slot.window = windows[index]
            first, last = slot.window.start_ns, slot.window.end_ns
            slot.seconds = [one for one in series if first <= one.start_ns and one.end_ns <= last]
        self.process.warm_up = next((window for window in windows if window.kind == "warm-up"), None)
        record = self.run.record
        record.roles = self._schedule.threads_by_role()
        record.report_start_ns = self._queries.started_ns
        record.commands = commands_of([self._child])
        self.run.save_windows(windows, series)

    def finish(self) -> None:
        """Waits for the report that covers the last window, keeps everything, and ends the process."""
        self._schedule.finish()
        self._child.stop()
        self.run.record.missing.clear()
        self.fill_in()
        if any(window.kind in self.arm.job.collect for window in self.run.record.windows):
            note_jobs(self.run, self.arm.job.engine, self.arm.job.db_dir, self._began)
