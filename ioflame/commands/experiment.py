"""`ioflame experiment NAME`: the steps of an experiment in order, each a process of its own, resumable.

A step is noted as done once its result is on disk; `--resume DIR` goes on at the first that is not. A tree that an
interrupted step left behind is made again from the load before anything is measured on it.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path

from collectors.perf import with_dwarf
from ioflame.categories import read_categories
from ioflame.checks import Verdict, render_checks, worst
from ioflame.commands.baseline import look_at_requests, run_baseline
from ioflame.commands.job import Job, new_record, resolve
from ioflame.commands.measure import keep, measure
from ioflame.commands.plan import plan_lines
from ioflame.efficiency import MeasuredStep
from ioflame.errors import EXIT_CHECK_FAILED, EXIT_INTERRUPTED, EXIT_OK, IoflameError, UsageError
from ioflame.experiment import SCHEMA, Baseline, ExperimentRecord, ExperimentRun, StepRecord
from ioflame.files import Files
from ioflame.options import DEFAULT_WORKLOAD, add_profile_arguments, profile_options
from ioflame.process import Children, interruptible, tool_path
from ioflame.progress import Reporter, terminal_width
from ioflame.record import RunRecord
from ioflame.run import Run, open_run
from ioflame.whole import write_whole
from viz.efficiency import render_efficiency
from viz.report_tsv import render_report_tsv
from workloads.database import Database, locked
from workloads.experiment import PlannedStep, own_definitions, read_experiment
from workloads.registry import engine_named

__all__ = ("add_parser", "add_repetition", "counts", "run")


# Threads of the steps that make the tree: whatever the users, all steps read the same tree.
_WRITERS = 1


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("experiment", help="run an experiment and print its tables", description=__doc__)
    parser.add_argument("name", metavar="NAME", help="one of `ioflame list`, or a .toml file")
    add_repetition(parser)
    parser.add_argument("--resume", metavar="DIR", help="go on with the experiment in DIR (RESUME)")
    add_profile_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    reporter = Reporter(quiet=arguments.quiet)
    options = profile_options(arguments)
    if options.threads != 1:
        raise UsageError(
            f"THREADS={options.threads} says nothing to an experiment, whose steps run with each number of USERS",
            means="nothing was started",
            mend=f"USERS={options.threads}",
        )
    if options.workload != DEFAULT_WORKLOAD:
        raise UsageError(
            f"WORKLOAD={options.workload} says nothing to an experiment, whose steps name their own",
            means="nothing was started",
            mend="leave WORKLOAD out, or name another experiment of `ioflame list`",
        )
    # The tables are of perf's shares; what else watches is for who asks for it, at the price of its windows.
    collect = tuple(dict.fromkeys(("perf", *(options.collect or ()))))
    options = replace(options, collect=collect)
    users, repeats = counts("USERS", arguments.users), counts("REPEATS", arguments.repeats)
    with interruptible():
        engine = engine_named(options.engine, own_definitions(arguments.name))
        experiment = read_experiment(arguments.name, engine)
        if any(kind == "baseline" for kind, _, _ in experiment.steps):
            tool_path("fio", "fio")
        job = resolve(options, reporter, experiment.name, engine)
        planned = list(experiment.plan(users, repeats[0]))
        record = new_record(job)
        with locked(job.db_dir):
            if arguments.resume:
                going = _resumed(Path(arguments.resume).resolve(), planned, record)
            else:
                steps = [StepRecord(**vars(step)) for step in planned]
                going = ExperimentRun.create(
                    options.out,
                    ExperimentRecord(
                        SCHEMA, experiment.name, experiment.about, record.created, record.options,
                        record.host, record.tools, steps,
                    ),
                )  # fmt: skip
            return _Conductor(job, going, reporter).conduct()


def add_repetition(parser: argparse.ArgumentParser) -> None:
    """The options that say how often an experiment's steps are run."""
    parser.add_argument("--users", default="1", metavar="LIST", help='threads of each step, "1 6" (USERS)')
    parser.add_argument("--repeats", default="1", metavar="N", help="how often each step is measured (REPEATS)")


def counts(name: str, text: str) -> list[int]:
    """The numbers in `text`; UsageError naming the variable `name` where it is no list of numbers from 1 to 1024."""
    try:
        counts = [int(word) for word in text.replace(",", " ").split()]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1 or max(counts) > 1024:
        raise UsageError(f"{name}={text!r} is no list of numbers from 1 to 1024", means="nothing was started")
    return counts


# What may be another when an experiment goes on: it changes no figure.
_FREE = ("out", "quiet")


def _resumed(directory: Path, planned: list[PlannedStep], now: RunRecord) -> ExperimentRun:
    """The experiment in `directory`, if what is still to do can be put into one table with what is done."""
    going = ExperimentRun.open(directory)
    there = [(s.id, s.kind, s.step, s.users) for s in going.record.steps]
    if there != [(s.id, s.kind, s.step, s.users) for s in planned]:
        raise UsageError(
            f"{directory} was laid out with other steps, users or repeats",
            means="its steps and these cannot be put into one table",
            mend="the same NAME, USERS and REPEATS as then, or leave --resume out",
        )
    then = {**going.record.options, "RocksDB": going.record.tools.get("engine", "")}
    wanted = {**now.options, "RocksDB": now.tools.get("engine", "")}
    differing = sorted(n for n in then.keys() | wanted.keys() if n not in _FREE and then.get(n) != wanted.get(n))
    if differing:
        named = "; ".join(f"{n}: {then.get(n, 'not given')} then, {wanted.get(n, 'not given')} now" for n in differing)
        raise UsageError(
            f"{directory} was measured with other options: {named}",
            means="its steps and these cannot be put into one table",
            mend="the same options as then, or leave --resume out",
        )
    return going


def _with_callgraph(job: Job, callgraph: str) -> Job:
    """The job with the call graphs of the profiles before it: tables put them side by side, so they are of one kind."""
    if not callgraph or job.options.callgraph != "auto":
        return job
    plan = job.plan
    if callgraph == "dwarf":
        plan = with_dwarf(plan, "DWARF unwinding as in the experiment's first profile")
    return replace(job, options=replace(job.options, callgraph=callgraph), plan=plan)


class _Conductor:
    """Runs the steps that are still to do."""

    def __init__(self, job: Job, going: ExperimentRun, reporter: Reporter) -> None:
        self._job = job
        self._going = going
        self._reporter = reporter
        self._database = Database(job.engine, job.build, job.db_dir, job.sizing.shape, job.configuration.flags)

    def _announce(self) -> None:
        """What it will take, before anything is started."""
        job, steps = self._job, [s for s in self._going.record.steps if s.status != "done"]
        for line in plan_lines(
            job.engine, ((s.kind, s.step) for s in steps), job.sizing.shape, job.sizing.cache_size, job.duration,
            job.scale.warmup, len(job.collect),
        ):  # fmt: skip
            self._reporter.line(line)

    def conduct(self) -> int:
        self._announce()
        self._database.check()
        steps = self._going.record.steps
        tree: list[str] = []
        resume = f"--resume {shlex.quote(str(self._going.directory))}"
        try:
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
        except KeyboardInterrupt:
            self._reporter.warn("interrupted; every process started here was stopped")
            self._reporter.warn(f"to go on: the same command with {resume}")
            return EXIT_INTERRUPTED
        except IoflameError:
            self._reporter.warn(f"what is done is kept; go on by the same command with {resume}")
            raise
        return self._conclude()

    def _one(self, step: StepRecord, tree: list[str]) -> None:
        with Children() as children:
            if step.kind == "prepare":
                text = self._prepare(tree, children)
                step.writes = self._job.engine.parse_writes(
                    text, step.step, self._job.sizing.shape, _WRITERS, self._job.db_dir
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
        cache = self._job.sizing.cache_size
        history = self._database.history
        done = len(history) if history == tree[: len(history)] and len(history) < len(tree) else 0
        for name in tree[done:]:
            log = self._going.directory / f"{name}.log"
            if name == "load":
                text = self._database.load(children, self._reporter, log, cache)
            else:
                text = self._database.apply(name, _WRITERS, children, self._reporter, log, cache)
        return text

    def _baseline(self, step: StepRecord, children: Children) -> Baseline:
        record, directory = self._going.record, self._going.directory
        if record.request_bytes is None:
            record.request_bytes = look_at_requests(self._job, self._database, children, self._reporter, directory)
        return run_baseline(
            self._job, self._database, step.users, record.request_bytes, step.id, children, self._reporter, directory
        )

    def _measure(self, step: StepRecord, children: Children) -> None:
        job = _with_callgraph(self._job.of(step.step, step.users), self._going.record.callgraph)
        record = new_record(job)
        record.expected.levels = step.levels
        run = Run.create(self._going.directory, record)
        self._database.seeds.clear()
        try:
            measure(job, self._database, run, children, self._reporter, strict=False)
        except (KeyboardInterrupt, IoflameError) as error:
            children.__exit__()
            keep(run, children, str(error) or "interrupted")
            raise
        step.directory = run.directory.name
        if run.record.profile is not None:
            self._going.record.callgraph = run.record.profile.callgraph

    def _conclude(self) -> int:
        measured = []
        for step in self._going.record.steps:
            if step.kind == "measure":
                directory = self._going.directory / step.directory
                run = open_run(directory)
                owner, leaf = read_categories(directory), read_categories(directory, "leaf")
                measured.append(MeasuredStep(step, run.record, owner, leaf, run.series()))
        text = render_efficiency(self._going.record, measured)
        write_whole(self._going.directory / Files.SUMMARY, text.encode("utf-8", "replace"))
        table = render_report_tsv(self._going.record, measured)
        write_whole(self._going.directory / "summary.tsv", table.encode("utf-8", "replace"))
        width = terminal_width(sys.stdout)
        print(text if width is None else render_efficiency(self._going.record, measured, width))
        failed = [
            replace(check, name=f"{m.step.id} {check.name}")
            for m in measured
            for check in m.record.checks
            if check.verdict is Verdict.FAILED
        ]
        if failed:
            print("Failed checks\n" + render_checks(failed, width))
        print(f"experiment:   {self._going.directory}")
        return EXIT_CHECK_FAILED if worst(failed) is Verdict.FAILED else EXIT_OK
