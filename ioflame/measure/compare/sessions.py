"""One session: new processes of every arm, and the blocks that are measured with them.

frozen:  all arms are warm and alive, all but one are stopped (SIGSTOP)
process: one process is alive at a time, one for each window
duet:    both arms at once, each on half of the CPUs, the halves swapped from pair to pair
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from collectors.perf import copied_bytes
from ground.errors import IoflameError
from ground.results.comparison import Block, BlockWindow, ComparisonRun, Plan, Process, Session
from ground.results.run import Run
from ground.system.process import Children
from ground.text.progress import Reporter
from ground.text.titles import title_of
from ioflame.analysis.compare.order import SessionOrder
from ioflame.measure.compare.arm_process import ArmProcess, padding
from ioflame.measure.compare.relinked import Relinked
from ioflame.measure.compare.trees import Placed
from ioflame.measure.job import new_record
from ioflame.measure.study import with_callgraph

# Parts of all CPU time and of all bytes read; MiB a second.
BOUNDS = {"steal": 0.05, "foreign reads": 0.05, "writes": 1.0}
# Reads below this are nobody's workload: logs and the like.
_FEW_BYTES = 1 << 20
# Beyond what the windows of a session take by the clock: nobody waits for it, the processes are ended.
_LIFETIME_SPARE = 600


@dataclass
class SessionSetup:
    """Where a session is measured.

    callgraph: of all profiles, as the trials of the first session chose it; "" before
    repeats:   blocks that may still be repeated
    links:     of this session, where arms are linked anew; None where they are not
    """

    study: ComparisonRun
    placed: Placed
    reporter: Reporter
    callgraph: str
    repeats: int
    links: Relinked | None = None

    @property
    def plan(self) -> Plan:
        return self.study.record.plan


class SessionRun:
    """A session being measured: `measure` fills in its record; a block that was disturbed is repeated at the end."""

    def __init__(self, setup: SessionSetup, session: Session, order: SessionOrder) -> None:
        self.setup, self.session, self.order = setup, session, order
        self.started: list[ArmProcess] = []

    def measure(self) -> None:
        """Raises what ended it; what was measured until then is in the record, with its queries."""
        with Children() as children:
            try:
                self._measure(children)
            finally:
                for process in self.started:
                    process.fill_in()
        self.session.whole = True

    def profiled(self) -> list[Run]:
        """The runs in which an observer watched."""
        watched = self.setup.plan.collect
        return [one.run for one in self.started if any(window.kind in watched for window in one.run.record.windows)]

    def _measure(self, children: Children) -> None:
        raise NotImplementedError

    def blocks(self, measured: Callable[[tuple[str, ...], Block], None]) -> None:
        """Measures every block, and again those that were disturbed, by rules that see no query."""
        left = list(self.order.blocks)
        while left:
            order = left.pop(0)
            block = Block(list(order))
            self.session.blocks.append(block)
            number = f"{len(self.session.blocks)} of {len(self.session.blocks) + len(left)}"
            what = f"session {self.session.number}, block {number}: {' '.join(order)}"
            seconds = len(order) * (self.setup.plan.window_seconds + self.setup.plan.dropped_seconds)
            with self.setup.reporter.stage(what, seconds):
                measured(order, block)
            block.disturbed = passed_bounds(block, self.setup.plan.bounds)
            if block.disturbed and self.setup.repeats > 0:
                self.setup.repeats -= 1
                block.dropped = f"repeated: {block.disturbed}"
                left.append(order)
            self.setup.study.save()

    def start(self, name: str, children: Children, label: str = "") -> ArmProcess:
        """A process of the arm, warm."""
        setup, arm = self.setup, self.setup.placed.arms[name]
        if setup.links is not None:
            with self._named(name), setup.reporter.stage(f"session {self.session.number}: link {name}"):
                arm = setup.links.linked(arm)
        job = with_callgraph(arm.job, setup.callgraph)
        directory = setup.study.directory / f"s{self.session.number:02}{label}-{name}"
        directory.mkdir(0o700)
        run = Run(directory, new_record(job))
        run.save()
        process = Process(name, directory.name, padding(setup.plan.seed, self.session.number, name))
        self.session.processes.append(process)
        made = ArmProcess(replace(arm, job=job), run, process, children)
        with self._named(name), setup.reporter.stage(f"session {self.session.number}: start {name} and warm it up"):
            seeds = setup.placed.seeds.take_seeds(job.options.workload, job.options.threads)
            made.begin(seeds, setup.placed.trees[name], self._lifetime(job.scale.warmup))
            self.started.append(made)
            made.warm_up()
        return made

    def profile(self, process: ArmProcess) -> None:
        """The windows of the observers, which are kept apart from the plain ones."""
        plan = self.setup.plan
        if process.arm.twin_of or not plan.collect:
            return
        # All stacks of a comparison are made in one way: that which the arm needs whose frame pointers are least good.
        self.setup.callgraph = self.setup.callgraph or max((one.callgraph for one in self.started), key=copied_bytes)
        process.record_stacks_by(self.setup.callgraph)
        what = f"session {self.session.number}: profile {process.arm.name}: {', '.join(plan.collect)}"
        with self._named(process.arm.name), self.setup.reporter.stage(what, len(plan.collect) * plan.profile_seconds):
            process.schedule.rest(plan.dropped_seconds)
            for observer in plan.collect:
                process.observe(observer, plan.profile_seconds, optional=True)

    @contextlib.contextmanager
    def _named(self, arm: str) -> Iterator[None]:
        """Within: what goes wrong is said to have gone wrong with this arm."""
        try:
            yield
        except IoflameError as error:
            error.what = f"arm {arm}: {error.what}"
            raise

    def _lifetime(self, warmup: int) -> int:
        plan = self.setup.plan
        windows = sum(map(len, self.order.blocks)) * 2 * (plan.window_seconds + plan.dropped_seconds)
        observed = len(self.setup.placed.arms) * len(plan.collect) * (plan.profile_seconds + 10)
        return int(len(self.setup.placed.arms) * (warmup + 10) + windows + observed) + _LIFETIME_SPARE


class _Frozen(SessionRun):
    def _measure(self, children: Children) -> None:
        alive: dict[str, ArmProcess] = {}
        for name in self.order.start:
            alive[name] = self.start(name, children)
            alive[name].schedule.hold()

        def measured(order: tuple[str, ...], block: Block) -> None:
            for position, name in enumerate(order):
                with self._named(name), self._running(alive[name]):
                    alive[name].schedule.rest(self.setup.plan.dropped_seconds)
                    block.windows.append(alive[name].window(position, self.setup.plan.window_seconds))

        self.blocks(measured)
        for name in self.order.start:
            with self._running(alive[name]):
                self.profile(alive[name])
        for name in self.order.start:
            with self._named(name):
                alive[name].schedule.go_on()
                alive[name].finish()

    @contextlib.contextmanager
    def _running(self, process: ArmProcess) -> Iterator[None]:
        process.schedule.go_on()
        yield
        process.schedule.hold()


class _OneByOne(SessionRun):
    def _measure(self, children: Children) -> None:
        def measured(order: tuple[str, ...], block: Block) -> None:
            number = len(self.session.blocks)
            for position, name in enumerate(order):
                process = self.start(name, children, f"-{number:02}-{position}")
                with self._named(name):
                    block.windows.append(process.window(position, self.setup.plan.window_seconds))
                # Blocks are mirrored: each arm's second window of the last one is its last process of the session.
                if number == len(self.order.blocks) and position >= len(order) // 2:
                    self.profile(process)
                with self._named(name):
                    process.finish()

        self.blocks(measured)


class _Duet(SessionRun):
    def _measure(self, children: Children) -> None:
        alive = {name: self.start(name, children) for name in self.order.start}
        cpus = sorted(os.sched_getaffinity(0))
        halves = (cpus[: len(cpus) // 2], cpus[len(cpus) // 2 :])

        def measured(order: tuple[str, ...], block: Block) -> None:
            for first in range(0, len(order), len(halves)):
                pair = order[first : first + len(halves)]
                for name, half in zip(pair, halves, strict=True):
                    alive[name].hold_on(half)
                block.windows += self._together([(alive[name], first + position) for position, name in enumerate(pair)])

        self.blocks(measured)
        for name in self.order.start:
            alive[name].hold_on(cpus)
        for name in self.order.start:
            others = [alive[other] for other in self.order.start if other != name]
            for other in others:
                other.schedule.hold()
            self.profile(alive[name])
            for other in others:
                other.schedule.go_on()
        for name in self.order.start:
            with self._named(name):
                alive[name].finish()

    def _together(self, pair: Sequence[tuple[ArmProcess, int]]) -> list[BlockWindow]:
        """A window of each at the same time."""
        plan = self.setup.plan

        def window(process: ArmProcess, position: int) -> BlockWindow:
            with self._named(process.arm.name):
                process.schedule.rest(plan.dropped_seconds)
                return process.window(position, plan.window_seconds)

        with ThreadPoolExecutor(len(pair)) as pool:
            return [future.result() for future in [pool.submit(window, *one) for one in pair]]


def bounds_of(*, writes: bool) -> dict[str, float]:
    """writes: the workload does so itself; of one that reads alone, writes are a compaction that nobody asked for"""
    return {name: bound for name, bound in BOUNDS.items() if not (writes and name == "writes")}


def passed_bounds(block: Block, bounds: Mapping[str, float]) -> str:
    """`steal 7 % in window 2 (B)`: every bound that a window of the block passed; "" where none did."""
    return "; ".join(words for window in block.windows for words in _passed(window, bounds))


def _passed(slot: BlockWindow, bounds: Mapping[str, float]) -> Iterator[str]:
    counters, seconds = slot.window.counters, slot.window.seconds
    foreign = max(counters.storage_read_bytes - counters.process_read_bytes, 0)
    # Others' reads are nothing to a workload that reads nothing itself.
    matters = min(foreign, counters.process_read_bytes) > _FEW_BYTES * seconds
    seen = {
        "steal": counters.steal_ns / 1e9 / seconds / (os.cpu_count() or 1),
        "foreign reads": foreign / counters.storage_read_bytes if matters else 0.0,
    }
    where = f"in window {slot.position + 1} ({slot.arm})"
    for name, part in seen.items():
        if part > bounds.get(name, 1.0):
            yield f"{title_of(name)} {100 * part:.0f} % {where}"
    written = counters.process_write_bytes / 2**20 / seconds
    if written > bounds.get("writes", float("inf")):
        yield f"writes {written:.0f} MiB/s {where}"


SCHEDULES: dict[str, type[SessionRun]] = {"frozen": _Frozen, "process": _OneByOne, "duet": _Duet}
