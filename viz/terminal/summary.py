"""`summary.txt`, all of a run as text; and the screen that a run ends with, what of it is read first."""

from __future__ import annotations

from collections.abc import Sequence

from ground.results.categories import Categories, Category
from ground.results.checks import Check, Verdict, render_checks
from ground.results.findings import Finding
from ground.results.metrics import LEGEND, MODE_METRIC
from ground.results.record import RunRecord
from ground.system.host import describe_host
from ground.text.columns import NO_BREAK, fold_line
from viz.columns import folded
from viz.figures import (
    FIRST,
    HEADLINE,
    engine_words,
    interval_text,
    other_words,
    watching_words,
    where_it_goes,
)
from viz.owner_table import owner_table, summary_block
from viz.tables.windows import windows_section
from viz.terminal.table import section_text

_OWNER = "owner"
_OWNER_RULE = "the first known frame from the root owns all below it"
_OTHER_SHOWN = 5
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
    unicode: bool = True,
    further: Sequence[Categories] = (),
) -> str:
    """The whole summary of a run; parts that were not measured are named, never left blank.

    observed: what the observers beside perf have to say, each as a part of its own
    further: the views beside owner and leaf
    """
    parts = [*_lost(record, width), "\n".join(_head(record, width)), *_warnings(record, width)]
    if findings:
        parts.append(found(findings, width))
    if record.metrics:
        headline = [(n, _figure(record, n, form), LEGEND[n]) for n, form in HEADLINE if n in record.metrics]
        title = "Plain windows (nothing attached)"
        if record.intervals:
            title += ", in brackets the 95 % interval over their seconds"
        parts.append(title + "\n" + summary_block(headline, width).rstrip())
    if record.windows:
        parts.append(section_text(windows_section(record), width))
    if record.profile is not None and categories is not None:
        parts.append(_owner(record, categories, width, unicode))
        parts += [categories_table(record, view, width, unicode, legend=False) for view in further]
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
    unicode: bool = True,
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
    first = [(name, form) for name, form in HEADLINE if name in FIRST and name in record.metrics]
    figures = ", ".join(f"{name} {_figure(record, name, form)}" for name, form in first)
    if figures:
        ran += "\n" + fold_line(figures, width, 2)
    head = [*_lost(record, width), ran, *_warnings(record, width)]
    tables = []
    if record.profile is not None and categories is not None:
        *named, other = categories.rows
        heaviest = [*sorted((row for row in named if row.weight), key=lambda row: -row.weight), other]
        table = _table(record, categories, heaviest, width, unicode, legend=False, labels=True)
        lines = [where_it_goes(record), table + _without(named, width)]
        if words := other_words(categories):
            lines.append(fold_line(f"  {words}", width, 4))
        tables.append("\n".join(lines))
    if layers:
        tables.append("\n".join(layers.splitlines()[:_LAYERS]))
    sentences = [jobs, watching_words(record.costs) if record.costs else ""]
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


def _not_ok(checks: Sequence[Check], width: int, detail: int, show: str) -> str:
    """Warnings, and how many others there are. detail: 2 with what each means, 1 with its value, 0 names alone"""
    warned = [check for check in checks if check.verdict is Verdict.WARN]
    count = sum(check.verdict in (Verdict.OK, Verdict.NOTE) for check in checks)
    if not warned:
        return f"Checks\n    ok  all {count}"
    if not detail:
        lines = [fold_line(f"  warn  {', '.join(check.name for check in warned)}", width, 8)]
    else:
        means = (f"; {check.means}" * (bool(check.means) and detail > 1) for check in warned)
        lines = [
            fold_line(f"  warn  {c.name}: {c.value}{mean}", width, 8) for c, mean in zip(warned, means, strict=True)
        ]
    more = "" if detail > 1 else f"; what they mean: {show} checks"
    return "\n".join(["Checks", *lines, f"    ok  {count} others{more}"])


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
        f"{one.kind} was asked for and did not watch: {one.why}" + f" -> {one.mend}" * bool(one.mend)
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


def _figure(record: RunRecord, name: str, form: str) -> str:
    interval = record.intervals.get(name)
    if interval is None:
        return form.format(record.metrics[name])
    return f"{form.format(record.metrics[name])} [{interval_text(form, interval, ', ')}]"


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


def categories_table(
    record: RunRecord, categories: Categories, width: int, unicode: bool = True, *, legend: bool = True
) -> str:
    """A view of the CPU profile: the owner view in the order of its rules, any other heaviest first, with `other` last.

    legend: what each row is
    """
    if categories.view == _OWNER:
        return _owner(record, categories, width, unicode)
    *named, other = categories.rows
    rows = [*sorted((row for row in named if row.weight), key=lambda row: -row.weight), other]
    title = f"{where_it_goes(record)} ({categories.view} view: {categories.description})"
    text = fold_line(title, width, 2)
    return text + "\n" + _table(record, categories, rows, width, unicode, legend=legend) + _without(named, width)


def _without(rows: Sequence[Category], width: int) -> str:
    empty = [row.name for row in rows if not row.weight]
    return "\n" + fold_line(f"without weight: {', '.join(empty)}", width, 2) if empty else ""


def _owner_rows(record: RunRecord, categories: Categories) -> Sequence[Category]:
    """Of a target, which may read or write or do both, those with weight; `other` always."""
    *named, other = categories.rows
    return categories.rows if record.target is None else [*(row for row in named if row.weight), other]


def _table(
    record: RunRecord,
    categories: Categories,
    shown: Sequence[Category],
    width: int,
    unicode: bool,
    *,
    legend: bool,
    labels: bool = False,
) -> str:
    assert record.profile is not None
    return owner_table(
        shown, view=categories.view, unit=record.profile.unit, width=width, legend=legend, unicode=unicode,
        cores=record.metrics.get("cores"), labels=labels,
    ).rstrip()  # fmt: skip


def _owner(record: RunRecord, categories: Categories, width: int, unicode: bool) -> str:
    assert record.profile is not None
    mode = record.profile.mode
    text = (
        f"{where_it_goes(record)} (owner view: {_OWNER_RULE})\n"
        if record.target is None
        else (fold_line(f"{where_it_goes(record)} (owner view: {categories.description})", width, 2) + "\n")
    )
    text += _table(record, categories, _owner_rows(record, categories), width, unicode, legend=True)
    if record.target is not None:
        text += _without(categories.rows[:-1], width)
    text += "\n" + fold_line(
        f"us = share of weight in the perf window x {MODE_METRIC[mode]} of the plain windows, per query and per read"
        if "cpuPer" in record.metrics or record.target is None
        else "cores = share of weight in the perf window x cores of the plain windows. There is no us per query: "
        "nothing counts the queries (--count)",
        width,
        2,
    )
    if words := other_words(categories):
        text += "\n" + fold_line(words, width, 2)
    if categories.other_frames and categories.total_weight:
        text += "\n" + fold_line("its leaf frames: " + _others(categories), width, 2)
    return text


def _others(categories: Categories) -> str:
    named: Sequence[str] = [
        f"{frame.frame}{NO_BREAK}{100 * frame.weight / categories.total_weight:.2f}%"
        for frame in categories.other_frames[:_OTHER_SHOWN]
    ]
    return ", ".join(named)
