"""Off-CPU time, run-queue waits and the wall clock they make up, as tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ground.results.off_cpu import OffCpu, OffStack, RunQueue, WallClock, WallRow
from viz.figures import StateTime, left_out, schedstat_is_above, states_of_working
from viz.printable import printable
from viz.terminal.columns import cut, microseconds, narrow


def off_cpu_table(off: OffCpu) -> str:
    """States of the threads that work by time, with their shares of these threads' time and the mean of a stretch.

    Idle threads are a line below; a state in which they spent time, too, has no number of stretches of its own.
    """
    states, working, idle = states_of_working(off)
    elapsed = sum(thread.life_ns for thread in working) or 1
    rows = [StateTime("on-CPU", sum(thread.ran_ns for thread in working), None), *states]
    seconds = (off.end_ns - off.start_ns) / 1e9
    lines = [
        f"Where the threads wait (off-CPU; ms; {_threads(len(working))}, {seconds:.1f} s)",
        f"{'':<16}{'ms':>14}{'% of time':>11}{'n':>12}{'mean us':>12}",
    ]
    for row in rows:
        if row.ns or row.state in ("on-CPU", "io", "lock"):
            mean = f"{row.ns / row.count / 1e3:,.1f}" if row.count else "-"
            counted = f"{row.count:,}" if row.count is not None else "-"
            lines.append(f"{row.state:<16}{row.ns / 1e6:>14,.3f}{100 * row.ns / elapsed:>11.2f}{counted:>12}{mean:>12}")
    total = sum(row.ns for row in rows)
    lines.append(f"{'all':<16}{total / 1e6:>14,.3f}{100 * total / elapsed:>11.2f}")
    if idle:
        lines.append(left_out(len(idle), sum(thread.life_ns for thread in idle)))
    return "\n".join(lines) + "\n"


def _threads(count: int) -> str:
    return f"{count} thread{'s' * (count != 1)}"


def wall_clock_table(clock: WallClock) -> str:
    """On-CPU and each state, split by category, in us per query where queries are known, else in ms."""
    by_query = clock.queries is not None and clock.queries > 0
    total = clock.elapsed_ns or 1
    head = "us/query" if by_query else "ms"

    def line(name: str, ns: int) -> str:
        figure = ns / 1e3 / (clock.queries or 1) if by_query else ns / 1e6
        return f"{cut(name, 24):<24}{figure:>14,.3f}{100 * ns / total:>9.2f}"

    whole = f"{clock.elapsed_ns / 1e9:.1f} s of {clock.threads} thread{'s' * (clock.threads != 1)}"
    lines = [
        f"Wall clock by category ({whole}{', per query' if by_query else ''}, idle threads left out)",
        f"{'':<24}{head:>14}{'%':>9}",
    ]
    for state, group in groupby(clock.rows, key=lambda row: row.state):
        rows: list[WallRow] = list(group)
        lines.append(line(state, sum(row.ns for row in rows)))
        named = [row for row in rows if row.category]
        if len(named) > 1 or (named and named[0].category != "other"):
            lines += [line(f"  {row.category}", row.ns) for row in sorted(named, key=lambda row: -row.ns)]
    if abs(clock.unseen_ns) * 1000 > total:
        lines.append(line("not seen", clock.unseen_ns))
    lines.append(line("all", clock.elapsed_ns))
    lines.append("")
    if clock.idle_threads:
        lines.append(left_out(clock.idle_threads, clock.idle_ns))
    if clock.background_threads:
        lines.append(left_out(clock.background_threads, clock.background_ns, "background", "they serve no query"))
    if clock.cpu_ns is not None and clock.ran_ns:
        more = 100 * (clock.cpu_ns / clock.ran_ns - 1)
        lines.append(f"on-CPU is switch-in to switch-out; schedstat says {clock.cpu_ns / 1e6:,.3f} ms ({more:+.1f} %)")
    if schedstat_is_above(clock):
        lines.append("  it counts a thread woken on an idle CPU as running before it is switched in")
    return "\n".join(lines) + "\n"


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
    return "\n".join(lines) + "\n" if lines else ""


def _telling(frames: Sequence[str]) -> list[str]:
    """Leaf first, without the scheduler's own frames, and of the kernel's the two nearest to the wait."""
    kernel = [frame for frame in reversed(frames) if frame.endswith("_[k]")]
    said = [
        frame for frame in kernel if not frame.startswith(("__schedule", "schedule", "io_schedule", "blk_io_schedule"))
    ]
    return [*said[:2], *(frame for frame in reversed(frames) if not frame.endswith("_[k]"))]


def run_queue_table(queue: RunQueue) -> str:
    """Waits for a CPU by what they began with: percentiles, the longest, the sum."""
    seconds = (queue.end_ns - queue.start_ns) / 1e9
    rows = [["", "n", "mean", "p50", "p90", "p99", "p99.9", "max", "sum ms"]]
    for kind in ("woken", "preempted", "started"):
        wait = queue.waits[kind]
        figures = [
            wait.mean_ns,
            *(wait.percentile(p) for p in (50, 90, 99, 99.9)),
            wait.most_ns if wait.count else None,
        ]
        shown = ["-" if ns is None else microseconds(ns) for ns in figures]
        rows.append([kind, f"{wait.count:,}", *shown, f"{wait.sum_ns / 1e6:,.3f}"])
    lines = [f"Waits for a CPU (us; process {queue.pid}, {seconds:.1f} s)", *narrow(rows, 1)]
    switches = queue.voluntary + queue.involuntary
    rate = switches / seconds if seconds else 0
    lines.append(f"context switches: {queue.voluntary:,} voluntary, {queue.involuntary:,} involuntary ({rate:,.0f}/s)")
    if queue.how:
        lines.append(f"{queue.backend}: {queue.how}")
    return "\n".join(lines) + "\n"
