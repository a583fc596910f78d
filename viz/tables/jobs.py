"""Background jobs: what they cost in sentences, then by output level and reason, by category, on the device."""

from __future__ import annotations

from collections.abc import Iterator

from ground.results.job_costs import FixedPart, JobCosts, JobCpu, JobDevice, JobRow, JobTotal, StallRow
from ground.text.titles import title_of
from ground.text.tsv import Row
from viz.table import COUNT, MIB, WORDS, Column, Form, Records, Section, Table, Value, fixed, matrix, tsv_only

_MIB = 1 << 20


def jobs_section(costs: JobCosts) -> Section:
    """Sentences, tables, and for programs the categories and stalls."""
    jobs = sum(row.jobs for row in costs.rows)
    return [
        f"Background jobs ({_jobs(jobs)} from the first window to the last)",
        *job_sentences(costs),
        *costs.notes,
        Table("jobs", "Background jobs by output level and reason", _JOBS, costs.rows),
        matrix("us of CPU per MiB written, by category (jobs whole within perf's window)", *_by_category(costs)),
        Records("jobs_by_category", list(_categories(costs))),
        Table(
            "jobs_on_device", "Device time of jobs (jobs whole within the window of requests)", _DEVICE, costs.device
        ),
        Records("stalls", [_stall_record(row) for row in costs.stalls]),
    ]


def job_name(kind: str, level: int | None) -> str:
    return f"{kind} to L{level}" if level is not None else kind


# Of what was not moved at all.
_MOVED = Form(lambda size: MIB.screen(size) if size else "-")
_JOBS = [
    Column[JobRow]("", "job", WORDS, lambda row: job_name(row.kind, row.level)),
    tsv_only("kind"),
    tsv_only("level"),
    Column("reason", "reason", WORDS, lambda row: row.reason),
    Column("jobs", "jobs", COUNT, lambda row: row.jobs),
    Column("in_bytes", "MiB in", MIB, lambda row: row.bytes_in),
    Column("out_bytes", "MiB out", MIB, lambda row: row.bytes_out),
    tsv_only("job_seconds", lambda row: row.seconds),
    tsv_only("cpu_us"),
    Column("", "MiB/s", fixed(1), lambda row: _ratio(row.bytes_out / _MIB, row.seconds)),
    Column("", "CPU us/MiB out", COUNT, lambda row: _ratio(row.cpu_us, row.bytes_out / _MIB)),
    Column("", "CPUs in a job", fixed(2), lambda row: _ratio(row.cpu_us, 1e6 * row.seconds)),
]
_DEVICE = [
    Column[JobDevice]("", "job", WORDS, lambda row: job_name(row.kind, row.level)),
    Column("out_bytes", "MiB out", MIB, lambda row: row.bytes_out),
    tsv_only("kind"),
    tsv_only("level"),
    Column("jobs", "jobs", COUNT, lambda row: row.jobs),
    tsv_only("reads"),
    Column("read_bytes", "MiB read", _MOVED, lambda row: row.read_bytes),
    tsv_only("read_ns"),
    Column("", "device ms/MiB out", fixed(2), lambda row: _ms_a_mib(row.reads, row.read_ns, row.bytes_out)),
    tsv_only("writes"),
    Column("write_bytes", "MiB written", _MOVED, lambda row: row.write_bytes),
    tsv_only("write_ns"),
    Column("", "device ms/MiB out", fixed(2), lambda row: _ms_a_mib(row.writes, row.write_ns, row.bytes_out)),
    Column("discards", "discards", COUNT, lambda row: row.discards),
    Column("discard_ns", "ms of discards", Form(lambda ns: f"{ns / 1e6:,.1f}"), lambda row: row.discard_ns),
]


def _ratio(value: float | None, of: float) -> float | None:
    return value / of if value is not None and of else None


def _ms_a_mib(requests: int, ns: int, out: int) -> float | None:
    return _ratio(ns / 1e6 * _MIB, out) if requests else None


def _by_category(costs: JobCosts) -> tuple[list[str], list[tuple[str, list[Value]]]]:
    """A row for each category that took any, what it adds up to, and the engine's own account beside it."""
    shown = [one for one in costs.cpu if one.bytes_out]
    total = {name: sum(one.categories.get(name, 0) for one in shown) for name in costs.labels}
    names = sorted((name for name, weight in total.items() if weight), key=lambda name: -total[name])
    rows: list[tuple[str, list[Value]]] = [
        (title_of(name), [_us_a_mib(one.categories.get(name, 0) / 1e3, one) for one in shown]) for name in names
    ]
    rows += [
        ("all", [_us_a_mib(one.ns / 1e3, one) for one in shown]),
        ("by the log", [_us_a_mib(one.account_us, one) for one in shown]),
        ("jobs", [one.jobs for one in shown]),
        ("samples", [one.samples for one in shown]),
    ]
    return ["category", *(job_name(one.kind, one.level) for one in shown)], rows if costs.cpu else []


def _us_a_mib(us: float, one: JobCpu) -> float:
    return us * _MIB / one.bytes_out


def _categories(costs: JobCosts) -> Iterator[Row]:
    for one in costs.cpu:
        for name, weight in one.categories.items():
            yield {"kind": one.kind, "level": one.level, "jobs": one.jobs, "out_bytes": one.bytes_out, "category": name,
                   "cpu_ns": weight, "about": costs.labels.get(name, "")}  # fmt: skip


def _stall_record(row: StallRow) -> Row:
    return {"cause": row.cause, "stopped": int(row.stopped), "times": row.times, "all_seconds": row.seconds,
            "longest_seconds": row.longest, "without_end": row.open}  # fmt: skip


def job_sentences(costs: JobCosts) -> list[str]:
    """What jobs used, what one costs whatever it writes, and what held writes back."""
    sentences = [
        *(_used(one, costs.queries_are, costs.seconds) for one in costs.totals),
        *filter(None, map(_fixed, costs.fixed)),
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
        return ""
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
