"""`summary.txt` and what the terminal shows at the end of a run: the same text."""

from __future__ import annotations

from collections.abc import Sequence

from ioflame.categories import Categories
from ioflame.checks import Verdict, render_checks
from ioflame.host import describe_host
from ioflame.lines import NO_BREAK, fold_line
from ioflame.metrics import LEGEND, MODE_METRIC, cpu_profiled, window_metrics
from ioflame.record import ObserverCost, RunRecord
from viz.columns import aligned, folded
from viz.figures import HEADLINE, WINDOW_COLUMNS, interval_text
from viz.tables import OwnerRow, owner_table, summary_block

__all__ = ("render_summary",)

_OTHER_SHOWN = 5


def render_summary(
    record: RunRecord,
    categories: Categories | None,
    observed: Sequence[str] = (),
    width: int = 100,
    unicode: bool = True,
) -> str:
    """The whole summary of a run; parts that were not measured are named, never left blank.

    observed: what the observers beside perf have to say, each as a part of its own
    """
    parts = [_head(record, width)]
    failed = [check for check in record.checks if check.verdict is Verdict.FAILED]
    if failed:
        parts.append("DO NOT USE THIS RUN: a check failed\n" + render_checks(failed, width))
    if record.missing:
        parts.append("Missing from this run:\n" + "\n".join(f"  {what}" for what in record.missing))
    if record.metrics:
        headline = [(n, _figure(record, n, form), LEGEND[n]) for n, form in HEADLINE if n in record.metrics]
        title = "Plain windows (nothing attached)"
        if record.intervals:
            title += ", in brackets the 95 % interval over their seconds"
        parts.append(title + "\n" + summary_block(headline, width).rstrip())
    if record.windows:
        parts.append(_windows(record, width))
    if record.profile is not None and categories is not None:
        parts.append(_owner(record, categories, width, unicode))
    parts += [text.rstrip() for text in observed if text]
    if record.checks:
        parts.append("Checks\n" + render_checks(record.checks, width))
    return folded("\n\n".join(parts), width) + "\n"


def _figure(record: RunRecord, name: str, form: str) -> str:
    interval = record.intervals.get(name)
    if interval is None:
        return form.format(record.metrics[name])
    return f"{form.format(record.metrics[name])} [{interval_text(form, interval, ', ')}]"


def _head(record: RunRecord, width: int) -> str:
    database = record.database
    build = f"{record.engine} {record.tools.get('engine', '?')}"
    if record.tools.get("engine_assertions") == "yes":
        build += " (assertions on: slower than a release build)"
    where = f" on CPU {record.options['cpus']}" if "cpus" in record.options else ""
    lines = [f"{record.workload}, {record.threads} thread{'s' * (record.threads != 1)}{where}, {build}"]
    if database:
        lines.append(f"database: {database.get('description', '')}")
    if record.host:
        lines.append(f"host: {describe_host(record.host)}; perf {record.tools.get('perf', '?')}")
    profile = record.profile
    if profile is not None:
        scope = "system-wide, folded for the process" if profile.scope == "system" else "of the process"
        lines.append(
            f"profile: {profile.event} (weights in {profile.unit}), {profile.frequency} Hz, {scope}, "
            f"{profile.callgraph} call graphs"
        )
        lines += [f"         {reason}" for reason in profile.why]
    return "\n".join(fold_line(line, width, 9) for line in lines)


def _windows(record: RunRecord, width: int) -> str:
    heads = ["window", "seconds", *(name for name, _ in WINDOW_COLUMNS)]
    rows = [heads]
    for window in record.windows:
        metrics = window_metrics([window], record.threads)
        cells = [form.format(metrics[name]) if name in metrics else "-" for name, form in WINDOW_COLUMNS]
        rows.append([window.kind, f"{window.seconds:.1f}", *cells])
    text = "Windows (us per query, context switches per query)\n" + aligned(rows, width)
    if record.costs:
        text += (
            "\n\nObservers: QPS in their window against the plain windows beside it, 95 % interval over the seconds\n"
        )
        text += aligned([["window", "QPS", "interval"], *(_cost(cost) for cost in record.costs)], width)
    if record.unobserved:
        text += "\n\nNot observed\n"
        text += "\n".join(
            f"  {lost.kind}: {lost.why}" + (f"\n    -> {lost.mend}" if lost.mend else "") for lost in record.unobserved
        )
    return text


def _cost(cost: ObserverCost) -> list[str]:
    ratio = cost.qps_ratio
    percent = [f"{100 * (value - 1):+.1f}%" for value in (ratio.estimate, ratio.low, ratio.high)]
    return [cost.kind, percent[0], f"{percent[1]} .. {percent[2]}"]


def _owner(record: RunRecord, categories: Categories, width: int, unicode: bool) -> str:
    assert record.profile is not None
    mode = record.profile.mode
    cpu_query, cpu_read = cpu_profiled(record.metrics, mode)
    rows = [
        OwnerRow(
            name=row.name,
            label=row.label,
            share=row.share / 100,
            us_per_query=None if cpu_query is None else row.share / 100 * cpu_query,
            us_per_read=None if cpu_read is None else row.share / 100 * cpu_read,
            n=row.samples,
            interval=None if row.interval is None else (row.interval.low, row.interval.high),
        )
        for row in categories.rows
    ]
    text = "Where the CPU of one query goes (owner view: the first known frame from the root owns all below it)\n"
    text += owner_table(rows, unit=record.profile.unit, width=width, unicode=unicode).rstrip()
    text += (
        f"\nus = share of weight in the perf window x {MODE_METRIC[mode]} of the plain windows, per query and per read"
    )
    if categories.other_frames and categories.total_weight:
        text += "\n" + fold_line("other holds: " + _others(categories), width, 13)
    return text


def _others(categories: Categories) -> str:
    named: Sequence[str] = [
        f"{frame.frame}{NO_BREAK}{100 * frame.weight / categories.total_weight:.2f}%"
        for frame in categories.other_frames[:_OTHER_SHOWN]
    ]
    return ", ".join(named)
