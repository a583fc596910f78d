"""What a run was: workload, build and host, and its headline figures."""

from __future__ import annotations

from markupsafe import Markup

from ground.results.metrics import LEGEND
from ground.system.host import describe_host
from viz.figures import FIRST, HEADLINE, interval_text
from viz.page.rendering import render
from viz.page.run_view import RunView
from viz.weights import scaled_weight

__all__ = ("what_ran",)


def what_ran(view: RunView) -> Markup:
    """Build, database and host, and the figures that are read first; the rest is folded."""
    record, profile = view.record, view.record.profile
    build = record.build
    if record.tools.get("engine_assertions") == "yes":
        build += ", assertions on: slower than a release build"
    facts = [
        ("engine", f"{build}; symbols: {record.tools.get('engine_symbols', 'unknown')}"),
        ("database", record.database.description or "unknown"),
        ("host", describe_host(record.host) if record.host else "unknown"),
    ]
    more = [
        ("workload", f"{record.workload}, {record.threads} thread{'s' * (record.threads != 1)}"),
        ("device", record.database.device or "unknown"),
        ("recorded", f"{record.created} by ioflame {record.ioflame}, perf {record.tools.get('perf', '?')}"),
    ]
    if profile is not None:
        scope = "system-wide, folded for the process" if profile.scope == "system" else "of the process"
        more.append(
            (
                "profile",
                f"{profile.event}, weights in {profile.unit}: {scaled_weight(profile.weight, profile.unit)} in "
                f"{profile.samples:,} samples; {profile.frequency} Hz, {scope}, {profile.callgraph} call graphs",
            )
        )
        more += [("", reason) for reason in profile.why]
    metrics, intervals = record.metrics, record.intervals
    tiles = [
        {
            "name": name,
            "figure": form.format(metrics[name]),
            "interval": interval_text(form, intervals[name], " \u2013 ") if name in intervals else "",
            "about": LEGEND[name],
        }
        for name, form in HEADLINE
        if name in metrics
    ]
    return render(
        "what_ran.html", facts=facts, more=more,
        first=[tile for tile in tiles if tile["name"] in FIRST],
        others=[tile for tile in tiles if tile["name"] not in FIRST],
        scattered=any(tile["interval"] for tile in tiles),
    )  # fmt: skip
