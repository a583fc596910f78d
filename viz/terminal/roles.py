"""The CPU of a workload that writes, by what its threads do: readers, a writer, flushes, compactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ground.results.profile import OTHER, Folded
from ground.results.record import RunRecord, Target
from ground.results.roles import READER, WRITES_VIEW, RoleFigures, role_figures
from viz.columns import aligned
from viz.printable import printable

_LEAST_SHARE = 0.001
_WRITTEN = ("flushed_gb", "compacted_gb")


def role_table(record: RunRecord, folded: Folded | None) -> str:
    """A column a role; "" for a workload whose threads were not told apart. folded: the profile of all threads"""
    figures = role_figures(window for window in record.windows if window.kind == "plain")
    if not figures:
        return ""
    if record.target is not None:
        return _group_table(record.target, figures)
    table = [["role", *(one.role for one in figures)]]
    table.append(["threads", *(str(len(record.roles.get(one.role, []))) for one in figures)])
    for name, cells in (
        ("CPU us/query", ["-" if one.us_per_query is None else f"{one.us_per_query:.2f}" for one in figures]),
        ("CPU ms/s", [f"{one.us_per_second / 1e3:.1f}" for one in figures]),
        ("% of CPU", [f"{100 * one.share:.1f}" for one in figures]),
        ("write calls/s", [f"{one.write_calls:.0f}" for one in figures]),
    ):
        table.append([name, *cells])
    parts = ["CPU by role (plain windows; by the scheduler's clock, thread by thread)\n" + aligned(table)]
    parts.append(_windows_table(record))
    if folded is not None and WRITES_VIEW in folded.views:
        parts.append(_parts_table(record, folded, figures))
    return "\n\n".join(part for part in parts if part)


def _group_table(target: Target, figures: Sequence[RoleFigures]) -> str:
    """A row a group of threads, those that used next to no CPU left out."""
    table = [["threads", "number", "cores", "% of CPU", "us/query"]]
    seen = [one for one in figures if one.share >= _LEAST_SHARE]
    for one in seen:
        per_query = "-" if one.us_per_query is None else f"{one.us_per_query:.2f}"
        number, cores = len(target.groups.get(one.role, [])), one.us_per_second / 1e6
        table.append([printable(one.role), str(number), f"{cores:.3f}", f"{100 * one.share:.1f}", per_query])
    more = f"\n  {len(figures) - len(seen)} others used less than {_LEAST_SHARE:.1%}" * (len(seen) < len(figures))
    return "Whose CPU: threads by name (plain windows; by the scheduler's clock)\n" + aligned(table) + more


def _windows_table(record: RunRecord) -> str:
    """What was written in each window, by the engine's log and by the device."""
    if not any(window.engine for window in record.windows):
        return ""
    table = [["window", "seconds", "flushed MiB/s", "compacted MiB/s", "device writes MiB/s", "stalled s"]]
    for window in record.windows:
        own, seconds = window.engine, window.seconds
        table.append([
            window.kind, f"{seconds:.1f}",
            *("-" if name not in own else f"{own[name] * 1024 / seconds:.1f}" for name in _WRITTEN),
            f"{window.counters.storage_write_bytes / 2**20 / seconds:.1f}",
            f"{own['stall_seconds']:.2f}" if "stall_seconds" in own else "-",
        ])  # fmt: skip
    return (
        "Writes by window (table files by when they were finished, by the engine's log; the device: everybody's)\n"
        + aligned(table)
    )


def _parts_table(record: RunRecord, folded: Folded, figures: list[RoleFigures]) -> str:
    """What each role that writes does: share of its weight, and CPU us per query."""
    role_of = {tid: role for role, tids in record.roles.items() for tid in tids}
    weights: dict[str, dict[str, int]] = {}
    for stack in folded.each_stack(WRITES_VIEW):
        role = role_of.get(stack.tid or 0, OTHER)
        of_role = weights.setdefault(role, {})
        of_role[stack.category] = of_role.get(stack.category, 0) + stack.weight
    shown = [one for one in figures if one.role in weights and one.role not in (READER, OTHER)]
    if not shown:
        return ""
    rows = [row["name"] for row in folded.views[WRITES_VIEW].report["rows"]]
    table = [["part", *(head for one in shown for head in (f"{one.role} %", "us/query"))]]
    for name in rows:
        cells = [cell for one in shown for cell in _cells(weights[one.role], name, one)]
        table.append([name, *cells])
    return (
        "What writers, flushes and compactions do (perf window; the nearest part above the leaf has the stack)\n"
        + aligned(table) + "\n  %: of the weight of the role; us/query: that share of its CPU per query"
    )  # fmt: skip


def _cells(weights: Mapping[str, int], name: str, role: RoleFigures) -> tuple[str, str]:
    share = weights.get(name, 0) / (sum(weights.values()) or 1)
    return f"{100 * share:.1f}", "-" if role.us_per_query is None else f"{share * role.us_per_query:.3f}"
