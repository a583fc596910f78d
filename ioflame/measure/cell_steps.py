"""A step of a cell that is a workload: measured window by window, as `ioflame profile` does, in a run of its own."""

from __future__ import annotations

from pathlib import Path

from ground.results.categories import read_categories, views_in
from ground.results.cells import CellOutcome
from ground.results.checks import Verdict
from ground.results.files import Files
from ground.results.pmp import read_locks
from ground.results.run import Run
from ground.system.process import Children
from ground.text.progress import Reporter
from ioflame.analysis.run_figures import run_figures
from ioflame.measure.experiment import with_callgraph
from ioflame.measure.job import Job, new_record
from ioflame.measure.profile import measure
from ioflame.measure.recorded import recorded
from workloads.database import Database

__all__ = ("measure_step",)


def measure_step(
    job: Job, database: Database, directory: Path, outcome: CellOutcome, callgraphs: dict[str, str], reporter: Reporter
) -> dict[str, float]:
    """Measures the job into `directory`, which is new; its figures. Where it lies and what is amiss is in `outcome`.

    callgraphs: by step, those of the profiles before it; the first of a step is noted there
    """
    step = job.options.workload
    job = with_callgraph(job, callgraphs.get(step, ""))
    directory.mkdir(0o700)
    run = Run(directory, new_record(job))
    run.save()
    outcome.runs[step] = directory.name
    with recorded(run, Children()) as children:
        measure(job, database, run, children, reporter, strict=False)
    if run.record.profile is not None:
        callgraphs.setdefault(step, run.record.profile.callgraph)
    outcome.amiss += [
        f"{step}: {check.name}: {check.value}" for check in run.record.checks if check.verdict is Verdict.FAILED
    ]
    locks = read_locks(directory) if (directory / Files.LOCKS).exists() else None
    log = (directory / job.engine.log_name).read_text(encoding="utf-8", errors="replace")
    views = {view: read_categories(directory, view) for view in views_in(directory)}
    # The engine's own log is another process's by now.
    stated = job.engine.figures(log, step, directory)
    files = sum(path.stat().st_size for path in job.db_dir.glob(job.engine.about.data_files))
    argv = next(one.argv for one in run.record.commands if one.pid == run.record.pid)
    return {**stated, **run_figures(run.record, views, locks), **job.engine.predicted(argv, files)}
