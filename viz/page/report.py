"""`report.html`: one run, or several side by side, as one page that opens from disk and asks nobody for anything.

Tables and plots are markup that needs no script. The flame graph is drawn by the scripts in this room from the packed
profile (flame/embedded.py). A policy in the page forbids every request and every script but ours, whatever a name may
hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from markupsafe import Markup

from ground.results.verdicts import Apart
from viz.figures import where_it_goes
from viz.flame.palette import hue_places
from viz.flame.stacks import Stack
from viz.page.categories import further, leaf, matrix, operations, owner
from viz.page.comparison import comparison
from viz.page.document import page
from viz.page.flame_graphs import flame_data, flame_graphs, graphs, weighs
from viz.page.rendering import part, render
from viz.page.run_view import RunView
from viz.page.timeline import timeline
from viz.page.trust import trust, verdict
from viz.page.waits import waits
from viz.page.what_ran import what_ran
from viz.page.windows import windows
from viz.printable import printable
from viz.weights import scaled_weight

__all__ = ("render_report", "render_stacks")


def render_report(views: Sequence[RunView], apart: Apart | None = None) -> str:
    """The page of `views`; the first is the base that others are compared with.

    apart: of several, what tells them apart
    """
    if not views:
        raise ValueError("a report needs a run")
    several = len(views) > 1
    title = " | ".join(view.name for view in views) if several else f"{views[0].title}: {views[0].name}"
    compared = part(partial(comparison, views, apart)) if apart is not None else ""
    runs = [{"name": view.name, "sections": _sections(view, index)} for index, view in enumerate(views)]
    return page(title, render("runs.html", comparison=compared, runs=runs))


def render_stacks(
    stacks: Sequence[Stack],
    title: str,
    unit: str,
    us_per_query: float | None = None,
    opens: str = "callees",
) -> str:
    """A page of stacks that belong to no run: the flame graph and its functions.

    opens: the view it opens with, `callees` (from the root) or `callers` (from the leaf)
    """
    data = flame_data(stacks, title, unit, us_per_query, opens=opens)
    words = (
        f"{scaled_weight(sum(stack.weight for stack in stacks), printable(unit))} in "
        f"{len({stack.frames for stack in stacks}):,} stacks. Unchecked profile: it comes from no run."
    )
    return page(title, render("stacks.html", title=title, words=words, graph=flame_graphs([("cpu", "", data)])))


def _sections(view: RunView, index: int) -> list[dict[str, Any]]:
    record = view.record
    profile = _profile(view)
    hues = profile["hues"] if profile else hue_places([row.name for row in view.owner.rows] if view.owner else [])
    sections = (
        ("What ran", "what", lambda: what_ran(view) + verdict(view, f"trust-{index}")),
        *_found(view, index),
        (where_it_goes(record), "where", lambda: owner(view, hues) + operations(view)),
        ("Flame graph", "graph", lambda: graphs(profile, view.observed, view.title)),
        ("What the CPU was doing", "leaf", lambda: leaf(view) + matrix(view) + further(view)),
        ("Where the rest of the time goes", "waits", lambda: waits(view.observed, record.metrics)),
        (
            "Over time",
            "time",
            lambda: timeline(view.rates, record.windows, view.series, record.report_start_ns) + windows(record),
        ),
        ("Can it be trusted?", "trust", lambda: trust(view)),
    )
    return [{"name": name, "place": f"{place}-{index}", "content": part(make)} for name, place, make in sections]


def _found(view: RunView, index: int) -> list[tuple[str, str, Callable[[], Markup]]]:
    """What the run shows, in words; no section where nothing is worth a sentence."""
    places = {"graph": f"graph-{index}", "waits": f"waits-{index}"}
    make = partial(render, "found.html", findings=view.findings, places=places)
    return [("What was found", "found", make)] if view.findings else []


def _profile(view: RunView) -> dict[str, Any] | None:
    """What the scripts read of the on-CPU graph, None where there is nothing to draw."""
    if not weighs(view.stacks):
        return None
    return flame_data(
        view.stacks, view.title, view.record.profile.unit if view.record.profile else "", view.cpu[0],
        [(printable(row.name), printable(row.label)) for row in view.owner.rows] if view.owner else [],
        view.leaf_of or None, [(row.name, row.label) for row in view.leaf.rows] if view.leaf else [],
        name=printable(view.name), every=view.record.target is None,
    )  # fmt: skip
