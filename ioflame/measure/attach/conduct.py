"""A target through its windows: plain, observed, plain ...; what it did is analysed as a profile's workload is."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence

from collectors.attached import AttachedWindows
from collectors.mapped_files import MappedFiles
from collectors.symbol_count import calls_in
from collectors.target_counters import TargetProbe
from ground.errors import IoflameError
from ground.results.files import Files
from ground.results.record import OwnCost, Unobserved
from ground.results.record import Target as TargetRecord
from ground.results.run import Run
from ground.system.atomic_files import write_whole
from ground.system.held_process import HeldProcess
from ground.system.own_cpu import own_cpu_seconds
from ground.system.process import Children
from ground.text.progress import Reporter
from ioflame.instruments import INSTRUMENTS
from ioflame.instruments.instrument import Watched
from ioflame.measure.attach.budget import LARGER, allowed_seconds, check_left, runaway_error, runaway_limit
from ioflame.measure.attach.job import AttachJob
from ioflame.measure.attach.redact import hide_in_record, hide_waits, redacted, without_words
from ioflame.measure.recorded import commands_of, recorded
from ioflame.present.run import write_pages
from ioflame.stages.run import analyse
from workloads.registry import ladder_symbols
from workloads.service import rules_text

__all__ = ("LEAST_SECONDS", "attach", "recorded_share")

# A second of each window, and perf four.
LEAST_SECONDS = 5.0


def attach(job: AttachJob, run: Run, reporter: Reporter, unlimited: str = "") -> None:
    """Watches the target, and analyses what was recorded, all into `run`; `latest` points to it then.

    unlimited: why our processes are in no control group that bounds their CPU; "" where they are
    MeasurementError where nothing could be seen at all; a target that ends sooner leaves what was seen until then.
    """
    record = run.record
    assert record.target is not None
    write_whole(run.path(Files.RULES), rules_text(job.rules).encode())
    counts = job.options.counts
    with redacted(job, run), recorded(run, Children()) as children:
        probe = TargetProbe(job.target, job.device, job.group_of)
        windows = AttachedWindows(probe, counts, reporter)
        mapped = MappedFiles(run.path(Files.MAPPED))
        cost = OwnCost({"start": own_cpu_seconds()}, 0.0, job.options.budget, unlimited, job.options.period)
        record.target.cost = cost
        try:
            _run_windows(job, windows, run, children, cost, mapped)
        finally:
            record.windows = windows.windows()
            run.save_series(windows.series())
            _note_target(job, record.target, probe, windows.ended)
            cost.target_seconds = sum(window.counters.cpu_ns for window in record.windows) / 1e9
            record.target.names = list(mapped.checks())
            record.commands = commands_of(children)
            if job.redaction is not None:
                hide_in_record(job, run, job.redaction)
                hide_waits(run, job.redaction)
            run.save()
        record.missing.clear()
        # What follows may take its time: the service goes first.
        os.nice(10)
        write_pages(run, analyse(run, reporter), reporter)
    run.point_latest()


def recorded_share(collect: Sequence[str]) -> float:
    """Of all the seconds, the part in which perf records."""
    return INSTRUMENTS["perf"].time_share / _parts(collect) if "perf" in collect else 0.0


def _parts(collect: Sequence[str]) -> int:
    """Of all the seconds: how they are shared out; plain windows have one each."""
    return len(collect) + 1 + sum(INSTRUMENTS[name].time_share for name in collect)


def _run_windows(
    job: AttachJob, windows: AttachedWindows, run: Run, children: Children, cost: OwnCost, mapped: MappedFiles
) -> None:
    collect = job.options.collect
    part = job.options.seconds / _parts(collect)
    missing = run.record.missing
    missing[:] = [f"plain and {', '.join(collect)} windows"]
    before = own_cpu_seconds()
    mapped.keep(job.target.processes)
    windows.plain(part)
    cost.seconds["plain"] = own_cpu_seconds() - before
    if job.probes and not windows.ended:
        before = own_cpu_seconds()
        _count_calls(job, windows, run, children)
        cost.seconds["count"] = own_cpu_seconds() - before
    for name in collect:
        if windows.ended:
            break
        before = own_cpu_seconds()
        left = [INSTRUMENTS[other].time_share for other in collect[collect.index(name) :]]
        _observe(name, job, windows, run, children, part * left[0], _left(job, windows, cost) * left[0] / sum(left))
        mapped.keep(_busiest_first(windows, job))
        cost.seconds[name] = own_cpu_seconds() - before
        if windows.ended:
            break
        before = own_cpu_seconds()
        windows.plain(part)
        cost.seconds["plain"] += own_cpu_seconds() - before


def _count_calls(job: AttachJob, windows: AttachedWindows, run: Run, children: Children) -> None:
    """Counts a function's calls for a second in 30, and takes the rate for that of all windows."""
    told, seconds = run.record.target, max(job.options.seconds / 30, 1.0)
    assert told is not None
    try:
        calls = calls_in(children, job.probes, job.target.running, seconds, run.path(Files.CALL_COUNT))
    except IoflameError as error:
        told.count, told.count_failed = f"calls of {job.options.symbol}", error.what
        return
    windows.rate, told.count_sampled = calls / seconds, True
    told.count = f"{calls:,} calls of {job.options.symbol} in {seconds:g} s, taken for the rate of all windows"


def _left(job: AttachJob, windows: AttachedWindows, cost: OwnCost) -> float:
    """CPU seconds that are left of the budget, by what the target used so far; no bound without one."""
    if job.options.budget is None:
        return math.inf
    plain = [window for window in windows.windows() if window.kind == "plain"]
    cost.allowed = allowed_seconds(job.options.budget, job.options.period, plain)
    return max(cost.allowed - sum(cost.seconds.values()), 0.0)


def _observe(
    name: str, job: AttachJob, windows: AttachedWindows, run: Run, children: Children, seconds: float, left: float
) -> None:
    """The window of one observer. Where it fails the others go on without it; a target that ends meanwhile is none of
    its failures. left: CPU seconds that it may take"""
    pids = job.target.running
    instrument = INSTRUMENTS[name]
    if instrument.one_process:
        pids = [_busiest(windows, job)]
    watched = Watched(run, children, pids, job.plan, job.device, ladder_symbols(), ladder_sample=8)
    assert run.record.target is not None and run.record.target.cost is not None
    cost, before, started = run.record.target.cost, own_cpu_seconds(), len(list(children))
    windows.limit, children.cpu_limit = before + left, runaway_limit(left)
    try:
        check_left(cost, left)
        windows.observed(instrument.observer(watched), seconds)
        if windows.over_limit:
            cost.cut.append(f"{name} after {windows.windows()[-1].seconds:.1f} of {seconds:.1f} s")
    except IoflameError as error:
        failed = runaway_error(list(children)[started:], own_cpu_seconds() - before, left) or error
        if failed is error and error.mend != LARGER and job.redaction is not None:
            failed = without_words(name, error, job.redaction)
        if not windows.ended:
            asked = job.options.asked_to_collect and failed.mend != LARGER
            run.record.unobserved.append(Unobserved(name, failed.what, failed.mend, asked))
    finally:
        windows.limit = children.cpu_limit = None


def _busiest_first(windows: AttachedWindows, job: AttachJob) -> list[HeldProcess]:
    """Those that run, by the CPU that they used so far."""
    used = windows.cpu_by_process()
    running = [process for process in job.target.processes if process.alive]
    return sorted(running, key=lambda process: -used.get(process.pid, 0))


def _busiest(windows: AttachedWindows, job: AttachJob) -> int:
    """What looks at one process at a time looks at this one."""
    return next((process.pid for process in _busiest_first(windows, job)), job.target.pids[0])


def _note_target(job: AttachJob, told: TargetRecord, probe: TargetProbe, ended: bool) -> None:
    """Into the record: who was seen, and what became of them."""
    # No sample of a number tells whose it was.
    told.pids = [pid for pid in job.target.pids if pid not in job.target.reused]
    told.groups = probe.groups()
    told.ended_lost, told.ignoring = probe.lost, probe.ignoring
    failed = {kind: count.failed for kind, count in job.options.counts.items() if count.failed}
    told.count_failed = "; ".join(f"{kind}: {why}" if kind else why for kind, why in failed.items())
    told.notes = list(_what_happened(job, ended))


def _what_happened(job: AttachJob, ended: bool) -> Iterator[str]:
    target = job.target
    if ended:
        yield "it ended while it was watched"
    for pid, (before, after) in target.became.items():
        yield f"process {pid} executed another program meanwhile: {before} became {after}"
    for pid in target.reused:
        yield f"process {pid} ended, and another one got its number: no samples of either are shown"
    if target.group_gone:
        yield "its control group was removed; the processes that were in it were watched on"
    if target.stopped:
        yield f"somebody stopped it meanwhile (state T): process {', '.join(map(str, sorted(target.stopped)))}"
