"""Figures of a run that the page and the terminal both print: which, in what form, and what is worked out for both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ground.results.interval import Interval
from ground.results.metrics import METRICS, WINDOW_COLUMNS, WINDOW_COLUMNS_UNCOUNTED, metrics_of
from ground.results.off_cpu import STATES, OffCpu, Thread, WallClock
from ground.results.record import RunRecord

__all__ = (
    "FIRST",
    "HEADLINE",
    "CannotBeError",
    "StateTime",
    "interval_text",
    "left_out",
    "schedstat_is_above",
    "states_of_working",
    "where_it_goes",
    "window_rows",
)

# Figures that are shown of each run, with their forms; and those of them that are read first.
HEADLINE = tuple((name, one.form_with_unit) for name, one in METRICS.items() if one.headline)
FIRST = tuple(name for name, one in METRICS.items() if one.first)


class CannotBeError(Exception):
    """A file of a run holds a figure or a name that cannot be."""


def window_rows(record: RunRecord) -> list[list[str]]:
    """The windows as text: a row of heads, then one each; `-` for what was not measured."""
    names = WINDOW_COLUMNS if record.target is None or record.target.count else WINDOW_COLUMNS_UNCOUNTED
    rows = [["window", "seconds", *names]]
    for window in record.windows:
        metrics = metrics_of(record, [window])
        cells = [METRICS[name].form.format(metrics[name]) if name in metrics else "-" for name in names]
        rows.append([window.kind, f"{window.seconds:.1f}", *cells])
    return rows


def where_it_goes(record: RunRecord) -> str:
    """The head of the tables of categories."""
    counted = record.target is None or bool(record.target.count)
    return "Where the CPU of one query goes" if counted else "Where the CPU goes"


def interval_text(form: str, interval: Interval, between: str) -> str:
    """Both ends of an interval as `form` prints its figure, without the unit."""
    bare = form.partition("}")[0] + "}"
    return f"{bare.format(interval.low)}{between}{bare.format(interval.high)}"


def left_out(threads: int, ns: int, kind: str = "idle", why: str = "next to nothing to do") -> str:
    """A line on the threads that a table is without."""
    return f"left out: {threads} {kind} thread{'s' * (threads != 1)} ({why}; {ns / 1e9:.3f} s)"


def schedstat_is_above(clock: WallClock) -> bool:
    """Whether schedstat counts more CPU than the threads ran: it has those woken on an idle CPU before they are in."""
    return clock.cpu_ns is not None and clock.cpu_ns > 1.01 * clock.ran_ns


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
        # A state that a run of an older version did not tell apart is in another of it.
        if state not in off.states:
            continue
        shared = any(thread.off_ns.get(state) for thread in idle)
        ns = sum(thread.off_ns.get(state, 0) for thread in working)
        states.append(StateTime(state, ns, None if shared else off.states[state].count))
    return states, working, idle
