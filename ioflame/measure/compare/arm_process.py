"""One process of one arm: started, warmed up, stopped and resumed, watched in windows, ended."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Sequence
from pathlib import Path

from collectors.perf import with_dwarf
from ground.results.comparison import BlockWindow, Process
from ground.results.record import SeedRange
from ground.results.run import Run
from ground.system.process import Children
from ground.text.progress import Reporter
from ioflame.measure.compare.arms import PlannedArm
from ioflame.measure.job import describe_database
from ioflame.measure.jobs import note_jobs
from ioflame.measure.profile import Workload
from ioflame.measure.recorded import commands_of
from workloads.engine import Tree

# A page: what env and auxiliary vector move the stack by.
_MOST_PADDING = 4096
# Read by nobody; its length moves the stack, and with it what the caches of a CPU hold beside each other.
_PADDING = "IOFLAME_PADDING"


def padding(seed: int, session: int, arm: str) -> int:
    """By how many bytes the environment of an arm's process is made larger in a session, 0 to 4095."""
    return random.Random(f"{seed} {session} {arm}").randrange(_MOST_PADDING)


class ArmProcess(Workload):
    """A process of an arm on its tree, and its run directory.

    run:      what is kept of it; process: the same for the comparison's record
    children: that it is started in
    """

    def __init__(self, arm: PlannedArm, run: Run, process: Process, children: Children) -> None:
        # One line a block is enough: each window of each arm would be a flood of them.
        super().__init__(arm.job, run, children, Reporter(quiet=True))
        self.arm, self.process = arm, process
        self._slots: list[tuple[BlockWindow, int]] = []

    def begin(self, seeds: SeedRange, tree: Tree, lifetime: int) -> None:
        """Starts it and returns when it sends queries. lifetime: seconds of queries, stopped time included"""
        job, run = self.job, self.run
        run.record.database = describe_database(job, tree)
        run.record.seeds = [seeds]
        if job.engine.step(job.options.workload).creates:
            # Of the arm's own copy: our client overwrites no database.
            job.database().begin(job.options.workload)
        # env and not the environment of what we start: a preloaded library is for the client alone.
        own = [f"{name}={value}" for name, value in self.arm.environment.items()]
        argv = job.command(seeds.first, run.path(job.engine.report_name), lifetime, ["env", *own] if own else [])
        self.start(argv, lifetime, {_PADDING: "x" * self.process.environment_bytes})
        self.wait_until_reading()
        self.process.pid = run.record.pid
        run.save()

    @property
    def callgraph(self) -> str:
        return self._plan.callgraph

    def record_stacks_by(self, callgraph: str) -> None:
        if callgraph != self._plan.callgraph:
            self._plan = with_dwarf(self._plan, "as all of the comparison", callgraph)

    def hold_on(self, cpus: Sequence[int]) -> None:
        """Holds all its threads on these CPUs from now on."""
        for task in Path(f"/proc/{self.run.record.pid}/task").iterdir():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(task.name), cpus)

    def window(self, position: int, seconds: float) -> BlockWindow:
        """A plain window; its queries are known after the process has gone on from it, by `fill_in`."""
        self.plain(seconds)
        windows = self.schedule.windows()
        slot = BlockWindow(self.arm.name, position, windows[-1])
        self._slots.append((slot, len(windows) - 1))
        return slot

    def fill_in(self) -> None:
        """Gives every window its queries, by what the engine has reported since; keeps all of it in the run."""
        windows, series = self.schedule.windows(), self.schedule.series()
        for slot, index in self._slots:
            slot.window = windows[index]
            first, last = slot.window.start_ns, slot.window.end_ns
            slot.seconds = [one for one in series if first <= one.start_ns and one.end_ns <= last]
        self.process.warm_up = next((window for window in windows if window.kind == "warm-up"), None)
        self.run.record.commands = commands_of([self.child])
        self.keep()

    def finish(self) -> None:
        """Waits for the report that covers the last window, keeps everything, and ends the process."""
        self.schedule.finish()
        self.child.stop()
        self.run.record.missing.clear()
        self.fill_in()
        if any(window.kind in self.job.collect for window in self.run.record.windows):
            note_jobs(self.run, self.job.engine, self.job.db_dir, self.began)
