"""What a guest's window is worth: by the product's own checks, by the kernel's counters, by what its load must give."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from ebpf.iolat import io_latency_checks
from ebpf.ladder import ladder_checks
from ebpf.requests import attribution_checks
from ebpf.tail import record_checks
from ebpf.writes import write_checks
from ground.errors import EXIT_HOST, EXIT_OK, IoflameError, MeasurementError
from ground.results.checks import Check, Verdict
from ground.results.io_latency import read_io_latency
from ground.results.ladder import read_ladder
from ground.results.off_cpu import read_off_cpu, read_run_queue
from ground.results.query_records import read_recorded
from ground.results.request_attribution import StoredListing
from ground.results.requests import NOTHING, read_requests, request_rows
from ground.results.write_ladder import read_write_ladder
from ground.system.binaries import built_binary
from ground.system.diskstats import DiskCount
from ground.system.process import capture
from ioflame.analysis.request_attribution import attribute_requests

# Threads' times of one thread each: by so much, or ns, their parts may be off.
_OFF, _OFF_NS = 0.02, 2_000_000
# Of a thread's time on a CPU, at most; a slow guest's are long.
_INTERRUPTS = 0.25
# Requests that end while the counters are read, on two CPUs.
_EDGE = 4
# Waits of threads that were under way at the edges.
_WAITS = 64
# Reads of the database's files by a process that reads nothing else.
_NAMED = 0.9


class Outcome(Enum):
    WORKS = "works"
    REFUSED = "refused"
    WRONG = "wrong"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Judgement:
    """words: of what works its count; else why, in a sentence"""

    outcome: Outcome
    words: str


def needs(btf: Path) -> list[dict[str, Any]]:
    """What the loader says of each instrument, and of each way that it has, on a kernel by its BTF alone."""
    argv = [str(built_binary("ioflame-ebpf")), "needs", "--btf", str(btf)]
    done = capture(argv, timeout=60)
    if done.returncode:
        raise MeasurementError(f"{' '.join(argv)}: exit code {done.returncode}: {done.text.strip()}")
    told: list[dict[str, Any]] = json.loads(done.stdout)
    return told


def judged(instrument: str, load: str, name: Path) -> Judgement:
    """Of the files that a window left: `name` with .code, .err and .json."""
    code, said = (name.with_name(f"{name.name}{suffix}") for suffix in (".code", ".err"))
    if not code.exists():
        return Judgement(Outcome.NOT_RUN, "the guest did not come to it")
    number, words = int(code.read_text(encoding="ascii")), said.read_text(encoding="utf-8", errors="replace").strip()
    if number == EXIT_HOST:
        return Judgement(Outcome.REFUSED, words)
    if number != EXIT_OK:
        return Judgement(Outcome.WRONG, f"exit code {number}: {words or 'without a word'}")
    try:
        checks = list(CHECKS[instrument](name.with_name(f"{name.name}.json"), load))
    except IoflameError as error:
        return Judgement(Outcome.WRONG, error.what)
    failed = [check for check in checks if check.verdict is Verdict.FAILED]
    told = failed or [check for check in checks if check.verdict is Verdict.OK]
    words = "; ".join(f"{check.name}: {check.value}" for check in told)
    return Judgement(Outcome.WRONG if failed else Outcome.WORKS, words)


def against_needs(judgement: Judgement, met: bool) -> Judgement:
    """The same, unless it was refused though the kernel has what it needs: then nothing told the user beforehand."""
    if judgement.outcome is Outcome.REFUSED and met:
        return Judgement(Outcome.WRONG, f"refused, though its needs are met: {judgement.words}")
    return judgement


def _true(name: str, fact: bool, words: str) -> Check:
    return Check(name, Verdict.OK if fact else Verdict.FAILED, words)


def _within(name: str, counted: int, inner: DiskCount, outer: DiskCount) -> Check:
    fact = inner.requests - _EDGE <= counted <= outer.requests + _EDGE
    return _true(name, fact, f"{counted:,} of {inner.requests:,} to {outer.requests:,} in diskstats")


def _iolat(path: Path, load: str) -> Iterator[Check]:
    latency = read_io_latency(path)
    yield from io_latency_checks(latency)
    operation = "read" if load == "reader" else "write"
    own = latency.row(operation, "process").total.count
    yield _true(f"{operation}s of the {load}", own > 0, f"{own:,}")
    disk = latency.diskstats
    yield _true("diskstats", disk is not None, "read" if disk else "not read")
    if disk is not None and load == "writer":
        yield _true("flushes are there", disk.outer.flush.requests > 0, f"{disk.outer.flush.requests:,}")
        yield _within("flushes", latency.count("flush"), disk.inner.flush, disk.outer.flush)


def _requests(path: Path, load: str) -> Iterator[Check]:
    told, rows = read_requests(path), path.with_suffix(".rows")
    yield from attribution_checks(attribute_requests(told, request_rows(rows, told), StoredListing(), {}, {}))
    operation = "read" if load == "reader" else "write"
    own = [
        row
        for row in request_rows(rows, told)
        if told.operations[row.operation] == operation and told.submitters[row.submitter] == "process"
    ]
    named = sum(row.file != NOTHING and any(told.files[row.file].path) for row in own)
    yield _true(f"{operation}s of the {load} with a file", named > _NAMED * len(own), f"{named:,} of {len(own):,}")


def _ladder(path: Path, _: str) -> Iterator[Check]:
    ladder = read_ladder(path)
    yield from ladder_checks(ladder)
    yield _true("ladder stages", ladder.total.count > 0, f"of {ladder.total.count:,} {ladder.start} calls")


def _offcpu(path: Path, load: str) -> Iterator[Check]:
    off = read_off_cpu(path)
    yield from off.checks()
    # Where the scheduler accounts interrupts, their time is in ours alone.
    most = off.cpu_ns * (1 + _INTERRUPTS) + _OFF_NS * len(off.threads)
    yield _true(
        "schedstat", off.ran_ns <= most, f"on-CPU {off.ran_ns / 1e6:.0f} ms, by schedstat {off.cpu_ns / 1e6:.0f} ms"
    )
    if load == "sleeper":
        share = off.off_ns / off.elapsed_ns if off.elapsed_ns else 0.0
        yield _true("the sleeper's sleep", abs(share - 1) <= _OFF, f"{share:.2%} of {off.elapsed_ns / 1e9:.3f} s")


def _runqlat(path: Path, _: str) -> Iterator[Check]:
    queue = read_run_queue(path)
    yield from queue.checks()
    # Who left its CPU to wait is woken once, and then waits for a CPU.
    woken = queue.waits["woken"].count
    fact = abs(woken - queue.voluntary) <= max(_OFF * queue.voluntary, _WAITS)
    yield _true("wake-ups", fact, f"{woken:,}, of {queue.voluntary:,} voluntary switches")


def _records(path: Path, _: str) -> Iterator[Check]:
    recorded = read_recorded(path)
    yield from record_checks(recorded)
    yield _true("records kept", recorded.kept > 0, f"{recorded.kept:,}")


def _writes(path: Path, _: str) -> Iterator[Check]:
    ladder = read_write_ladder(path)
    yield from write_checks(ladder)
    yield _true("write stages", ladder.full, "in full" if ladder.full else "few of them")


CHECKS = {
    "iolat": _iolat, "ladder": _ladder, "offcpu": _offcpu, "runqlat": _runqlat, "records": _records,
    "requests": _requests, "writes": _writes,
}  # fmt: skip
