"""The fio baseline of an experiment: the database's own files, read as the database reads them."""

from __future__ import annotations

import resource
import shlex
from pathlib import Path

from collectors.counters import device_of, logical_block_size, read_counts
from collectors.queries import QueryReport
from collectors.schedule import Schedule
from ground.errors import MeasurementError
from ground.results.cells import Baseline
from ground.system.cpus import held_on
from ground.system.process import Children
from ground.text.progress import Reporter
from ioflame.measure.job import Job
from workloads.database import Database
from workloads.fio import fio_argv, parse_fio, request_split

LONGEST_SECONDS = 60
_LOOK_SECONDS = 2
# Fewer reads than this say nothing of their size: the database answers from its cache.
_FEW_READS = 100


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
    argv = job.of(workload, 1).command(seeds, report, lifetime)
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
    seconds = min(job.duration, LONGEST_SECONDS)
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
    result = parse_fio(out.read_text(encoding="utf-8"), users)
    return Baseline(
        result.iops, result.reads, result.us_per, result.sy_per, result.lat_us,
        io_lat=read_ms * 1e3 / reads if reads else 0.0,
        reqsz=sectors * 512 / reads / 1024 if reads else 0.0,
        others=max(0.0, 1 - (read_by_children() - own_before) / (sectors * 512)) if sectors else 0.0,
    )  # fmt: skip


def read_by_children() -> int:
    """Bytes that children of ours have read from devices, those they waited for included, up to their end."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_inblock * 512
