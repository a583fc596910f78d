"""Wall clock by category: what the CPU profile and the off-CPU stacks of the serving threads say together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from ground.results.categories import Categories
from ground.results.off_cpu import OffCpu, OffStack, Thread, WallClock, WallRow
from ground.results.record import RunRecord
from ground.results.roles import query_role
from ground.results.states import STATES
from workloads.registry import engine_named, service_named

_ON_CPU = "on-CPU"


def wall_clock(
    off: OffCpu,
    stacks: Sequence[OffStack],
    on_cpu: Categories | None,
    queries: float | None,
    background: Collection[int] = (),
) -> WallClock:
    """The time of the threads that serve queries: on a CPU by the categories of `on_cpu`, off it by state and category.

    on_cpu: of these threads; background: those that work and serve none, which are left out as idle ones are

    The CPU profile's shares are scaled to the time from switch-in to switch-out, in which its samples were taken.
    """
    idle = {thread.tid for thread in off.threads if thread.is_idle}
    beside = [thread for thread in off.threads if thread.tid in background and thread.tid not in idle]
    left_out = {*idle, *(thread.tid for thread in beside)}
    busy = [thread for thread in off.threads if thread.tid not in left_out]
    ran = sum(thread.ran_ns for thread in busy)
    known = [thread.cpu_ns for thread in busy if thread.cpu_ns is not None]

    def row(state: str, category: str, ns: int) -> WallRow:
        return WallRow(state, category, ns, ns / 1e3 / queries if queries else None)

    rows = []
    if on_cpu is not None and on_cpu.total_weight:
        shares = [(category.name, category.weight / on_cpu.total_weight) for category in on_cpu.rows]
        rows += [row(_ON_CPU, name, round(ran * share)) for name, share in shares if share]
    else:
        rows.append(row(_ON_CPU, "", ran))
    order = {category.name: place for place, category in enumerate(on_cpu.rows)} if on_cpu is not None else {}
    for state in STATES:
        # What could not be kept has no thread of its own.
        within = [s for s in stacks if s.state == state and (s.tid not in left_out or "[lost stack]" in s.frames)]
        by_category: Counter[str] = Counter()
        for stack in within:
            by_category[stack.category] += stack.ns
        # In the order of the CPU's rows, or the heaviest first.
        categories = sorted(by_category, key=lambda name: (order.get(name, len(order)), -by_category[name]))
        rows += [row(state, name, by_category[name]) for name in categories if by_category[name]]
    return WallClock(
        elapsed_ns=sum(thread.life_ns for thread in busy),
        threads=len(busy),
        idle_ns=sum(thread.life_ns for thread in off.threads if thread.tid in idle),
        idle_threads=len(idle),
        background_ns=sum(thread.life_ns for thread in beside),
        background_threads=len(beside),
        ran_ns=ran,
        cpu_ns=sum(known) if len(known) == len(busy) else None,
        queries=queries,
        rows=rows,
    )


def serving_threads(off: OffCpu, record: RunRecord) -> list[Thread]:
    """Those whose waits are a query's: of its role where a workload writes, else all that work but the engine's own,
    and those that a service's rules know to serve none."""
    if record.roles:
        tids = record.roles.get(query_role(record.roles), [])
        return [one for one in off.threads if one.tid in tids]
    working = [one for one in off.threads if not one.is_idle]
    if record.target is not None:
        groups = [group.name for group in service_named(record.engine).group if group.background]
        own = {tid for name in groups for tid in record.target.groups.get(name, [])}
        return [one for one in working if one.tid not in own]
    background = tuple(engine_named(record.engine).about.background_threads)
    return [one for one in working if not one.comm.startswith(background)]
