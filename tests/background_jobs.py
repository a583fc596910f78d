"""Background jobs as a log has them, made in code: with sums that a test can do in its head."""

from __future__ import annotations

from ground.results.jobs import Job, Jobs, RunJobs, Stall, TreeState
from ground.results.record import Window
from ioflame.analysis.jobs import ACCOUNT, AFTER, DELETING, JobSamples
from tests.records import window

MS, _MIB = 1_000_000, 1 << 20
FLUSHER, MERGER = 70, 71
# CLOCK_MONOTONIC 0 in Unix seconds.
UNIX = 1_800_000_000.0


def recorded() -> RunJobs:
    """Twelve flushes at the seconds 1 to 12 after the clock's zero, of half a second, n MiB in 1000 n + 500 us; two
    compactions, the second not at its end."""
    flushes = [
        Job(
            "flush", n, FLUSHER, UNIX + n, UNIX + n + 0.5, "default", "Write Buffer Full", (), 0, 2 * n * _MIB,
            n * _MIB, 0, 1, 1000 * n + 500, 400_000, (FLUSHER,),
        )
        for n in range(1, 13)
    ]  # fmt: skip
    merged = Job(
        "compaction", 20, MERGER, UNIX + 2, UNIX + 4, "default", "LevelL0FilesNum", (0, 1), 1, 9 * _MIB, 8 * _MIB, 5,
        2, 1_000_000, 1_900_000, (MERGER,), ("000030.sst", "000031.sst"), 3, UNIX + 4.25,
    )  # fmt: skip
    running = Job("compaction", 21, MERGER, UNIX + 11, None, "default", "LevelL0FilesNum", (0,), 1)
    stalls = (
        Stall("immutable memtables (waiting for flush)", True, UNIX + 3, UNIX + 3.25, "default"),
        Stall("immutable memtables (waiting for flush)", True, UNIX + 5, UNIX + 5.5, "default"),
        Stall("level-0 files", False, UNIX + 9, None, "default"),
    )
    states = (TreeState(UNIX + 1.5, "default", (1, 3), 1, 5 * _MIB), TreeState(UNIX + 4, "default", (0, 4), None, 0))
    jobs = tuple(sorted([*flushes, merged, running], key=lambda job: (job.begin, job.number)))
    clocks = [(0, round(UNIX * 1e9)), (14 * 10**9, round((UNIX + 14) * 1e9))]
    return RunJobs(clocks, Jobs(jobs, stalls, states, UNIX + 14))


def windows() -> list[Window]:
    """A plain one of the seconds 1 to 3, and perf's from 3 to 11."""
    return [window("plain", 2, "", 1, queries=1000), window("perf", 8, "", 3, queries=3000)]


def place(number: int) -> int:
    return next(n for n, job in enumerate(recorded().found.jobs) if job.number == number)


def samples() -> JobSamples:
    """Of flush 4 200 ms, 50 of them after its account; of flush 2, which begins before perf's window, 70 ms; of the
    compaction 20, which does as well, 900 ms; of deleting 20 ms."""
    weights = {
        (place(4), ACCOUNT): {"merge": 100 * MS, "checksum": 50 * MS},
        (place(4), AFTER): {"install": 50 * MS},
        (place(2), ACCOUNT): {"merge": 70 * MS},
        (place(20), ACCOUNT): {"merge": 900 * MS},
        (place(20), DELETING): {"install": 20 * MS},
    }
    counts = {place(4): 200, place(2): 70, place(20): 900}
    window = [(3 * 10**9, 11 * 10**9)]
    return JobSamples(
        window, {"merge": "Merging", "checksum": "Checksums", "install": "Installing"}, weights, counts, 9, range(14)
    )
