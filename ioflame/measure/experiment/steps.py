"""Steps of a cell: fio, a workload that is measured window by window in a run of its own, a command of the user's."""

from __future__ import annotations

import resource
import shlex
from dataclasses import replace
from pathlib import Path
from statistics import median

from collectors.counters import device_of, logical_block_size, read_counts
from collectors.queries import QueryReport
from collectors.schedule import Schedule
from ground.errors import MeasurementError
from ground.results.accounts import accounts_in
from ground.results.categories import read_views
from ground.results.cells import BASELINE_FIGURES, Baseline, CellOutcome, CellsRun
from ground.results.command_run import CommandRun
from ground.results.files import Files
from ground.results.pmp import read_locks
from ground.results.run import Run
from ground.system.cpus import held_on
from ground.system.process import Children
from ground.text.progress import Reporter
from ioflame import __version__
from ioflame.analysis.run_figures import run_figures
from ioflame.measure.attach.job import AttachOptions
from ioflame.measure.attach.session import parts_of_seconds
from ioflame.measure.experiment.job import LONGEST_BASELINE_SECONDS, CellsJob
from ioflame.measure.job import Job, new_record
from ioflame.measure.own_command.command_line import added_words, checked_command
from ioflame.measure.own_command.runner import CommandOptions, CommandRunner
from ioflame.measure.profile import measure
from ioflame.measure.recorded import recorded
from ioflame.measure.study import with_callgraph
from ioflame.present.run import write_pages
from ioflame.stages.run import analyse
from workloads.cells import BASELINE, COMMAND, CellRun
from workloads.database import Database
from workloads.fio import fio_argv, parse_fio, request_split

_LOOK_SECONDS = 2
# Fewer reads than this say nothing of their size: the database answers from its cache.
_FEW_READS = 100


def baseline_step(
    job: Job, database: Database, name: str, outcome: CellOutcome, study: CellsRun, children: Children,
    reporter: Reporter,
) -> dict[str, float]:  # fmt: skip
    """Lets fio read as the job does, with as many users; the medians of all its runs in the cell so far."""
    record, directory = study.record, study.directory
    if record.request_bytes is None:
        record.request_bytes = look_at_requests(job, database, children, reporter, directory)
    users, size = job.options.threads, record.request_bytes
    outcome.baselines.append(run_baseline(job, database, users, size, name, children, reporter, directory))
    return {
        f"{BASELINE}.{name}": median([getattr(one, name) for one in outcome.baselines]) for name in BASELINE_FIGURES
    }


def look_at_requests(job: Job, database: Database, children: Children, reporter: Reporter, directory: Path) -> float:
    """Bytes of a storage read as the workload sends them, on average.

    Aligned blocks read with O_DIRECT are read as they are; otherwise a short run of such reads tells.
    """
    shape = job.sizing.shape
    if job.configuration.direct and shape.block_align:
        return float(shape.block_size)
    seeds = database.take_seeds("request size", 1)
    report = directory / "requests.report.csv"
    lifetime = _LOOK_SECONDS + 4
    log = directory / "requests.log"
    workload = job.engine.about.block_reads
    argv = job.of(workload, 1).command(seeds.first, report, lifetime)
    child = children.start(f"{job.engine.about.client} {workload}", argv, stdout=log)
    queries = QueryReport(report, job.engine.parse_report)
    schedule = Schedule(child, device_of(job.db_dir), queries, lifetime, log, reporter)
    schedule.wait_until_reading()
    schedule.plain(_LOOK_SECONDS, "look at the size of the reads")
    child.stop()
    counters = schedule.windows()[0].counters
    if counters.storage_reads < _FEW_READS:
        return float(shape.block_size)
    return counters.storage_read_bytes / counters.storage_reads


def run_baseline(
    job: Job,
    database: Database,
    users: int,
    request_bytes: float,
    name: str,
    children: Children,
    reporter: Reporter,
    directory: Path,
) -> Baseline:
    """fio with so many users and reads of `request_bytes` on average; its output stays in `directory`."""
    seconds = min(job.duration, LONGEST_BASELINE_SECONDS)
    seeds = database.take_seeds(name, users)
    device = device_of(job.db_dir)
    split = request_split(request_bytes, logical_block_size(device))
    argv = held_on(
        job.options.cpus, fio_argv(job.db_dir, job.engine.about.data_files, users, seconds, split, seeds.first)
    )
    out, log = directory / f"{name}.json", directory / f"{name}.log"
    before, own_before = read_counts(device), read_by_children()
    with reporter.stage(f"fio, {users} user{'s' * (users != 1)}", seconds + 2):
        child = children.start("fio", argv, stdout=out, stderr=log)
        code = child.wait(seconds + 120)
        if code is None:
            child.stop()
    reads, sectors, read_ms = (b - a for a, b in zip(before, read_counts(device), strict=True))
    if code != 0:
        words = log.read_text(encoding="utf-8", errors="replace").strip()[-500:]
        raise MeasurementError(f"fio ended with {child.describe_end()}: {words}", mend=f"read {shlex.quote(str(log))}")
    return replace(
        parse_fio(out.read_text(encoding="utf-8"), users),
        io_lat=read_ms * 1e3 / reads if reads else 0.0,
        reqsz=sectors * 512 / reads / 1024 if reads else 0.0,
        others=max(0.0, 1 - (read_by_children() - own_before) / (sectors * 512)) if sectors else 0.0,
    )  # fmt: skip


def read_by_children() -> int:
    """Bytes that children of ours have read from devices, those they waited for included, up to their end."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_inblock * 512


def measure_step(
    job: Job, database: Database, directory: Path, levels: str, outcome: CellOutcome, callgraphs: dict[str, str],
    reporter: Reporter,
) -> dict[str, float]:  # fmt: skip
    """Measures the job into `directory`, which is new; its figures. Its place and its failed checks are in `outcome`.

    levels:     that the tree has to have; "" for what the workload itself says
    callgraphs: by step, those of the profiles before it; the first of a step is noted there, and is as the first of all
    """
    step = job.options.workload
    job = with_callgraph(job, callgraphs.get(step) or next(iter(callgraphs.values()), ""))
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


def command_step(
    job: CellsJob, run: CellRun, outcome: CellOutcome, study: CellsRun, log: Path, reporter: Reporter
) -> tuple[dict[str, float], list[str]]:
    """Its figures, and the words that were started. MeasurementError where it failed, or was not one benchmark."""
    assert job.recording is not None
    command = checked_command([run.cell.command])
    home = CommandRun.begin(study.directory, command.program, __version__, list(command.argv))
    client = command.client
    attach = _attach(job, run.cell.command, study.directory, command.called)
    added, report = added_words(command, home, reporter, untouched=False, counted=command.called is not None)
    lines, seconds = client is not None and bool(client.line), job.scale.duration * parts_of_seconds(attach.collect)
    options = CommandOptions(command, added, report, float(seconds), None, False, None, attach, lines=lines, log=log)
    watched = CommandRunner(options, home, job.recording, reporter)
    watched.start_and_watch()
    if watched.code:
        raise MeasurementError(f"{command.program}: {home.record.end}", mend=f"less {shlex.quote(str(log))}")
    if len(watched.runs) != 1:
        what = "nothing of it was measured" if not watched.runs else f"it ran {len(watched.runs)} benchmarks"
        raise MeasurementError(
            f"{command.program}: {what}; a cell is one", mend="a command of one benchmark, with time"
        )
    (one,) = watched.runs
    write_pages(one, analyse(one, Reporter(quiet=True)), Reporter(quiet=True))
    outcome.runs[COMMAND] = f"{home.directory.name}/{one.directory.name}"
    outcome.note_failed(COMMAND, one.record.checks)
    figures = run_figures(one.record, read_views(one.directory), None, accounts_in(one.directory))
    return figures, [*command.argv, *added]


def _attach(job: CellsJob, asked: str, out: Path, symbol: str | None) -> AttachOptions:
    options = job.options
    callgraph = "fp" if options.callgraph == "auto" else options.callgraph
    return AttachOptions(
        asked, options.event, options.frequency, callgraph, job.scale.collect, asked_to_collect=True, out=out,
        symbol=symbol,
    )  # fmt: skip
