"""What a poor man's profiler saw, as text: states, stops, and the lock report."""

from __future__ import annotations

from collections.abc import Sequence

from ground.results.pmp import Activity, Durations, Locks, LockSite, Pmp, Tally
from ground.results.states import SAMPLED
from viz.figures import left_out
from viz.flame.layout import fit, shorter_forms
from viz.printable import printable
from viz.terminal.columns import aligned

_SHOWN = 10
_NAME = 44  # the table of locks then fits the 100 columns of a summary


def render_pmp(pmp: Pmp) -> str:
    """Samples, states and stops, and what is missing."""
    how = {"dwarf": "stacks copied and unwound", "fp": "frame pointers", "gdb": "gdb's stacks"}.get(pmp.callgraph, "")
    lines = [
        "Poor man's profile (wall-clock samples of every thread)",
        f"{pmp.samples:,} samples of {len(pmp.threads)} threads in {pmp.seconds:.1f} s, {pmp.rate_words}, "
        f"{pmp.sampler}, {how}",
    ]
    rows, words = [["state", "share", "thread seconds", "samples"]], [""]
    for state, about in SAMPLED.items():
        tally = pmp.states.get(state)
        if tally:
            share = tally.weight_ns / pmp.weight_ns if pmp.weight_ns else 0.0
            rows.append([f"{state}", f"{share:.1%}", f"{tally.weight_ns / 1e9:.2f}", f"{tally.samples:,}"])
            words.append(about)
    table = zip(aligned(rows).split("\n"), words, strict=True)
    lines += ["", *(f"{line}  {about}".rstrip() for line, about in table)]
    whom = "all threads at once" if pmp.whole_process else "one thread, the others ran on"
    lines += ["", f"a stop held {whom}: {_durations(pmp.held)}"]
    cpu = pmp.cpu_ns / 1e9 / pmp.seconds if pmp.seconds else 0.0
    held = pmp.held.total_ns / 1e9 / pmp.seconds if pmp.seconds else 0.0
    if not pmp.whole_process and pmp.threads:
        held /= len(pmp.threads)
    lines.append(f"each thread was stopped for {held:.4%} of the time; the sampler took {cpu:.2%} of one CPU")
    return "\n".join([*lines, *_lacking(pmp), *(f"note: {note}" for note in pmp.notes)])


def _durations(durations: Durations) -> str:
    if not durations.n:
        return "none"
    mean, p99, most = (ns / 1e3 for ns in (durations.mean_ns, durations.p99_ns, durations.max_ns))
    return f"mean {mean:,.0f} us, p99 {p99:,.0f} us, max {most:,.0f} us, n {durations.n:,}"


def _lacking(pmp: Pmp) -> list[str]:
    words = {
        "ended": "threads ended before they stopped",
        "did_not_stop": "samples of threads that stayed in the kernel: kernel side only",
        "refused": "samples of threads that could not be traced",
        "left_alone": "samples of threads in a system call whose caller would see a stop: kernel side only",
        "moved": "samples of threads that ran on meanwhile: counted as running",
    }
    found = [
        f"note: {getattr(pmp.lacking, name):,} {text}" for name, text in words.items() if getattr(pmp.lacking, name)
    ]
    if pmp.late_rounds:
        found.append(f"note: {pmp.late_rounds:,} rounds were left out: one lasted longer than {1e3 / pmp.hz:.0f} ms")
    return found


def render_locks(locks: Locks, activity: Activity | None) -> str:
    """The lock report: how much of the threads' time is spent on locks, where, and for whom."""
    total = locks.total.weight_ns
    lines = ["Locks (share of the time of the threads that work)"]
    rows = [
        ["", "share", "threads", "samples"],
        _total("waiting for locks", locks.waiting, total),
        _total("running in lock code", locks.running, total),
        _total("waiting for conditions (no work, or a hand-over)", locks.conditions, total),
        _total("blocked elsewhere (storage, timers, network)", locks.blocked_elsewhere, total),
    ]
    seconds = activity.seconds if activity else 0.0
    for row, tally in zip(
        rows[1:], (locks.waiting, locks.running, locks.conditions, locks.blocked_elsewhere), strict=True
    ):
        row[2] = f"{tally.weight_ns / 1e9 / seconds:.2f}" if seconds else "-"
    lines.append(aligned(rows))
    if locks.idle_threads:
        lines.append("  " + left_out(locks.idle_threads, locks.idle.weight_ns))
    if activity is not None:
        lines.append(_activity(activity))
    if locks.sites:
        lines += ["", "Who waits, by the first frame that is no lock primitive", _sites(locks.sites, total)]
        lines += ["", "The same by owner category", _sites(locks.owners, total, "category")]
    else:
        lines.append("no sample was in a lock")
    return "\n".join(lines)


def _total(name: str, tally: Tally, total: int) -> list[str]:
    return [name, f"{tally.weight_ns / total:.1%}" if total else "-", "", f"{tally.samples:,}"]


def _activity(activity: Activity) -> str:
    per_second = activity.switches / activity.seconds
    own = activity.voluntary_switches / activity.seconds
    return (
        f"  the process: {per_second:,.0f} context switches/s ({own:,.0f} voluntary), us {activity.user_cpus:.2f} + "
        f"sy {activity.system_cpus:.2f} CPUs\n"
        f"  the host:    {activity.host_switches / activity.seconds:,.0f} cs/s, us+sy "
        f"{100 * (activity.host_user + activity.host_system):.1f} % of all CPUs"
    )


def _sites(sites: Sequence[LockSite], total: int, first: str = "place") -> str:
    with_kind = any(site.kind for site in sites)
    head = [first, *(["kind", "category"] if with_kind else []), "waiting", "in lock code", "samples"]
    rows = [head]
    for site in sites[:_SHOWN]:
        waiting, running = (tally.weight_ns / total if total else 0.0 for tally in (site.waiting, site.running))
        samples = site.waiting.samples + site.running.samples
        kind = [site.kind, printable(site.category)] if with_kind else []
        rows.append([_short(site.place), *kind, f"{waiting:.2%}", f"{running:.2%}", f"{samples:,}"])
    text = aligned(rows)
    left = len(sites) - _SHOWN
    return text + (f"\n  and {left} more in locks.json" if left > 0 else "")


def _short(name: str) -> str:
    """A frame's name in at most `_NAME` columns, by leaving out scopes and template arguments."""
    name = printable(name)
    return fit(name, shorter_forms(name), _NAME)
