"""What a run was: workload, build and host, and its headline figures."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from ground.results.metrics import METRICS
from ground.results.record import RunRecord
from ground.system.host import describe_host
from viz.figures import HEADLINE, engine_words, interval_text
from viz.page.rendering import render
from viz.page.run_view import RunView
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
    shown = tiles(record)
    return render("what_ran.html", facts=facts, tiles=shown, scattered=any(tile["interval"] for tile in shown))


def tiles(record: RunRecord, names: Sequence[str] = ()) -> list[dict[str, str]]:
    """The headline figures of a run with what each is. names: of those that are wanted; all without"""
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
        if name in metrics and (not names or name in names)
    ]
