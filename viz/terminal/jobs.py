"""Background jobs as text: what they cost in sentences, then by output level and reason, by category, stalls."""

from __future__ import annotations

from collections.abc import Iterator

from ground.results.job_costs import FixedPart, JobCosts, JobCpu, JobDevice, JobRow, JobTotal, StallRow
from viz.terminal.columns import aligned

_MIB = 1 << 20
JOB_HEADS = ("job", "reason", "jobs", "MiB in", "MiB out", "MiB/s", "CPU us/MiB out", "CPUs in a job")
DEVICE_HEADS = (
    "job", "jobs", "MiB out", "MiB read", "device ms/MiB", "MiB written", "device ms/MiB", "discards", "ms of discards",
)  # fmt: skip
DEVICE_WORDS = "Device time of jobs, ms per MiB out (jobs whole within the window of whose)"
CPU_HEADS = "us of CPU per MiB written, by category (jobs whole within perf's window)"


def jobs_text(costs: JobCosts) -> str:
    jobs = sum(row.jobs for row in costs.rows)
    lines = [f"Background jobs ({_jobs(jobs)} from the first window to the last)", *job_sentences(costs), ""]
    lines.append(aligned([JOB_HEADS, *map(job_cells, costs.rows)]))
    if costs.cpu:
        lines += ["", CPU_HEADS, aligned([*part_cells(costs)])]
    if costs.device:
        lines += ["", DEVICE_WORDS, aligned([DEVICE_HEADS, *map(device_cells, costs.device)])]
    lines += [f"  {note}" for note in costs.notes]
    return "\n".join(lines)


def job_sentences(costs: JobCosts) -> list[str]:
    """What jobs used, what one costs whatever it writes, and what held writes back."""
    sentences = [
        *(_used(one, costs.queries_are, costs.seconds) for one in costs.totals),
        *map(_fixed, costs.fixed),
        *map(_stalled, costs.stalls),
        *_stated(costs),
        *_outside(costs),
    ]
    return [one[0].upper() + one[1:] for one in sentences]


def jobs_line(costs: JobCosts) -> str:
    """In one sentence: what jobs used, and for how long writes were held back."""
    parts = []
    for one in costs.totals:
        each = "" if one.us_per_query is None else f" ({one.us_per_query:.2f} us of each {costs.queries_are})"
        parts.append(f"{one.kind} used {one.cpus:.2f} CPUs{each}")
    for row in costs.stalls:
        what = "stopped" if row.stopped else "slowed down"
        parts.append(f"writes {what} for {row.seconds:.2f} s: {row.cause}")
    return f"In the background: {'; '.join(parts)}" if parts else ""


def _used(total: JobTotal, queries_are: str, seconds: float) -> str:
    each = "" if total.us_per_query is None else f", and costs {total.us_per_query:.2f} us of each {queries_are}"
    return (
        f"{total.kind} used {total.cpus:.2f} CPUs{each} ({_jobs(total.jobs)} in {seconds:.1f} s, by the engine's log)"
    )


def _fixed(part: FixedPart) -> str:
    us = part.us
    told = f"{us.estimate:,.0f} us of CPU [{us.low:,.0f}, {us.high:,.0f}]"
    if us.low <= 0:
        return f"no fixed part of a {part.kind} is seen, at most {max(us.high, 0.0):,.0f} us of CPU (n {us.n})"
    return f"the fixed part of a {part.kind} is {told}, and {part.us_per_mib:,.0f} us per MiB written (n {us.n})"


def _stalled(row: StallRow) -> str:
    what = "stopped" if row.stopped else "slowed down"
    times = "once" if row.times == 1 else f"{row.times:,} times"
    known = row.times - row.open
    lasted = f", {row.seconds:.3f} s in all, at most {row.longest:.3f} s" if known else ""
    unknown = f"; the end of {row.open:,} is not known" if row.open else ""
    return f"writes were {what} {times}: {row.cause}{lasted}{unknown}"


def _stated(costs: JobCosts) -> Iterator[str]:
    if costs.held_back_seconds:
        share = f"{costs.held_back_seconds:.3f} of {costs.stated_seconds:.1f} s"
        yield f"writers were held back {share}, by the engine's own count"


def _outside(costs: JobCosts) -> Iterator[str]:
    if costs.deleted:
        cpu = "" if costs.deleting_ns is None else f", {costs.deleting_ns / 1e6:,.0f} ms of CPU in perf's window"
        yield f"{costs.deleted:,} files were deleted after their jobs, in {costs.deleting_seconds:.3f} s{cpu}"
    if costs.in_no_job_ns is not None:
        yield f"the jobs' threads used {costs.in_no_job_ns / 1e6:,.0f} ms of CPU in perf's window outside of any job"


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"


def job_name(kind: str, level: int | None) -> str:
    return f"{kind} to L{level}" if level is not None else kind


def job_cells(row: JobRow) -> list[str]:
    out = row.bytes_out / _MIB
    return [
        job_name(row.kind, row.level),
        row.reason,
        f"{row.jobs:,}",
        f"{row.bytes_in / _MIB:,.1f}",
        f"{out:,.1f}",
        f"{out / row.seconds:,.1f}" if row.seconds > 0 else "-",
        f"{row.cpu_us / out:,.0f}" if row.cpu_us is not None and out else "-",
        f"{row.cpu_us / 1e6 / row.seconds:.2f}" if row.cpu_us is not None and row.seconds > 0 else "-",
    ]


def device_cells(row: JobDevice) -> list[str]:
    return [
        job_name(row.kind, row.level),
        f"{row.jobs:,}",
        f"{row.bytes_out / _MIB:,.1f}",
        *(_moved(row.reads, row.read_bytes, row.read_ns, row.bytes_out)),
        *(_moved(row.writes, row.write_bytes, row.write_ns, row.bytes_out)),
        f"{row.discards:,}",
        f"{row.discard_ns / 1e6:,.1f}",
    ]


def _moved(requests: int, moved: int, ns: int, out: int) -> tuple[str, str]:
    return (f"{moved / _MIB:,.1f}" if requests else "-", f"{ns / 1e6 * _MIB / out:,.2f}" if requests and out else "-")


def part_cells(costs: JobCosts) -> Iterator[list[str]]:
    """Heads, a row for each category that took any, what it adds up to, and the engine's own account beside it."""
    shown = [one for one in costs.cpu if one.bytes_out]
    yield ["", *(job_name(one.kind, one.level) for one in shown)]
    total = {name: sum(one.categories.get(name, 0) for one in shown) for name in costs.labels}
    for name in sorted((name for name, weight in total.items() if weight), key=lambda name: -total[name]):
        yield [name, *(_per_mib(one.categories.get(name, 0) / 1e3, one) for one in shown)]
    yield ["all", *(_per_mib(one.ns / 1e3, one) for one in shown)]
    yield ["by the log", *(_per_mib(one.account_us, one) for one in shown)]
    yield ["jobs", *(f"{one.jobs:,}" for one in shown)]
    yield ["samples", *(f"{one.samples:,}" for one in shown)]


def _per_mib(us: float, one: JobCpu) -> str:
    return f"{us * _MIB / one.bytes_out:,.0f}"
