"""Background jobs of the windows, from the log of the databases that are watched."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ground.errors import IoflameError
from ground.results.accounts import Account
from ground.results.files import Files
from ground.results.jobs import RunJobs
from ground.results.run import Run
from ground.system.atomic_files import write_json
from ioflame.analysis.jobs import cpu_by_level, job_rows
from workloads.file_kinds import FilesReader

# A log that is written at once with a job's end and every 5 s otherwise says by then what there is to say.
_LOG_SECONDS = 6.0
# Of a database that is written to: longer than what most take to fill a memtable.
_LATELY_SECONDS = 120.0


def ran_lately(reader: FilesReader, directory: Path) -> bool:
    """Whether its log tells of background jobs of the last two minutes."""
    now = time.time()
    try:
        found = reader.jobs(directory, now - _LATELY_SECONDS, now)
    except IoflameError:
        return False
    return found is not None and bool(found.jobs)


def clock_pair() -> tuple[int, int]:
    """CLOCK_MONOTONIC and CLOCK_REALTIME of one moment, ns: of three readings the one that took the least time."""
    readings = []
    for _ in range(3):
        before, real, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        readings.append((after - before, (before + (after - before) // 2, real)))
    return min(readings)[1]


def note_jobs(
    run: Run,
    reader: FilesReader,
    directory: Path,
    began: tuple[int, int],
    running: Callable[[], bool] = lambda: False,
) -> None:
    """Writes what the log says of all windows; nothing where it says nothing, or cannot be read.

    began: clocks before the first window; running: whether the log may still be written to
    """
    windows = run.record.windows
    if not windows:
        return
    clocks = [began, clock_pair()]
    begin, end = (_unix(clocks, moment) for moment in (windows[0].start_ns, windows[-1].end_ns))
    until = time.monotonic() + _LOG_SECONDS
    try:
        while (found := reader.jobs(directory, begin, end)) is not None:
            if found.until >= end or time.monotonic() >= until or not running():
                break
            time.sleep(1.0)
    except IoflameError:
        return
    if found is None or not (found.jobs or found.stalls):
        return
    if running() and found.until < end:
        late = f"the log ends {end - found.until:.1f} s before the last window: jobs after that may lack"
        found = replace(found, notes=(*found.notes, late))
    write_json(run.path(Files.JOBS), RunJobs(clocks, found))


def job_figures(reader: FilesReader, directory: Path, begun: float, puts: float) -> dict[str, float]:
    """The CPU of background jobs by Put, as the account `jobs` has it, of a step that ran since `begun` (Unix seconds).

    Nothing where the log does not have it, or nothing was put.
    """
    try:
        found = reader.jobs(directory, begun, time.time())
    except IoflameError:
        return {}
    if found is None or not puts:
        return {}
    rows = cpu_by_level(job_rows([job for job in found.jobs if job.end is not None]))
    by_row = Account("jobs", puts, rows).by_work() if rows else {}
    return {Account.row_name("jobs", row): us for row, us in by_row.items()}


def _unix(clocks: list[tuple[int, int]], moment_ns: int) -> float:
    (first, first_real), (last, last_real) = clocks
    nearer = first_real - first if moment_ns - first < last - moment_ns else last_real - last
    return (moment_ns + nearer) / 1e9
