"""What a poor man's profiler saw: states, stops, and who waits for which lock."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from ground.results.pmp import Activity, Durations, Locks, LockSite, Pmp, Tally
from ground.results.states import SAMPLED
from ground.text.tsv import Row
from viz.flame.layout import fit, shorter_forms
from viz.printable import printable
from viz.table import (
    ABOUT,
    COUNT,
    NAME,
    PERCENT_2,
    TITLE,
    WORDS,
    Block,
    Column,
    Form,
    Records,
    Section,
    Table,
    fixed,
    tsv_only,
)
from viz.tables.off_cpu import left_out

# Rows that the screen has room for.
_SHOWN = 10
_NAME = 36  # the table of locks then fits the 100 columns of a summary
_LACKING = {
    "ended": "threads ended before they stopped",
    "did_not_stop": "samples of threads that stayed in the kernel: kernel side only",
    "refused": "samples of threads that could not be traced",
    "left_alone": "samples of threads in a system call whose caller would see a stop: kernel side only",
    "moved": "samples of threads that ran on meanwhile: counted as running",
}
_TOTALS = {
    "waiting": "waiting for locks",
    "running": "running in lock code",
    "conditions": "waiting for conditions",
    "blocked_elsewhere": "blocked elsewhere",
}


def _short(name: str) -> str:
    """A frame's name in at most `_NAME` columns, by leaving out scopes and template arguments."""
    name = printable(name)
    return fit(name, shorter_forms(name), _NAME)


_FRAME = Form(_short, NAME.page, left=True)


def pmp_section(pmp: Pmp) -> Section:
    """Samples, states and stops, and what is missing."""
    how = {"dwarf": "stacks copied and unwound", "fp": "frame pointers", "gdb": "gdb's stacks"}.get(pmp.callgraph, "")
    states = [
        Column[tuple[str, Tally]]("state", "state", WORDS, lambda row: row[0]),
        Column("samples", "samples", COUNT, lambda row: row[1].samples),
        tsv_only("weight_ns", lambda row: row[1].weight_ns),
        Column("", "%", PERCENT_2, lambda row: 100 * row[1].weight_ns / pmp.weight_ns if pmp.weight_ns else 0.0),
        Column("", "thread seconds", fixed(2), lambda row: row[1].weight_ns / 1e9),
        Column("", "what it is", ABOUT, lambda row: SAMPLED.get(row[0])),
    ]
    whom = "all threads at once" if pmp.whole_process else "one thread, the others ran on"
    cpu = pmp.cpu_ns / 1e9 / pmp.seconds if pmp.seconds else 0.0
    held = pmp.held.total_ns / 1e9 / pmp.seconds if pmp.seconds else 0.0
    if not pmp.whole_process and pmp.threads:
        held /= len(pmp.threads)
    threads: list[Row] = [
        {"tid": thread.tid, "thread": thread.name, "state": state, **dataclasses.asdict(tally)}
        for thread in pmp.threads
        for state, tally in thread.states.items()
    ]
    return [
        "Poor man's profile (wall-clock samples of every thread)",
        f"{pmp.samples:,} samples of {len(pmp.threads)} threads in {pmp.seconds:.1f} s, {pmp.rate_words}, "
        f"{pmp.sampler}, {how}",
        f"a stop held {whom}: {_durations(pmp.held)}",
        f"each thread was stopped for {held:.4%} of the time; the sampler took {cpu:.2%} of one CPU",
        *(f"note: {words}" for words in [*_lacking(pmp), *pmp.notes]),
        Table("pmp_states", "States of threads", states, list(pmp.states.items())),
        Records("pmp_threads", threads),
        Records("pmp_places", [dataclasses.asdict(place) for place in pmp.places]),
    ]


def _durations(durations: Durations) -> str:
    if not durations.n:
        return "none"
    mean, p99, most = (ns / 1e3 for ns in (durations.mean_ns, durations.p99_ns, durations.max_ns))
    return f"mean {mean:,.0f} us, p99 {p99:,.0f} us, max {most:,.0f} us, n {durations.n:,}"


def _lacking(pmp: Pmp) -> Iterator[str]:
    for name, text in _LACKING.items():
        if count := getattr(pmp.lacking, name):
            yield f"{count:,} {text}"
    if pmp.late_rounds:
        yield f"{pmp.late_rounds:,} rounds were left out: one lasted longer than {1e3 / pmp.hz:.0f} ms"


def locks_section(locks: Locks, pmp: Pmp | None) -> Section:
    """How much of the threads' time is spent on locks, where, and for whom."""
    total, seconds = locks.total.weight_ns, pmp.seconds if pmp is not None else 0.0
    names = ("total", "waiting", "running", "conditions", "blocked_elsewhere", "idle")
    columns = [
        tsv_only("what", lambda row: row[0]),
        Column[tuple[str, Tally]]("", "time of threads that work", WORDS, lambda row: _TOTALS.get(row[0])),
        Column("", "%", PERCENT_2, lambda row: 100 * row[1].weight_ns / total if total else None),
        Column("", "threads", fixed(2), lambda row: row[1].weight_ns / 1e9 / seconds if seconds else None),
        Column("samples", "samples", COUNT, lambda row: row[1].samples),
        tsv_only("weight_ns", lambda row: row[1].weight_ns),
    ]
    legend = (
        "Waiting for conditions: no work, or a hand-over: no contention by itself. Blocked elsewhere: storage, timers, "
        "network. Threads: how many are there at a time, on average."
    )
    section: list[Block] = [
        Table("locks", "Locks", columns, [(name, getattr(locks, name)) for name in names], legend=legend,
              where=lambda row: row[0] in _TOTALS)
    ]  # fmt: skip
    if locks.idle_threads:
        section.append(left_out(locks.idle_threads, locks.idle.weight_ns))
    if pmp is not None and pmp.activity is not None:
        section += _activity(pmp.activity)
    if not locks.sites:
        section.append("no sample was in a lock")
    who = "Who waits, by the first frame that is no lock primitive"
    return [
        *section,
        _sites("lock_sites", who, locks.sites, total),
        _sites("lock_owners", "The same by category" if locks.sites else "", locks.owners, total),
        _sites("condition_sites", "", locks.condition_sites, total),
    ]


def _activity(activity: Activity) -> Iterator[str]:
    per_second = activity.switches / activity.seconds
    own = activity.voluntary_switches / activity.seconds
    yield (
        f"  the process: {per_second:,.0f} context switches/s ({own:,.0f} voluntary), us {activity.user_cpus:.2f} + "
        f"sy {activity.system_cpus:.2f} CPUs"
    )
    yield (
        f"  the host:    {activity.host_switches / activity.seconds:,.0f} cs/s, us+sy "
        f"{100 * (activity.host_user + activity.host_system):.1f} % of all CPUs"
    )


def _sites(name: str, title: str, sites: Sequence[LockSite], total: int) -> Table[LockSite]:
    def share(tally: Tally) -> float | None:
        return 100 * tally.weight_ns / total if total else None

    # A category has no kind of lock.
    kind: list[Column[LockSite]] = [
        Column("kind", "kind", WORDS, lambda site: site.kind),
        Column("category", "category", TITLE, lambda site: site.category),
    ]
    if not any(site.kind for site in sites):
        kind = [tsv_only("kind"), tsv_only("category")]
    columns = [
        Column[LockSite](
            "place", "place", _FRAME if any(site.kind for site in sites) else TITLE, lambda site: site.place
        ),
        *kind,
        Column("", "% waiting", PERCENT_2, lambda site: share(site.waiting)),
        tsv_only("waiting_samples", lambda site: site.waiting.samples),
        tsv_only("waiting_ns", lambda site: site.waiting.weight_ns),
        Column("", "% in lock code", PERCENT_2, lambda site: share(site.running)),
        tsv_only("running_samples", lambda site: site.running.samples),
        tsv_only("running_ns", lambda site: site.running.weight_ns),
        Column("", "samples", COUNT, lambda site: site.waiting.samples + site.running.samples),
    ]
    return Table(name, title, columns, sites, most=_SHOWN)
