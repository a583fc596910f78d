"""Every figure of a measured run by one name, for the columns of an experiment's table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ground.results.accounts import Account
from ground.results.categories import Categories
from ground.results.pmp import Locks
from ground.results.record import RunRecord, Window
from ground.results.roles import role_figures


def run_figures(
    record: RunRecord, views: Mapping[str, Categories], locks: Locks | None, accounts: Sequence[Account] = ()
) -> dict[str, float]:
    """The engine's closing line and its statistics; over them the figures of `LEGEND` from the plain windows.

    NAME.low, NAME.high: the 95 % interval of a figure of `LEGEND` by the run's seconds
    role.ROLE:     CPU us per query of the threads of a role, where something writes
    VIEW.CATEGORY: CPU us per query of a category; those of the threads that send queries
    ACCOUNT.ROW:   of an account of `accounts.json`, in its unit
    window.NAME:   sums over the plain windows: counters, what all CPUs did, what the engine's own log states
    locks.NAME:    ns of thread time by the poor man's profiler: in all, waiting for locks
    """
    found = {**record.writes, **record.engine_result, **record.metrics}
    for name, interval in record.intervals.items():
        found |= {f"{name}.low": interval.low, f"{name}.high": interval.high}
    plain = [window for window in record.windows if window.kind == "plain"]
    found |= {f"window.{name}": value for name, value in _sums(plain).items()}
    if locks is not None:
        found |= {"locks.total": locks.total.weight_ns, "locks.waiting": locks.waiting.weight_ns}
    found |= {f"role.{one.role}": one.us_per_query for one in role_figures(plain) if one.us_per_query is not None}
    for view, table in views.items():
        found |= {f"{view}.{row.name}": row.us_per_query for row in table.rows if row.us_per_query is not None}
    for one in accounts:
        found |= {one.row_name(one.name, row): value for row, value in one.by_work().items()}
    return found


def _sums(windows: Iterable[Window]) -> dict[str, float]:
    """cs, us, sy, id, wa, st, all: the host's context switches, and its CPUs' time in ticks, as vmstat names them."""
    found: Counter[str] = Counter()
    for window in windows:
        own, host = window.counters, window.counters.host
        found.update({
            "seconds": window.seconds, "queries": own.queries or 0.0, "cpu_us": own.cpu_ns / 1e3,
            "switches": own.voluntary_switches + own.involuntary_switches,
            "minor_faults": own.minor_faults, "major_faults": own.major_faults,
            "read_kib": own.process_read_bytes / 1024, "device_read_kib": own.storage_read_bytes / 1024,
            "reads": own.storage_reads, **window.engine,
        })  # fmt: skip
        if host is not None:
            times = {"us": host.user, "sy": host.system, "id": host.idle, "wa": host.iowait, "st": host.steal}
            found.update({"cs": host.switches, "all": sum(times.values()), **times})
    return dict(found)
