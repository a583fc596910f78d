"""Off-CPU time, the wall clock that it makes up with the time on a CPU, and waits for a CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from ground.results.histogram import Histogram
from ground.results.off_cpu import OffCpu, OffStack, RunQueue, Thread, WallClock, WallRow
from ground.results.states import STATES
from ground.text.tsv import Row
from viz.columns import cut
from viz.printable import printable
from viz.table import (
    ABOUT,
    COUNT,
    MS,
    PERCENT_2,
    TITLE,
    Block,
    Column,
    Form,
    Records,
    Section,
    Table,
    fixed,
    histogram_columns,
)

# Of a run-queue wait: what it began with.
WAITS = {"woken": "after a wake-up", "preempted": "after preemption", "started": "of a new thread"}
_ON_CPU = "on-CPU"
# States that are shown though no time was spent in them.
_ALWAYS = (_ON_CPU, "io", "lock")


@dataclass(frozen=True, slots=True)
class StateTime:
    """ns that threads spent in a state; count: how many stretches, None where idle threads have a part in them"""

    state: str
    ns: int
    count: int | None


def states_of_working(off: OffCpu) -> tuple[list[StateTime], Sequence[Thread], Sequence[Thread]]:
    """The states off the CPU of the threads that work; these threads, and the idle ones that are left out.

    Where every thread is idle, none is left out.
    """
    idle = [thread for thread in off.threads if thread.is_idle]
    working = [thread for thread in off.threads if not thread.is_idle]
    if not working:
        working, idle = list(off.threads), []
    states = []
    for state in STATES:
        # A state that an older version did not distinguish is part of another state of that run.
        if state not in off.states:
            continue
        shared = any(thread.off_ns.get(state) for thread in idle)
        ns = sum(thread.off_ns.get(state, 0) for thread in working)
        states.append(StateTime(state, ns, None if shared else off.states[state].count))
    return states, working, idle


def left_out(threads: int, ns: int, kind: str = "idle", why: str = "next to nothing to do") -> str:
    """A line on the threads that a table is without."""
    return f"left out: {threads} {kind} thread{'s' * (threads != 1)} ({why}; {ns / 1e9:.3f} s)"


def schedstat_is_above(clock: WallClock) -> bool:
    """Whether schedstat counts more CPU than the threads ran: it has those woken on an idle CPU before they are in."""
    return clock.cpu_ns is not None and clock.cpu_ns > 1.01 * clock.ran_ns


def off_cpu_section(off: OffCpu) -> Section:
    """States of the threads that work by time, with their shares of these threads' time and the mean of a stretch.

    A state in which idle threads spent time, too, has no number of stretches of its own.
    """
    states, working, idle = states_of_working(off)
    elapsed = sum(thread.life_ns for thread in working) or 1
    rows = [StateTime(_ON_CPU, sum(thread.ran_ns for thread in working), None), *states]
    about = {_ON_CPU: "switch-in to switch-out", **STATES}
    columns = [
        Column[StateTime]("", "state", TITLE, lambda row: row.state),
        Column("", "ms", MS, lambda row: row.ns),
        Column("", "% of time", PERCENT_2, lambda row: 100 * row.ns / elapsed),
        Column("", "n", COUNT, lambda row: row.count),
        Column("", "mean, us", fixed(1), lambda row: row.ns / row.count / 1e3 if row.count else None),
        Column("", "what it is", ABOUT, lambda row: about.get(row.state), on="page"),
    ]
    section: list[Block] = [
        f"Where the threads wait (off-CPU; {len(working)} thread{'s' * (len(working) != 1)}, {off.seconds:.1f} s)",
        *([left_out(len(idle), sum(thread.life_ns for thread in idle))] if idle else []),
        Records("states", [{"state": name, "ns": of.ns, "count": of.count} for name, of in off.states.items()]),
        Records("threads", list(_threads(off))),
    ]
    whole = StateTime("all", sum(row.ns for row in rows), None)
    table = Table("", "States of the threads that work", columns, rows, [whole],
                  where=lambda row: bool(working and (row.ns or row.state in _ALWAYS)))  # fmt: skip
    return [*section, table]


def _threads(off: OffCpu) -> Iterator[Row]:
    for thread in off.threads:
        for state, ns in ((_ON_CPU, thread.ran_ns), *thread.off_ns.items()):
            yield {"tid": thread.tid, "thread": thread.comm, "idle": "yes" if thread.is_idle else "no",
                   "state": state, "ns": ns}  # fmt: skip


def wall_clock_section(clock: WallClock) -> Section:
    """On-CPU and each state, split by category, in us per query where queries are known, else in ms."""
    queries, total = clock.queries or None, clock.elapsed_ns or 1
    columns = [
        Column[WallRow]("", "wall clock", TITLE, lambda row: row.state),
        Column("", "category", TITLE, lambda row: row.category),
        Column(
            "",
            "us/query" if queries else "ms",
            fixed(3),
            lambda row: row.ns / 1e3 / queries if queries else row.ns / 1e6,
        ),
        Column("", "%", PERCENT_2, lambda row: 100 * row.ns / total),
    ]
    rows: list[WallRow] = []
    for state, group in groupby(clock.rows, key=lambda row: row.state):
        parts = list(group)
        named = sorted((part for part in parts if part.category), key=lambda row: -row.ns)
        split = len(parts) > 1 or bool(named and named[0].category != "other")
        rows += [WallRow(state, "all", sum(part.ns for part in parts)), *(named if split else [])]
    if abs(clock.unseen_ns) * 1000 > total:
        rows.append(WallRow("not seen", "", clock.unseen_ns))
    records: list[Row] = [
        {"state": row.state, "category": row.category, "ns": row.ns,
         "us_per_query": row.ns / 1e3 / queries if queries else None}
        for row in clock.rows
    ]  # fmt: skip
    threads = f"{clock.elapsed_ns / 1e9:.1f} s of {clock.threads} thread{'s' * (clock.threads != 1)}"
    title = "Wall clock by category, on and off the CPU"
    table = Table("", title, columns, rows, [WallRow("all", "", clock.elapsed_ns)], f"Elapsed time: {threads}. "
                  "On-CPU by the shares of the CPU profile, off-CPU by the stacks that waited.")  # fmt: skip
    return [Records("wallclock", records), table, *_without(clock)]


def _without(clock: WallClock) -> Iterator[str]:
    if clock.idle_threads:
        yield left_out(clock.idle_threads, clock.idle_ns)
    if clock.background_threads:
        yield left_out(clock.background_threads, clock.background_ns, "background", "they serve no query")
    if clock.cpu_ns is not None and clock.ran_ns:
        more = 100 * (clock.cpu_ns / clock.ran_ns - 1)
        yield f"on-CPU is switch-in to switch-out; schedstat says {clock.cpu_ns / 1e6:,.3f} ms ({more:+.1f} %)"
    if schedstat_is_above(clock):
        yield "  it counts a thread that wakes on an idle CPU as running before it is switched in"


def run_queue_section(queue: RunQueue) -> Section:
    """Waits for a CPU by what they began with: percentiles, the longest, the sum."""
    seconds = queue.seconds
    columns = [
        Column[tuple[str, Histogram]](
            "wait", "us", Form(lambda kind: WAITS.get(kind, kind), left=True), lambda row: row[0]
        ),
        *histogram_columns(lambda row: row[1], 99.99),
        Column("", "sum, ms", MS, lambda row: row[1].sum_ns),
    ]
    switches = queue.voluntary + queue.involuntary
    rate = switches / seconds if seconds else 0
    return [
        f"Run-queue waits (process {queue.pid}, {seconds:.1f} s)",
        f"context switches: {queue.voluntary:,} voluntary, {queue.involuntary:,} involuntary ({rate:,.0f}/s)",
        *([f"{queue.backend}: {queue.how}"] if queue.how else []),
        Table("runqlat", "By what came before", columns, list(queue.waits.items())),
    ]


def stack_list(stacks: Sequence[OffStack], most: int, width: int = 100) -> str:
    """The stacks with most time, leaf first, as many frames as the width holds; threads of one name are one."""
    sums: dict[tuple[str, str, tuple[str, ...]], tuple[int, int]] = {}
    for stack in stacks:
        key = (stack.state, stack.comm, tuple(_telling(stack.frames)))
        ns, count = sums.get(key, (0, 0))
        sums[key] = (ns + stack.ns, count + stack.count)
    lines = []
    for (state, comm, frames), (ns, count) in sorted(sums.items(), key=lambda item: -item[1][0])[:most]:
        head = f"{ns / 1e6:>12,.3f} ms {count:>9,}  {state:<10} "
        text = printable(f"{comm}: {' < '.join(frames)}")
        lines.append(head + cut(text, max(width - len(head), 20)))
    return "\n".join(lines)


def _telling(frames: Sequence[str]) -> list[str]:
    """Leaf first, without the scheduler's own frames, and of the kernel's the two nearest to the wait."""
    kernel = [frame for frame in reversed(frames) if frame.endswith("_[k]")]
    said = [
        frame for frame in kernel if not frame.startswith(("__schedule", "schedule", "io_schedule", "blk_io_schedule"))
    ]
    return [*said[:2], *(frame for frame in reversed(frames) if not frame.endswith("_[k]"))]
