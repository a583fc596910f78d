"""Background jobs of an engine: flushes, compactions, and the times at which it held writes back, as its own log says.

An engine says it (`Engine.jobs`). Moments are Unix seconds, of CLOCK_REALTIME; levels are numbers of the LSM tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ground.results.ranges import Amount, Count
from ground.system.atomic_files import json_reader

# Thread ids of Linux are below it (PID_MAX_LIMIT). A larger number is a pthread_t.
MOST_THREADS = 1 << 22


@dataclass(frozen=True)
class Job:
    """A flush or a compaction.

    kind:          "flush" or "compaction"
    number:        by which its process knows it
    tid:           the thread that ran it, as the log has it: the kernel's id, or a pthread_t (`kernel_tid`)
    begin, end:    end None where it still ran when the log was read, or its process ended before
    column_family: "" where it is unknown
    reason:        in the engine's words
    levels_in:     from which it read, the smallest first; of a flush none
    level:         into which it wrote, None where it is not known yet
    bytes_in:      of a flush in the memtable, of a compaction in files; bytes_out: of the files that it made
    cpu_us:        of the engine's own account, all its threads; None where it does not say
    run_us:        the time that the account covers, the part of the job without its last steps
    threads:       all that wrote to the log for it, `tid` among them: those of its parts that made a file
    made:          names of the files that it made, as far as the log says them
    deleted, deleted_until: files that it deleted after its end, and when the last of them was gone
    """

    kind: str
    number: Count
    tid: Count
    begin: Amount
    end: Amount | None = None
    column_family: str = ""
    reason: str = ""
    levels_in: Sequence[Count] = ()
    level: Count | None = None
    bytes_in: Count = 0
    bytes_out: Count = 0
    files_in: Count = 0
    files_out: Count = 0
    cpu_us: Count | None = None
    run_us: Count | None = None
    threads: Sequence[Count] = ()
    made: Sequence[str] = ()
    deleted: Count = 0
    deleted_until: Amount | None = None

    @property
    def kernel_tid(self) -> int | None:
        """None where the log has a pthread_t."""
        return self.tid if self.tid < MOST_THREADS else None


@dataclass(frozen=True)
class Stall:
    """A time in which writes were held back.

    cause:      in the engine's words
    stopped:    writes are blocked; otherwise they are slowed to a rate
    begin, end: end None where it is unknown, or where the stall was not over when the log was read
    """

    cause: str
    stopped: bool
    begin: Amount
    end: Amount | None = None
    column_family: str = ""


@dataclass(frozen=True)
class TreeState:
    """After a job of a column family.

    files: by level; immutable_memtables: that wait for their flush; pending_bytes: that compactions are estimated to
    have before them; None where the log does not say it
    """

    at: Amount
    column_family: str
    files: Sequence[Count]
    immutable_memtables: Count | None = None
    pending_bytes: Count | None = None


@dataclass(frozen=True)
class Jobs:
    """What an engine's log says of a stretch of time.

    jobs, stalls: that overlap it, by their beginning; states: within it
    until: the log's last moment: what is after it, is not known yet
    notes: what is missing and why, in sentences for a reader
    held_back: moments, and seconds that writers of one database had waited until then by the engine's own count
    """

    jobs: Sequence[Job]
    stalls: Sequence[Stall]
    states: Sequence[TreeState]
    until: Amount
    notes: Sequence[str] = ()
    held_back: Sequence[tuple[Amount, Amount]] = ()


@dataclass(frozen=True)
class RunJobs:
    """`jobs.json`: the jobs of the databases of a run, in all of its windows.

    clocks: CLOCK_MONOTONIC and CLOCK_REALTIME of one moment, ns, before the first window and after the last
    """

    clocks: Sequence[tuple[Count, Count]]
    found: Jobs
    schema: int = 1

    def monotonic_ns(self, moment: float) -> int:
        """CLOCK_MONOTONIC of a moment in Unix seconds, between the two pairs of clocks linearly."""
        (first, first_real), (last, last_real) = self.clocks
        ahead, change = first_real - first, (last_real - last) - (first_real - first)
        passed = (round(moment * 1e9) - first_real) / ((last_real - first_real) or 1)
        return round(moment * 1e9) - ahead - round(change * min(max(passed, 0.0), 1.0))


def job_order(kind: str, level: int | None) -> tuple[bool, int]:
    """Flushes first, then compactions from the top of the tree down."""
    return kind != "flush", -1 if level is None else level


read_run_jobs = json_reader(RunJobs, "jobs of a run")
