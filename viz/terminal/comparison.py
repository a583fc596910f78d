"""A comparison for a terminal: what differs, every figure with its verdict, the budget of the change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ground.results.comparison import Comparison
from ground.results.differences import PlanRow, Variances, percent
from ground.results.metrics import DECIDING
from ground.results.verdicts import ComparedRuns, Verdicts
from ground.text.titles import title_of
from ground.text.units import format_seconds
from viz.columns import folded
from viz.table import Block
from viz.tables.comparison import changes_of, decisions_table
from viz.terminal.table import section_text, table_text

_LIBRARY = "tool library "
# Disturbed ones, by line; a shared host disturbs most of them.
_MOST_BLOCKS = 3


def comparison_text(record: Comparison, found: Verdicts, width: int | None = None) -> str:
    """Without the verdict's sentence, which comes last of all."""
    lines = list(_lines(record, found, width))
    return folded("\n".join(lines), width)


def plan_text(
    record: Comparison, plans: Sequence[tuple[str, Variances, bool, Sequence[PlanRow]]], width: int | None = None
) -> str:
    """What a comparison will take. plans: of each figure its variances, whether they were seen here, and the rows"""
    plan = record.plan
    looks = ", ".join(map(str, plan.looks))
    within = "" if plan.time_limit is None else f" in {format_seconds(plan.time_limit)}"
    lines = [
        f"{record.workload}, {record.factor.name}: {', '.join(title_of(arm.name) for arm in record.arms)}",
        f"{title_of(plan.schedule)}, {plan.tree} tree, windows of {plan.window_seconds:g} s, "
        f"{plan.blocks} blocks a session, at most {plan.sessions} sessions{within}, looks after {looks}; "
        f"seed {plan.seed}",
        f"verdict: {plan.rule}; delta {percent(plan.delta)}",
        *_differing(record.differing.items() if record.factor.is_command else (), record.factor.name),
    ]
    for metric, variances, seen, rows in plans:
        source = "as seen" if seen else "assumed; `ioflame compare DIR --plan` knows those of a finished comparison"
        lines += [
            "",
            f"{metric}: blocks vary by {percent(variances.block)}, sessions by {percent(variances.session)} ({source})",
            "    delta  sessions  blocks each   minutes   on average  seen if so  same if none",
        ]
        lines += [
            f"  {percent(row.delta):>7}{row.sessions:10}{row.blocks:13}{row.minutes:10.0f}{row.expected_minutes:13.0f}"
            f"{row.power:12.0%}{row.power_same:14.0%}{_beyond(row, plan.time_limit)}"
            for row in rows
        ]
    return folded("\n".join(lines), width)


def _beyond(row: PlanRow, seconds: float | None) -> str:
    if not row.reached:
        return "   not within these bounds"
    return "   longer than --time" if seconds is not None and 60 * row.minutes > seconds else ""


def runs_text(names: Sequence[str], found: ComparedRuns, width: int | None = None) -> str:
    """Runs that were made before. names: of the runs, as they were given"""
    lines = [f"arm {n}: {', '.join(names[place] for place in arm)}" for n, arm in enumerate(found.arms, 1)]
    lines += _differing(found.differing, "differs")
    lines += [f"  {found.heading}: their profiles are shown separately"] if found.heading else []
    for number, decisions in enumerate(found.decisions, 2):
        table = decisions_table(f"arm {number} against arm 1", "arm 1", f"arm {number}", decisions)
        lines += ["", table_text(table, width)]
    return folded("\n".join(lines), width)


def _lines(record: Comparison, found: Verdicts, width: int | None) -> Iterator[str]:
    plan = record.plan
    yield (
        f"{record.workload}, {record.factor.name}: {', '.join(title_of(arm.name) for arm in record.arms)}; "
        f"{found.sessions} session{'s' * (found.sessions != 1)}, {found.blocks} block{'s' * (found.blocks != 1)} of "
        f"windows of {plan.window_seconds:g} s, {title_of(plan.schedule)}, "
        f"{format_seconds(found.seconds)}; seed {found.seed}"
    )
    besides = record.besides
    yield from _differing([row for row in found.differing.items() if row[0] not in besides], record.factor.name)
    yield from _differing(besides.items(), "also different")
    yield from (f"  {note}" for note in record.notes)
    for arm in found.arms:
        title = f"{arm.arm} against {arm.base}: mean of {arm.base}, and that times the ratio"
        section: list[Block] = [decisions_table(title, arm.base, arm.arm, arm.decisions)]
        for name, decision in arm.decisions.items():
            if name in DECIDING and decision.difference is not None:
                of = decision.difference.variances
                parts = map(percent, (of.session, of.block, of.window))
                section.append("  {} varies: sessions {}, blocks {}, windows {}".format(title_of(name), *parts))
        if arm.twin:
            title = f"A/A control: {arm.base} against itself, so any difference here is noise"
            section.append(decisions_table(title, arm.base, "again", arm.twin))
        yield "\n" + section_text([*section, *changes_of(arm)], width)
    for words in found.disturbed[:_MOST_BLOCKS]:
        yield f"block {words}"
    if len(found.disturbed) > _MOST_BLOCKS:
        yield f"and {len(found.disturbed) - _MOST_BLOCKS} more disturbed blocks, in verdict.json"


def _differing(rows: Iterable[tuple[str, Sequence[str]]], what: str) -> Iterator[str]:
    """A line each, which begins with `what`; libraries in one, and no hash of what has a shorter name of its own."""
    libraries = []
    for name, values in rows:
        if name.startswith(_LIBRARY):
            libraries.append(name.removeprefix(_LIBRARY))
        elif not name.endswith("_sha256"):
            yield f"  {what}: {name.removeprefix('tool ')}: {' | '.join(values)}"
    if libraries:
        number = f"{len(libraries)} librar{'y' if len(libraries) == 1 else 'ies'}"
        yield f"  {what}: {number}: {', '.join(libraries)}"
