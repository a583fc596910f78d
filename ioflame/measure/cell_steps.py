"""Steps of a cell: a workload, measured window by window as `ioflame profile` does, in a run of its own; and fio's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import median

from collectors.perf import with_dwarf
from ground.results.accounts import accounts_in
from ground.results.categories import read_views
from ground.results.cells import BASELINE_FIGURES, CellOutcome, CellsRun
from ground.results.files import Files
from ground.results.pmp import read_locks
from ground.results.run import Run
from ground.system.process import Children
from ground.text.progress import Reporter
from ioflame.analysis.run_figures import run_figures
from ioflame.measure.baseline import look_at_requests, run_baseline
from ioflame.measure.job import Job, new_record
from ioflame.measure.profile import measure
from ioflame.measure.recorded import recorded
from workloads.cells import BASELINE
from workloads.database import Database


def baseline_step(
    job: Job, database: Database, name: str, outcome: CellOutcome, going: CellsRun, children: Children,
    reporter: Reporter,
) -> dict[str, float]:  # fmt: skip
    """Lets fio read as the job does, with as many users; the medians of all its runs in the cell so far."""
    record, directory = going.record, going.directory
    if record.request_bytes is None:
        record.request_bytes = look_at_requests(job, database, children, reporter, directory)
    users, size = job.options.threads, record.request_bytes
    outcome.baselines.append(run_baseline(job, database, users, size, name, children, reporter, directory))
    return {
        f"{BASELINE}.{name}": median([getattr(one, name) for one in outcome.baselines]) for name in BASELINE_FIGURES
    }


def _with_callgraph(job: Job, callgraph: str) -> Job:
    """The job with the call graphs of the profiles before it: tables put them side by side, so they are of one kind."""
    if not callgraph or job.options.callgraph != "auto":
        return job
    plan = job.plan
    if callgraph == "dwarf":
        plan = with_dwarf(plan, "DWARF unwinding as in the experiment's first profile")
    return replace(job, options=replace(job.options, callgraph=callgraph), plan=plan)


def measure_step(
    job: Job, database: Database, directory: Path, levels: str, outcome: CellOutcome, callgraphs: dict[str, str],
    reporter: Reporter,
) -> dict[str, float]:  # fmt: skip
    """Measures the job into `directory`, which is new; its figures. Its place and its failed checks are in `outcome`.

    levels:     that the tree has to have; "" for what the workload itself says
    callgraphs: by step, those of the profiles before it; the first of a step is noted there, and is as the first of all
    """
    step = job.options.workload
    job = _with_callgraph(job, callgraphs.get(step) or next(iter(callgraphs.values()), ""))
    directory.mkdir(0o700)
    run = Run(directory, new_record(job))
    run.record.expected.levels = levels or run.record.expected.levels
    run.save()
    outcome.runs[step] = directory.name
    with recorded(run, Children()) as children:
        measure(job, database, run, children, reporter, strict=False)
    if run.record.profile is not None:
        callgraphs.setdefault(step, run.record.profile.callgraph)
    outcome.note_failed(step, run.record.checks)
    locks = read_locks(directory) if (directory / Files.LOCKS).exists() else None
    log = (directory / job.engine.log_name).read_text(encoding="utf-8", errors="replace")
    # The engine's own log is another process's by now.
    stated = job.engine.figures(log, step, directory)
    files = sum(path.stat().st_size for path in job.db_dir.glob(job.engine.about.data_files))
    argv = next(one.argv for one in run.record.commands if one.pid == run.record.pid)
    return {
        **stated,
        **run_figures(run.record, read_views(directory), locks, accounts_in(directory)),
        **job.engine.predicted(argv, files),
    }
