"""`ioflame experiment NAME`: the steps of an experiment in order, each a process of its own, resumable.

A step is noted as done once its result is on disk; `--resume DIR` goes on at the first that is not. A tree that an
interrupted step left behind is made again from the load before anything is measured on it.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

from collectors.counters import device_of, read_counts
from ioflame.checks import Verdict, render_checks, worst
from ioflame.commands.job import Job, describe_database, new_record, resolve
from ioflame.commands.measure import keep, measure
from ioflame.errors import EXIT_CHECK_FAILED, EXIT_INTERRUPTED, EXIT_OK, IoflameError, MeasurementError, UsageError
from ioflame.experiment import SCHEMA, Baseline, ExperimentRecord, ExperimentRun, StepRecord
from ioflame.options import add_profile_arguments, profile_options
from ioflame.process import Child, Children, interruptible
from ioflame.progress import Reporter, terminal_width
from ioflame.proofs import bloom_proof, tree_proofs
from ioflame.run import Files, Run, open_run, read_categories
from ioflame.sizes import format_bytes, format_seconds
from viz.efficiency import MeasuredStep, render_efficiency
from viz.report_tsv import render_report_tsv
from workloads.database import Database, locked
from workloads.experiment import PlannedStep, read_experiment
from workloads.fio import fio_argv, parse_fio
from workloads.registry import engine_named

__all__ = ("add_parser", "run")

_BASELINE_SECONDS_AT_MOST = 60
_WITHOUT_FILTERS = "readrandom3"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("experiment", help="run an experiment and print its tables", description=__doc__)
    parser.add_argument("name", metavar="NAME", help="one of `ioflame list`, or a .toml file")
    parser.add_argument("--users", default="1", metavar="LIST", help='threads of each step, "1 6" (USERS)')
    parser.add_argument("--repeats", default="1", metavar="N", help="how often each step is measured (REPEATS)")
    parser.add_argument("--resume", metavar="DIR", help="go on with the experiment in DIR (RESUME)")
    add_profile_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    reporter = Reporter(quiet=arguments.quiet)
    options = profile_options(arguments)
    users, repeats = _counts("USERS", arguments.users), _counts("REPEATS", arguments.repeats)
    with interruptible():
        experiment = read_experiment(arguments.name, engine_named(options.engine))
        job = resolve(options, reporter, purpose=experiment.name)
        planned = list(experiment.plan(users, repeats[0]))
        with locked(job.db_dir):
            if arguments.resume:
                going = _resumed(Path(arguments.resume).resolve(), planned)
            else:
                record = new_record(job)
                steps = [StepRecord(**vars(step)) for step in planned]
                going = ExperimentRun.create(
                    options.out,
                    ExperimentRecord(
                        SCHEMA, experiment.name, experiment.about, record.created, record.options,
                        record.host, record.tools, steps,
                    ),
                )  # fmt: skip
            return _Conductor(job, going, reporter).conduct()


def _counts(name: str, text: str) -> list[int]:
    try:
        counts = [int(word) for word in text.replace(",", " ").split()]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1 or max(counts) > 1024:
        raise UsageError(f"{name}={text!r} is no list of numbers from 1 to 1024", means="nothing was started")
    return counts


def _resumed(directory: Path, planned: list[PlannedStep]) -> ExperimentRun:
    going = ExperimentRun.open(directory)
    there = [(s.id, s.kind, s.step, s.users) for s in going.record.steps]
    if there != [(s.id, s.kind, s.step, s.users) for s in planned]:
        raise UsageError(
            f"{directory} was laid out with other steps, users or repeats",
            means="its steps and these cannot be put into one table",
            mend="the same NAME, USERS and REPEATS as then, or leave --resume out",
        )
    return going


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
        shape = job.sizing.shape
        seconds = {
            "prepare": 12 + shape.disk_bytes / (100 << 20),
            "baseline": 3 + min(job.duration, _BASELINE_SECONDS_AT_MOST),
            "measure": 25 + job.scale.warmup / 2 + 3 * job.duration,
        }
        total = sum(seconds[step.kind] for step in steps)
        self._reporter.line(
            f"{len(steps)} steps, about {format_seconds(total)}; "
            f"{format_bytes(shape.disk_bytes)} of disk in {job.db_dir}"
        )

    def conduct(self) -> int:
        self._announce()
        self._database.check()
        steps = self._going.record.steps
        tree: list[str] = []
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
            self._reporter.warn(f"to go on: the same command with --resume {self._going.directory}")
            return EXIT_INTERRUPTED
        except IoflameError:
            self._reporter.warn(
                f"what is done is kept; go on by the same command with --resume {self._going.directory}"
            )
            raise
        return self._conclude()

    def _one(self, step: StepRecord, tree: list[str]) -> None:
        with Children() as children:
            if step.kind == "prepare":
                self._prepare(tree, children)
                return
            if self._database.history != tree:
                self._prepare(tree, children)
            if step.kind == "baseline":
                step.baseline = self._baseline(step, children)
            else:
                self._measure(step, children)

    def _prepare(self, tree: list[str], children: Children) -> None:
        """Makes the tree what these steps make of it, from as far as it is already there."""
        cache = self._job.sizing.cache_size
        history = self._database.history
        done = len(history) if history == tree[: len(history)] and len(history) < len(tree) else 0
        for name in tree[done:]:
            log = self._going.directory / f"{name}.log"
            if name == "load":
                self._database.load(children, self._reporter, log, cache)
            else:
                self._database.apply(name, 1, children, self._reporter, log, cache)

    def _baseline(self, step: StepRecord, children: Children) -> Baseline:
        seconds = min(self._job.duration, _BASELINE_SECONDS_AT_MOST)
        seeds = self._database.take_seeds(step.id, step.users)
        argv = fio_argv(self._job.db_dir, step.users, seconds, self._job.sizing.shape.block_size, seeds.first)
        out, log = self._going.directory / f"{step.id}.json", self._going.directory / f"{step.id}.log"
        device = device_of(self._job.db_dir)
        before = read_counts(device)
        with self._reporter.stage(f"fio, {step.users} users", seconds + 2):
            child = children.add(Child("fio", argv, stdout=out, stderr=log))
            code = child.wait(seconds + 120)
            if code is None:
                child.stop()
        reads, sectors, read_ms = (b - a for a, b in zip(before, read_counts(device), strict=True))
        if code != 0:
            words = log.read_text(errors="replace").strip()[-500:]
            raise MeasurementError(f"fio ended with {child.describe_end()}: {words}", mend=f"read {log}")
        result = parse_fio(out.read_text(), step.users)
        return Baseline(
            result.iops, result.reads, result.us_per, result.sy_per, result.lat_us,
            io_lat=read_ms * 1e3 / reads if reads else 0.0,
            reqsz=sectors * 512 / reads / 1024 if reads else 0.0,
        )  # fmt: skip

    def _measure(self, step: StepRecord, children: Children) -> None:
        job = self._job.of(step.step, step.users)
        run = Run.create(self._going.directory, new_record(job))
        try:
            measure(job, self._database, run, children, self._reporter)
        except (KeyboardInterrupt, IoflameError) as error:
            children.__exit__()
            keep(run, children, str(error) or "interrupted")
            raise
        levels = self._database.levels(children, self._reporter, run.path("levels.log"), job.sizing.cache_size)
        after = describe_database(job, levels)["levels"]
        log = run.path(Files.ENGINE_LOG).read_text(errors="replace")
        proofs = list(tree_proofs(run.record.database["levels"], after, step.levels, log, run.record.windows))
        if step.step == _WITHOUT_FILTERS and run.path(Files.CATEGORIES).exists():
            proofs.append(bloom_proof(read_categories(run.directory).rows))
        run.record.checks += proofs
        run.save()
        step.directory = run.directory.name

    def _conclude(self) -> int:
        measured = []
        for step in self._going.record.steps:
            if step.kind == "measure":
                directory = self._going.directory / step.directory
                measured.append(
                    MeasuredStep(
                        step, open_run(directory).record, read_categories(directory), read_categories(directory, "leaf")
                    )
                )
        text = render_efficiency(self._going.record, measured)
        (self._going.directory / Files.SUMMARY).write_text(text)
        (self._going.directory / "summary.tsv").write_text(render_report_tsv(measured))
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
