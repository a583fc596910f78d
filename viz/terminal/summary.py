"""`summary.txt`, all of a run as text; and the screen that a run ends with, what of it is read first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ground.results.categories import Categories
from ground.results.checks import Check, Verdict, render_checks
from ground.results.findings import Finding
from ground.results.record import RunRecord
from ground.system.host import describe_host
from ground.text.columns import NO_BREAK, fold_line
from ground.text.titles import title_of, with_name
from viz.columns import folded
from viz.figures import (
    FIRST,
    engine_words,
    figure_text,
    other_words,
    watching_words,
    where_it_goes,
)
from viz.table import CUT
from viz.tables.categories import categories_section, categories_table, without_weight
from viz.tables.windows import figures_table, windows_section
from viz.terminal.table import section_text, table_text

# Of the latency table: its title, its head and its rows.
_LAYERS = 8
# Lines of the screen; the run's paths and the next step come below it, and 50 is all of it.
SCREEN = 44


def render_summary(
    record: RunRecord,
    categories: Categories | None,
    findings: Sequence[Finding] = (),
    observed: Sequence[str] = (),
    width: int = 100,
    further: Sequence[Categories] = (),
) -> str:
    """The whole summary of a run; parts that were not measured are named, never left blank.

    observed: what the observers beside perf have to say, each as a part of its own
    further: the views beside owner and leaf
    """
    parts = [*_lost(record, width), "\n".join(_head(record, width)), *_warnings(record, width)]
    if findings:
        parts.append(found(findings, width))
    if words := section_text([figures_table(record), *windows_section(record)], width):
        parts.append(words)
    if record.profile is not None and categories is not None:
        parts.append(section_text(categories_section(record, categories), width))
        parts += [section_text(categories_section(record, view, None), width) for view in further]
    parts += [text.rstrip() for text in observed if text]
    if record.checks:
        parts.append("Checks\n" + render_checks(record.checks, width))
    return folded("\n\n".join(parts), width) + "\n"


def render_screen(
    record: RunRecord,
    categories: Categories | None,
    findings: Sequence[Finding],
    layers: str,
    width: int = 100,
    show: str = "ioflame show RUN",
    jobs: str = "",
) -> str:
    """One screen of a run, of at most `SCREEN` lines: what ran, what was found, the owner table, latencies, the cost of
    watching, and the checks that are not ok.

    layers: the latency table without sentences, "" where it was not measured; show: the command that prints the rest;
    jobs: in the background, in a sentence

    Where all of it is longer, warnings lose what they mean and then their values, and the last findings go; a line says
    so. Then jobs and what watching cost go. What failed and what is missing stays whole.
    """
    ran = "\n".join(_head(record, width)[:2])
    figures = ", ".join(f"{with_name(name)} {figure_text(record, name)}" for name in FIRST if name in record.metrics)
    if figures:
        ran += "\n" + fold_line(figures, width, 2)
    head = [*_lost(record, width), ran, *_warnings(record, width)]
    tables = []
    if record.profile is not None and categories is not None:
        tables.append(_owner_table(record, categories, width))
    if layers:
        tables.append("\n".join(layers.splitlines()[:_LAYERS]))
    sentences = [jobs, watching_words(record)]
    costs = ["\n".join(fold_line(one, width, 2) for one in sentences if one)] if any(sentences) else []
    text = ""
    every = len(findings)
    for shown, detail, watching in (
        (every, 2, costs), (every, 1, costs), (5, 1, costs), (3, 1, costs), (3, 0, costs), (2, 0, costs), (1, 0, costs),
        (1, 0, []),
    ):  # fmt: skip
        parts = [*head, *([found(findings, width, shown, show)] if findings else []), *tables, *watching]
        parts += [_not_ok(record.checks, width, detail, show)] if record.checks else []
        text = folded("\n\n".join(parts), width) + "\n"
        if text.count("\n") <= SCREEN:
            break
    return text


def render_first_look(record: RunRecord, categories: Categories, rests_on: str, width: int = 100) -> str:
    """The owner table of a run that goes on. rests_on: what was seen so far"""
    head = f"First look: {record.workload}, of {rests_on}; more follows"
    return folded("\n".join([head, "", _owner_table(record, categories, width)]), width)


def _owner_table(record: RunRecord, categories: Categories, width: int) -> str:
    assert record.profile is not None
    table = categories_table(
        categories,
        record.profile.unit,
        where_it_goes(record),
        cores=record.metrics.get("cores"),
        # Titles say what rows are, and leave room for the bars.
        about=None if any(title_of(row.name) != row.name for row in categories.rows) else CUT,
    )
    lines = [table_text(replace(table, legend=other_words(categories)), width)]
    if empty := without_weight(categories):
        lines.append(fold_line(f"  {empty}", width, 4))
    return "\n".join(lines)


def _not_ok(checks: Sequence[Check], width: int, detail: int, show: str) -> str:
    """Warnings, and how many others there are. detail: 2 with what each means, 1 with its value, 0 names alone"""
    warned = [check for check in checks if check.verdict is Verdict.WARN]
    count = sum(check.verdict is Verdict.OK for check in checks)
    noted = sum(check.verdict is Verdict.NOTE for check in checks)
    notes = f", and {noted} note{'s' * (noted != 1)}" if noted else ""
    if not warned:
        return f"Checks\n    ok  all {count}{notes}"
    if not detail:
        lines = [fold_line(f"  warn  {', '.join(check.name for check in warned)}", width, 8)]
    else:
        means = (f"; {check.means}" * (bool(check.means) and detail > 1) for check in warned)
        lines = [
            fold_line(f"  warn  {c.name}: {c.value}{mean}", width, 8) for c, mean in zip(warned, means, strict=True)
        ]
    more = "" if detail > 1 else f"; what they mean: {show} checks"
    return "\n".join(["Checks", *lines, f"    ok  {count} others{notes}{more}"])


def found(findings: Sequence[Finding], width: int, most: int | None = None, show: str = "ioflame show RUN") -> str:
    """What a run shows, in words: the dearest first, each with what changes it; those beyond `most` are counted."""
    shown = findings[:most]
    told = [f"{one.sentence} -> {one.do}" if one.do else one.sentence for one in shown]
    lines = [fold_line(f"{place}. {line}", width, 3) for place, line in enumerate(told, start=1)]
    if len(shown) < len(findings):
        lines.append(f"   {len(findings) - len(shown)} more: {show} all")
    return "\n".join(["What was found (us per query, 95 % interval)", *lines])


def lost_lines(record: RunRecord) -> list[str]:
    """What was asked for by name and did not watch, each with why and what mends it."""
    return [
        f"{title_of(one.kind)} was asked for and did not watch: {one.why}" + f" -> {one.mend}" * bool(one.mend)
        for one in record.lost
    ]


def _lost(record: RunRecord, width: int) -> list[str]:
    """Before all else: who waits for its figures looks for them in vain."""
    lines = [fold_line(line, width, 2) for line in lost_lines(record)]
    return ["\n".join(lines)] if lines else []


def _warnings(record: RunRecord, width: int) -> list[str]:
    parts = []
    # Of what did not watch the first lines tell; the rest is no worse for it.
    told = {one.kind for one in record.lost}
    failed = [check for check in record.checks if check.verdict is Verdict.FAILED and check.name not in told]
    if failed:
        parts.append("Do not use this run: a check failed\n" + render_checks(failed, width))
    if record.missing:
        parts.append("Missing from this run:\n" + "\n".join(f"  {what}" for what in record.missing))
    return parts


def _head(record: RunRecord, width: int) -> list[str]:
    """What ran, the database, the host, the profile: an entry each, folded."""
    where = f" on CPU {record.options['cpus']}" if "cpus" in record.options else ""
    lines = [f"{record.workload}, {record.threads} thread{'s' * (record.threads != 1)}{where}, {engine_words(record)}"]
    if record.database.description is not None:
        lines.append(f"database: {record.database.description}")
    if record.host:
        lines.append(f"host: {describe_host(record.host)}; perf{NO_BREAK}{record.tools.get('perf', '?')}")
    profile = record.profile
    if profile is not None:
        scope = "system-wide, folded for the process" if profile.scope == "system" else "of the process"
        lines.append(
            f"profile: {profile.event} (weights in {profile.unit}), {profile.frequency} Hz, {scope}, "
            f"{profile.callgraph} call graphs"
        )
        lines += [f"         {reason}" for reason in profile.why]
    return [fold_line(line, width, 9) for line in lines]
