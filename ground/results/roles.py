"""Whose CPU it is: the threads of a workload told apart by what they do, and the figures of each of them."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ground.results.record import RoleCounters, Window

READER, WRITER, OTHER = "reader", "writer", "other"
# The view of an engine's rules that shows what writers, flushes and compactions do; empty where nothing writes.
WRITES_VIEW = "writes"

# Operations that a thread had finished, each after so many seconds.
Totals = Sequence[tuple[float, int]]


def roles_of_threads(
    background: Mapping[str, str], clients: int, *, with_writer: bool, writes: bool
) -> Callable[[Mapping[int, str], int], dict[int, str]]:
    """A function from the names of the threads (by tid) and the pid of the process to the role of every thread.

    background:  what threads do that serve no query, by the beginning of their names
    clients:     threads that send queries; with_writer: and one more, started before them, that only writes
    writes:      their queries are writes
    The client starts its own threads one after the other and after all else that bears its name; one that gives them
    names has them in `background`, and no clients.
    """

    def roles(names: Mapping[int, str], pid: int) -> dict[int, str]:
        found = {}
        for tid, name in names.items():
            found[tid] = next((role for prefix, role in background.items() if name.startswith(prefix)), OTHER)
        return found | client_roles(names, pid, clients, with_writer=with_writer, writes=writes)

    return roles


def named_alike(names: Mapping[int, str], pid: int) -> list[int]:
    """The tids of the threads that bear the name of the first one, in the order of their start."""
    return sorted(tid for tid, name in names.items() if name == names.get(pid) and tid != pid)


def client_roles(
    names: Mapping[int, str], pid: int, clients: int, *, with_writer: bool, writes: bool
) -> dict[int, str]:
    """Of the threads that a client starts under its own name, as `roles_of_threads` says."""
    own = named_alike(names, pid)
    started = own[-(clients + with_writer) :] if clients else []
    found = dict.fromkeys(started, WRITER if writes else READER)
    if with_writer and len(started) == clients + 1:
        found[started[0]] = WRITER
    return found


def operations_at(totals: Totals, seconds: float) -> float | None:
    """Operations finished after so many seconds, between two lines linearly; None after the last."""
    points = [(0.0, 0), *totals]
    right = bisect.bisect_left(points, seconds, key=lambda point: point[0])
    if right == len(points):
        return None
    if right == 0:
        return 0.0
    (begin, first), (end, last) = points[right - 1], points[right]
    return first + (last - first) * (seconds - begin) / (end - begin)


def query_role(roles: Iterable[str]) -> str:
    """The role whose operations are the queries: readers, and writers where nobody reads."""
    return READER if READER in roles else WRITER


@dataclass(frozen=True)
class RoleFigures:
    """A role over some windows: its CPU in us a query and a second, and its calls of write a second."""

    role: str
    us_per_query: float | None
    us_per_second: float
    share: float
    write_calls: float


def role_figures(windows: Iterable[Window]) -> list[RoleFigures]:
    """Every role that used CPU, over all the windows together; empty where roles were not told apart. Of a target the
    groups of its threads."""
    counted = [window for window in windows if window.counters.roles or window.counters.groups]
    sums: dict[str, RoleCounters] = {}
    for window in counted:
        for role, own in (window.counters.roles or window.counters.groups).items():
            sums[role] = sums.get(role, RoleCounters(0, 0, 0, 0)).plus(own)
    seconds = sum(window.seconds for window in counted)
    queries = sum(window.counters.queries or 0.0 for window in counted)
    cpu = sum(own.cpu_ns for own in sums.values())
    return [
        RoleFigures(
            role,
            own.cpu_ns / 1e3 / queries if queries else None,
            own.cpu_ns / 1e3 / seconds,
            own.cpu_ns / cpu if cpu else 0.0,
            own.write_calls / seconds,
        )
        for role, own in sorted(sums.items(), key=lambda item: -item[1].cpu_ns)
    ]
