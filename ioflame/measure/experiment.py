"""The steps of an experiment in order, each a process of its own; what is done is noted, and not done again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from collectors.perf import with_dwarf
from ground.errors import UsageError
from ground.results.categories import read_categories
from ground.results.cells import Baseline
from ground.results.efficiency import Efficiency, MeasuredStep
from ground.results.experiment import ExperimentRecord, ExperimentRun, StepRecord
from ground.results.files import Files
from ground.results.record import RunRecord
from ground.results.run import Run, open_run
from ground.system.atomic_files import write_whole
from ground.system.process import Children
from ground.text.progress import Reporter
from ioflame.analysis.io_efficiency import efficiency
from ioflame.measure.baseline import look_at_requests, run_baseline
from ioflame.measure.estimate import plan_lines
from ioflame.measure.job import Job, new_record
from ioflame.measure.options import ProfileOptions
from ioflame.measure.profile import measure
from ioflame.measure.recorded import recorded
from viz.export.benchmark_tsv import render_report_tsv
from viz.terminal.experiment import render_efficiency
from workloads.experiment import Experiment, PlannedStep
from workloads.registry import engine_named

__all__ = ("analysed", "as_experiment", "conduct", "laid_out", "resumed", "with_callgraph", "write_tables")

# Threads of the steps that make the tree: whatever the users, all steps read the same tree.
WRITERS = 1


def as_experiment(options: ProfileOptions) -> ProfileOptions:
    """The options of its steps. UsageError for those that they name themselves."""
    if options.threads != 1:
        raise UsageError(
            f"THREADS={options.threads} has no effect on an experiment, whose steps run with each number of USERS",
            means="nothing was started",
            mend=f"USERS={options.threads}",
        )
    if options.workload != next(iter(engine_named(options.engine).workloads())):
        raise UsageError(
            f"WORKLOAD={options.workload} has no effect on an experiment, whose steps name their own",
            means="nothing was started",
            mend="leave WORKLOAD out, or name another experiment of `ioflame list`",
        )
    # The tables are of perf's shares; what else watches is for who asks for it, at the price of its windows.
    return replace(options, collect=tuple(dict.fromkeys(("perf", *(options.collect or ())))))


def laid_out(experiment: Experiment, planned: Sequence[PlannedStep], record: RunRecord, out: Path) -> ExperimentRun:
    """A new experiment in a directory of its own in `out`, nothing of it done. record: of a run of its job"""
    steps = [StepRecord(**vars(step)) for step in planned]
    return ExperimentRun.create(
        out,
        ExperimentRecord(
            experiment.name, experiment.about, record.created, record.options, record.host, record.tools, steps,
            orders=dict(experiment.orders),
        ),
    )  # fmt: skip


# What may be another when an experiment goes on: it changes no figure.
_FREE = ("out", "quiet")


def resumed(directory: Path, planned: list[PlannedStep], now: RunRecord) -> ExperimentRun:
    """The experiment in `directory`, if what is still to do can be put into one table with what is done."""
    going = ExperimentRun.open(directory)
    there = [(s.id, s.kind, s.step, s.users) for s in going.record.steps]
    if there != [(s.id, s.kind, s.step, s.users) for s in planned]:
        raise UsageError(
            f"{directory} was laid out with other steps, users or repeats",
            means="its steps and these cannot be put into one table",
            mend="the same NAME, USERS and REPEATS as then, or leave --resume out",
        )
    then = {**going.record.options, "engine version": going.record.tools.get("engine", "")}
    wanted = {**now.options, "engine version": now.tools.get("engine", "")}
    differing = sorted(n for n in then.keys() | wanted.keys() if n not in _FREE and then.get(n) != wanted.get(n))
    if differing:
        named = "; ".join(f"{n}: {then.get(n, 'not given')} then, {wanted.get(n, 'not given')} now" for n in differing)
        raise UsageError(
            f"{directory} was measured with other options: {named}",
            means="its steps and these cannot be put into one table",
            mend="the same options as then, or leave --resume out",
        )
    return going


def with_callgraph(job: Job, callgraph: str) -> Job:
    """The job with the call graphs of the profiles before it: tables put them side by side, so they are of one kind."""
    if not callgraph or job.options.callgraph != "auto":
        return job
    plan = job.plan
    if callgraph == "dwarf":
        plan = with_dwarf(plan, "DWARF unwinding as in the experiment's first profile")
    return replace(job, options=replace(job.options, callgraph=callgraph), plan=plan)


def conduct(job: Job, going: ExperimentRun, reporter: Reporter) -> None:
    """Runs the steps that are still to do, and says first what they will take. An interrupted one is not done."""
    _Conductor(job, going, reporter).conduct()


def analysed(going: ExperimentRun) -> Efficiency:
    """What a whole experiment found, from the runs of its measured steps."""
    measured = []
    for step in going.record.steps:
        if step.kind == "measure":
            directory = going.directory / step.directory
            run = open_run(directory)
            owner, leaf = read_categories(directory), read_categories(directory, "leaf")
            measured.append(MeasuredStep(step, run.record, owner, leaf, run.series()))
    return efficiency(going.record, measured)


def write_tables(going: ExperimentRun, found: Efficiency) -> None:
    """The tables of the experiment, as text and with tabs, into its directory."""
    text, table = render_efficiency(going.record, found), render_report_tsv(going.record, found.measured)
    write_whole(going.directory / Files.SUMMARY, text.encode("utf-8", "replace"))
    write_whole(going.directory / "summary.tsv", table.encode("utf-8", "replace"))


class _Conductor:
    """Runs the steps that are still to do."""

    def __init__(self, job: Job, going: ExperimentRun, reporter: Reporter) -> None:
        self._job = job
        self._going = going
        self._reporter = reporter
        self._database = job.database()

    def _announce(self) -> None:
        """What it will take, before anything is started."""
        job, steps = self._job, [s for s in self._going.record.steps if s.status != "done"]
        for line in plan_lines(
            job.engine, ((s.kind, s.step) for s in steps), job.sizing.shape, job.sizing.cache_size, job.duration,
            job.scale.warmup, len(job.collect),
        ):  # fmt: skip
            self._reporter.line(line)

    def conduct(self) -> None:
        self._announce()
        self._database.check()
        steps = self._going.record.steps
        tree: list[str] = []
        for number, step in enumerate(steps, start=1):
            if step.kind == "prepare":
                tree = [*tree, step.step]
            if step.status == "done":
                continue
            self._reporter.line(f"step {number} of {len(steps)}: {step.id}")
            step.started = time.time()
            self._one(step, tree)
            step.status, step.ended = "done", time.time()
            self._going.save()

    def _one(self, step: StepRecord, tree: list[str]) -> None:
        with Children() as children:
            if step.kind == "prepare":
                text = self._prepare(tree, children)
                step.writes = self._job.engine.parse_writes(
                    text, step.step, self._job.sizing.shape, WRITERS, self._job.db_dir
                )
                return
            if self._database.history != tree:
                self._prepare(tree, children)
            if step.kind == "baseline":
                step.baseline = self._baseline(step, children)
            else:
                self._measure(step, children)

    def _prepare(self, tree: list[str], children: Children) -> str:
        """Makes the tree what these steps make of it, from as far as it is already there; what the last one printed."""
        text = ""
        history = self._database.history
        done = len(history) if history == tree[: len(history)] and len(history) < len(tree) else 0
        for name in tree[done:]:
            log = self._going.directory / f"{name}.log"
            if name == "load":
                text = self._database.load(children, self._reporter, log)
            else:
                text = self._database.apply(name, WRITERS, children, self._reporter, log)
        return text

    def _baseline(self, step: StepRecord, children: Children) -> Baseline:
        record, directory = self._going.record, self._going.directory
        if record.request_bytes is None:
            record.request_bytes = look_at_requests(self._job, self._database, children, self._reporter, directory)
        return run_baseline(
            self._job, self._database, step.users, record.request_bytes, step.id, children, self._reporter, directory
        )

    def _measure(self, step: StepRecord, children: Children) -> None:
        job = with_callgraph(self._job.of(step.step, step.users), self._going.record.callgraph)
        record = new_record(job)
        record.expected.levels = step.levels
        run = Run.create(self._going.directory, record)
        self._database.seeds.clear()
        with recorded(run, children):
            measure(job, self._database, run, children, self._reporter, strict=False)
        step.directory = run.directory.name
        if run.record.profile is not None:
            self._going.record.callgraph = run.record.profile.callgraph
