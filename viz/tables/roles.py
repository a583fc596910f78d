"""The CPU of a workload that writes by what its threads do, of a target by groups of threads; what was written."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ground.results.categories import Categories
from ground.results.record import RunRecord, Window
from ground.results.roles import RoleFigures, role_figures
from viz.figures import number_text
from viz.table import COUNT, TITLE, WORDS, Column, Section, Table, fixed, of_cells

# In percent: groups of a target that used less are counted, and not listed.
_LEAST_SHARE = 0.1


def roles_section(record: RunRecord) -> Section:
    """Nothing of a workload whose threads were not told apart."""
    figures = role_figures(window for window in record.windows if window.kind == "plain")
    target = record.target
    threads = target.groups if target is not None else record.roles
    columns = [
        Column[RoleFigures]("role", "role" if target is None else "threads", WORDS, lambda one: one.role),
        Column("threads", "threads" if target is None else "number", COUNT, lambda one: len(threads.get(one.role, []))),
        Column("us_per_query", "CPU us/query", fixed(2), lambda one: one.us_per_query),
        Column("cores", "cores", fixed(4), lambda one: one.us_per_second / 1e6),
        Column("share_percent", "% of CPU", fixed(1), lambda one: 100 * one.share),
    ]
    if target is None:
        columns.append(Column("write_calls_per_s", "write calls/s", COUNT, lambda one: one.write_calls))
        title = "CPU by role (baseline windows; by the scheduler's clock, thread by thread)"
        return [Table("roles", title, columns, figures), *_written(record)] if figures else []
    small = sum(100 * one.share < _LEAST_SHARE for one in figures)
    return [
        Table(
            "roles", "Whose CPU: threads by name (baseline windows; by the scheduler's clock)", columns, figures,
            legend=f"{small} others used less than {_LEAST_SHARE} %." * bool(small),
            where=lambda one: 100 * one.share >= _LEAST_SHARE,
        )
    ]  # fmt: skip


def _written(record: RunRecord) -> Section:
    """What was written in each window, by the engine's log and by the device."""

    def mib_per_s(name: str) -> Callable[[Window], float | None]:
        return lambda one: None if name not in one.engine else one.engine[name] * 1024 / one.seconds

    columns = [
        Column[Window]("window", "window", TITLE, lambda one: one.kind),
        Column("seconds", "seconds", fixed(1), lambda one: one.seconds),
        Column("flushed_mib_per_s", "flushed MiB/s", fixed(1), mib_per_s("flushed_gb")),
        Column("compacted_mib_per_s", "compacted MiB/s", fixed(1), mib_per_s("compacted_gb")),
        Column(
            "device_writes_mib_per_s", "device writes MiB/s", fixed(1),
            lambda one: one.counters.storage_write_bytes / 2**20 / one.seconds,
        ),
        Column("stalled_s", "stalled s", fixed(2), lambda one: one.engine.get("stall_seconds")),
    ]  # fmt: skip
    title = (
        "Writes by window (table files by when they were finished, by the engine's log; the device: others' writes too)"
    )
    return [Table("writes_by_window", title, columns, record.windows)] if any(w.engine for w in record.windows) else []


def role_parts_section(roles: Mapping[str, Categories]) -> Section:
    """What each role that writes does. roles: the view of writes of each, with us of its CPU per query"""
    tables = list(roles.values())
    heads = ["part", *(head for role in roles for head in (f"{role} %", "us/query"))]
    rows = [
        [rows[0].name, *(cell for row in rows for cell in (f"{row.share:.1f}", number_text(row.us_per_query, 3)))]
        for rows in zip(*(table.rows for table in tables), strict=True)
    ]
    return [
        of_cells(
            "What writers, flushes and compactions do (perf window; the nearest part above the leaf has the stack)",
            heads, rows, "%: of the weight of the role; us/query: that share of its CPU per query",
        )
    ]  # fmt: skip
