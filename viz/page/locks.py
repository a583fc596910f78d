"""Who waits for which lock, on a page."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from ground.results.pmp import Locks, LockSite, Pmp, Tally
from viz.figures import left_out
from viz.page.rendering import absent, table
from viz.svg.elements import element

_SHOWN = 40


def lock_panel(locks: Locks, pmp: Pmp | None) -> Markup:
    """Totals, places and owners; shares of the time of the threads that work."""
    total = locks.total.weight_ns
    seconds = pmp.seconds if pmp is not None else 0.0
    rows = [
        _total("waiting for locks", locks.waiting, total, seconds),
        _total("running in lock code", locks.running, total, seconds),
        _total("waiting for conditions", locks.conditions, total, seconds),
        _total("blocked elsewhere", locks.blocked_elsewhere, total, seconds),
    ]
    note = (
        "Waiting for conditions: no work, or a hand-over: no contention by itself. Blocked elsewhere: storage, timers, "
        "network. Threads: how many are there at a time, on average."
    )
    if pmp is not None:
        note += (
            f" {pmp.samples:,} samples of {len(pmp.threads)} threads in {pmp.seconds:.1f} s, {pmp.rate_words} "
            f"({pmp.sampler})."
        )
    if locks.idle_threads:
        note += f" {left_out(locks.idle_threads, locks.idle.weight_ns).capitalize()}."
    found = table("Locks", ["of the time of threads that work", "%", "threads", "samples"], rows, legend=note)
    if not locks.sites:
        return found + absent("No sample was in a lock.")
    return (
        found
        + _sites("Who waits, by the first frame that is no lock primitive", "place", locks.sites, total)
        + _sites("The same by owner category", "owner", locks.owners, total)
    )


def _total(name: str, tally: Tally, total: int, seconds: float) -> list[str]:
    share = f"{100 * tally.weight_ns / total:.2f}" if total else "-"
    return [name, share, f"{tally.weight_ns / 1e9 / seconds:.2f}" if seconds else "-", f"{tally.samples:,}"]


def _sites(title: str, head: str, sites: Sequence[LockSite], total: int) -> Markup:
    named = any(site.kind for site in sites)
    rows: list[list[str]] = []
    for site in sites[:_SHOWN]:
        shares = [f"{100 * tally.weight_ns / total:.2f}" if total else "-" for tally in (site.waiting, site.running)]
        samples = f"{site.waiting.samples + site.running.samples:,}"
        kind = [f"{site.kind}, {site.category}"] if named else []
        rows.append([element("span", site.place, class_="name"), *shares, samples, *kind])
    left = len(sites) - _SHOWN
    heads = [head, "% waiting", "% in lock code", "samples", *(["kind of lock, owner"] if named else [])]
    note = f"And {left} more in locks.json." if left > 0 else ""
    return table(title, heads, rows, "numbers noted places" if named else "numbers places", note)
