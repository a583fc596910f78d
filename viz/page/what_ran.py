"""What a run was: workload, build and host, and its headline figures."""

from __future__ import annotations

from markupsafe import Markup

from ground.results.metrics import METRICS
from ground.results.record import RunRecord
from ground.system.host import describe_host
from viz.figures import FIRST, HEADLINE, engine_words, interval_text
from viz.page.rendering import render, section_markup
from viz.page.run_view import RunView
from viz.tables.windows import figures_table
from viz.weights import scaled_weight


def what_ran(view: RunView) -> Markup:
    """Build, database, host, how it was recorded, and every figure of the run with what it is."""
    record, profile = view.record, view.record.profile
    facts = [
        ("engine", f"{engine_words(record)}; symbols: {record.tools.get('engine_symbols', 'unknown')}"),
        ("database", record.database.description or "unknown"),
        ("host", describe_host(record.host) if record.host else "unknown"),
    ]
    facts += [
        ("workload", f"{record.workload}, {record.threads} thread{'s' * (record.threads != 1)}"),
        ("device", record.database.device or "unknown"),
        ("recorded", f"{record.created} by ioflame {record.ioflame}, perf {record.tools.get('perf', '?')}"),
    ]
    if profile is not None:
        scope = "system-wide, folded for the process" if profile.scope == "system" else "of the process"
        facts.append(
            (
                "profile",
                f"{profile.event}, weights in {profile.unit}: {scaled_weight(profile.weight, profile.unit)} in "
                f"{profile.samples:,} samples; {profile.frequency} Hz, {scope}, {profile.callgraph} call graphs",
            )
        )
        facts += [("", reason) for reason in profile.why]
    return render("what_ran.html", facts=facts) + section_markup([figures_table(record)])


def tiles(record: RunRecord) -> list[dict[str, str]]:
    """The figures of a run that are read first, with what each is."""
    metrics, intervals = record.metrics, record.intervals
    return [
        {
            "title": METRICS[name].title,
            "name": name,
            "figure": form.format(metrics[name]),
            "interval": interval_text(form, intervals[name], " to ") if name in intervals else "",
            "about": METRICS[name].legend,
        }
        for name, form in HEADLINE
        if name in metrics and name in FIRST
    ]
