"""Runs an experiment of cells, each run in a database of its own; what is done is kept, and not done again."""

from __future__ import annotations

import itertools
import os
import shutil
import time
from contextlib import nullcontext
from pathlib import Path

from ground.errors import IoflameError, MeasurementError
from ground.results.cells import CellOutcome, CellsRun
from ground.system.process import Children
from ground.text.progress import Reporter
from ground.text.units import format_seconds
from ioflame.measure.experiment.job import CellsJob, database_of, loads, workload_job
from ioflame.measure.experiment.steps import baseline_step, command_step, measure_step, read_by_children
from ioflame.measure.jobs import job_figures
from ioflame.measure.study import on_record
from workloads.cells import BASELINE, COMMAND, CellRun
from workloads.database import Database, locked
from workloads.scales import Sizing


def conduct_cells(job: CellsJob, study: CellsRun, reporter: Reporter) -> None:
    """Runs what is not done. A failed cell is noted with the reason, and the others continue; a full disk ends it."""
    record = study.record
    ended = {(one.cell, one.turn) for one in record.runs if one.status in ("done", "left out")}
    if job.announced:
        for line in job.estimate(ended):
            reporter.line(line)
    began, planned = time.monotonic(), _seconds(job, ended)
    for number, (run, outcome) in enumerate(zip(job.plan(), record.runs, strict=True), start=1):
        key = (run.cell.name, run.turn)
        if key in ended:
            continue
        left = _seconds(job, ended)
        if left < planned:
            left *= (time.monotonic() - began) / (planned - left)
        about = f"about {format_seconds(round(left))} left"
        reporter.line(f"run {number} of {len(record.runs)}, {about}: {run.cell.name}, round {run.round}")
        ended.add(key)
        with on_record(study, outcome):
            try:
                outcome.figures, outcome.runs, outcome.amiss, outcome.baselines = {}, {}, [], []
                outcome.commands = _run(job, run, outcome, study, reporter)
                outcome.status, outcome.why = "done", ""
            except IoflameError as error:
                outcome.status, outcome.why = "failed", error.what.splitlines()[0]
                if not isinstance(error, MeasurementError):
                    raise
                reporter.warn(f"{run.cell.name}: {error.what}")


def _seconds(job: CellsJob, ended: set[tuple[str, int]]) -> float:
    return sum(seconds for _, seconds in job.steps_left(ended))


def _run(job: CellsJob, run: CellRun, outcome: CellOutcome, study: CellsRun, reporter: Reporter) -> list[list[str]]:
    """Runs the steps of a cell, its figures go into the outcome, each called after its step; its command lines."""
    directory, engine, out = job.directory(run.cell), job.engine_of(run.cell), study.directory
    written = 0.0
    # A grown database is the whole experiment's, and locked as long.
    with nullcontext() if job.grows else locked(directory), Children() as children:
        database = _ready(job, run, directory, children, reporter, out)
        try:
            for step in job.cells.steps_of(run.cell):
                database = database_of(job, run, directory, step)
                log, begun = out / f"{run.cell.name}-{run.turn}-{step}.log", time.time()
                before = read_by_children()
                if step == COMMAND:
                    found, argv = command_step(job, run, outcome, study, log, reporter)
                    outcome.figures |= {f"{at}.{name}": value for at in (step, "last") for name, value in found.items()}
                    return [argv]
                if step == BASELINE:
                    read = workload_job(job, run, database, engine.about.block_reads)
                    name = f"{run.cell.name}-{run.turn}-{step}-{len(outcome.baselines) + 1}"
                    outcome.figures |= baseline_step(read, database, name, outcome, study, children, reporter)
                    continue
                if step in engine.workloads():
                    own = measure_step(workload_job(job, run, database, step), database, _run_name(out, run, step),
                                       run.cell.levels, outcome, study.record.callgraphs, reporter)  # fmt: skip
                elif loads(engine, step):
                    text = database.load(children, reporter, log, step)
                    own = engine.figures(text, step, directory)
                else:
                    text = database.apply(step, job.threads(run.cell, step), children, reporter, log)
                    own = engine.figures(text, step, directory)
                own |= {"read_kib": (read_by_children() - before) / 1024, "num_keys": database.shape.num_keys,
                        "entry_bytes": database.shape.key_size + database.shape.value_size,
                        "du_kib": sum(entry.stat().st_blocks for entry in os.scandir(directory)) // 2}  # fmt: skip
                if step not in engine.workloads():
                    own |= job_figures(engine, directory, begun, own.get("puts", 0.0))
                # Half of what is written beside reads was there when the mean read came.
                share = 0.5 if engine.step(step).write_rate else 1.0
                own["keys_written"] = written + share * own.get("puts", 0.0)
                written += own.get("puts", 0.0)
                outcome.figures |= {f"{at}.{name}": value for at in (step, "last") for name, value in own.items()}
        finally:
            _keep_own_log(engine.own_log, directory, out / f"{run.cell.name}-{run.turn}.LOG")
            if not job.shares:
                database.remove()
    if not job.shares:
        shutil.rmtree(directory, ignore_errors=True)
    return [child.argv for child in children]


def _ready(job: CellsJob, run: CellRun, directory: Path, children: Children, reporter: Reporter, out: Path) -> Database:
    """The database of a cell: nothing yet where it is the cell's own, loaded where all share it."""
    database = database_of(job, run, directory)
    if not job.shares:
        # What an interrupted run left is of no use to this one.
        database.remove()
        return database
    if job.grows:
        database.check()
        tree, there = job.cells.tree_before(run.cell), database.history
        # The steps that its history already has are kept; what an interrupted step left is rebuilt from the load.
        done = len(there) if there == tree[: len(there)] else 0
        for step in tree[done:]:
            log = out / f"again-{step}.log"
            if step == "load":
                database.load(children, reporter, log)
            else:
                database.apply(step, job.threads(run.cell, step), children, reporter, log)
        return database
    # By no cell's flags, and so with O_DIRECT: it leaves nothing in the page cache.
    plain = Database(job.engine, job.build, directory, Sizing(database.shape, job.scale.cache_size))
    if not plain.check():
        plain.load(children, reporter, out / "load.log")
    return database


def _run_name(out: Path, run: CellRun, step: str) -> Path:
    """A new directory for a measured step; one that an interrupted run left stays unchanged."""
    stem = f"{run.cell.name}-{run.turn}-{step}"
    return next(path for n in itertools.count(1) if not (path := out / (stem if n == 1 else f"{stem}-{n}")).exists())


def _keep_own_log(name: str, directory: Path, to: Path) -> None:
    if name and (directory / name).is_file():
        shutil.copyfile(directory / name, to)
