"""Folds the other events of a recording's group: one leader samples, and all are read with each of its samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from folding.stackfold import fold
from ground.results.categories import Categories
from ground.results.checks import Check, Verdict
from ground.results.event_group import EventGroup, GroupRow, Member
from ground.results.files import Files
from ground.results.profile import Folded, FoldStats
from ground.results.record import ProfileFacts
from ground.results.roles import query_role
from ground.results.run import Run
from ground.system.atomic_files import write_json
from ground.system.scratch import scratch_directory
from ioflame.stages.rules import rules_of


def analyse_group(run: Run, facts: ProfileFacts, stats: FoldStats, owner: Categories) -> list[Check]:
    """Writes `events.json`. stats, owner: of the leader's fold, and its table"""
    weights = [{row.name: row.weight for row in owner.rows}]
    members = [Member(facts.event, facts.unit, facts.weight, facts.report_weight)]
    counted = {one.event for one in stats.other_events}
    for event in facts.beside:
        # One that counted nothing has no sample, and could not be folded.
        member, sums = _folded(run, event, owner.view) if event in counted else (Member(event, event, 0), {})
        members.append(member)
        weights.append(sums)
    rows = [GroupRow(row.name, row.label, [one.get(row.name, 0) for one in weights]) for row in owner.rows]
    queries = run.record.queries_in("perf")
    write_json(run.path(Files.EVENT_GROUP), EventGroup(owner.view, facts.scope, members, rows, queries))
    return list(group_checks(members[1:]))


def _folded(run: Run, event: str, view: str) -> tuple[Member, dict[str, int]]:
    """An event and its weight by category, of the threads that the leader's table is of."""
    pids = run.record.target.pids if run.record.target is not None else [run.record.pid]
    with scratch_directory() as place:
        whole = fold(
            run.path(Files.PERF_DATA), place, pids, rules=rules_of(run).categories, check="totals", event=event
        )
    roles = run.record.roles
    found: Folded = whole.of_threads(roles.get(query_role(roles), [])) if roles else whole
    sums: Counter[str] = Counter()
    for stack in found.each_stack(view):
        sums[stack.category] += stack.weight
    reported = whole.check.events[0].reported if whole.check and whole.check.events else None
    return Member(event, whole.statistics.unit, whole.statistics.weight, reported), sums


def group_checks(members: Sequence[Member]) -> Iterator[Check]:
    """Whether each has the total of perf report."""
    off = [f"{m.event} {m.weight:,} for {m.reported:,}" for m in members if m.reported not in (None, m.weight)]
    if off:
        yield Check("group = perf report", Verdict.FAILED, "; ".join(off), "do not use these counts")
    else:
        told = ", ".join(f"{one.event} {one.weight:,}" for one in members)
        yield Check("group = perf report", Verdict.OK, told)
