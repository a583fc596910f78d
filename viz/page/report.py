"""`report.html`: one run, or several side by side, as one page that opens from disk and asks nobody for anything.

Tables and plots are markup that needs no script. The flame graph is drawn by the scripts in this room from the packed
profile (flame/embedded.py). A policy in the page forbids every request and every script but ours, whatever a name may
hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from viz.page.first_screen import first_screen
from viz.page.flame_graphs import flame_data, flame_graphs, graphs, weighs
from viz.page.rendering import part, render, section_markup
from viz.page.run_view import RunView
from viz.page.timeline import timeline
from viz.page.trust import trust
from viz.page.waits import waits
from viz.page.what_ran import what_ran
from viz.printable import printable
from viz.tables.roles import role_parts_section
from viz.tables.windows import windows_section
from viz.weights import scaled_weight


def render_report(views: Sequence[RunView], apart: Apart | None = None) -> str:
    """The page of `views`; the first is the base that others are compared with.

    apart: how several views differ; None: not compared
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
    categories: Sequence[tuple[str, str]] = (),
) -> str:
    """A page of stacks that belong to no run: the flame graph and its functions.

    opens: the view it opens with, `callees` (from the root) or `callers` (from the leaf)
    categories: names and labels in the order of their rules
    """
    data = flame_data(stacks, title, unit, us_per_query, categories, opens=opens)
    words = (
        f"{scaled_weight(sum(stack.weight for stack in stacks), printable(unit))} in "
        f"{len({stack.frames for stack in stacks}):,} stacks. Unchecked profile: it comes from no run."
    )
    return page(title, render("stacks.html", title=title, words=words, graph=flame_graphs([("cpu", "", data)])))


def _sections(view: RunView, index: int) -> list[dict[str, Any]]:
    """name, about, place, content; about: what a section that is folded has, "" for one that is not."""
    record = view.record
    profile = _profile(view)
    hues = profile["hues"] if profile else hue_places([row.name for row in view.owner.rows] if view.owner else [])
    # Where the page shows what a finding is about.
    places = {name: f"{name}-{index}" for name in ("graph", "where", "waits", "time")}
    sections = (
        ("The run at a glance", "", "first", lambda: first_screen(view, index, hues, places)),
        ("Flame graph", "", "graph", lambda: graphs(profile, view.observed, view.title)),
        *_found(view, places),
        (
            where_it_goes(record), "categories with intervals, and what ran at the bottom of the stacks", "where",
            lambda: owner(view, hues) + section_markup(view.sections.get("events", ()))
            + operations(view) + leaf(view) + matrix(view) + further(view)
            + section_markup(role_parts_section(view.role_parts)),
        ),
        (
            "Where the rest of the time goes", "latency by stage, the device, waits, locks", "waits",
            lambda: waits(view.observed, record.metrics, bool(record.roles) or view.jobs is not None),
        ),
        (
            "Over time", "second by second, and each window", "time",
            lambda: timeline(view.rates, record.windows, view.series, record.report_start_ns, view.jobs, view.writes)
            + section_markup([*view.sections.get("jobs", ()), *windows_section(record)]),
        ),
        ("What ran", "build, database, host, how it was recorded, all figures", "what", lambda: what_ran(view)),
        ("Can it be trusted?", "every check", "trust", lambda: trust(view)),
    )  # fmt: skip
    return [
        {"name": name, "about": about, "place": f"{place}-{index}", "content": part(make)}
        for name, about, place, make in sections
    ]


def _found(view: RunView, places: Mapping[str, str]) -> list[tuple[str, str, str, Callable[[], Markup]]]:
    """What the run shows, in words; no section where there is no finding."""
    make = partial(render, "found.html", findings=view.findings, places=places)
    return [("What was found", "each finding, what changes it, how sure", "found", make)] if view.findings else []


def _profile(view: RunView) -> dict[str, Any] | None:
    """What the scripts read of the on-CPU graph, None where there is nothing to draw."""
    if not weighs(view.stacks):
        return None
    return flame_data(
        view.stacks, view.title, view.record.profile.unit if view.record.profile else "", view.us_per_query,
        [(printable(row.name), printable(row.label)) for row in view.owner.rows] if view.owner else [],
        view.leaf_of or None, [(row.name, row.label) for row in view.leaf.rows] if view.leaf else [],
        name=printable(view.name), every=view.record.target is None,
    )  # fmt: skip
