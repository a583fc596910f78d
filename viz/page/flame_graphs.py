"""The flame graphs of a run, one at a time: where it ran, where it waited, and both by wall clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from ground.results.states import STATES
from viz.flame.embedded import json_text, pack
from viz.flame.palette import hue_places
from viz.flame.stacks import Stack
from viz.flame.tree import FrameTree
from viz.page.rendering import render
from viz.page.run_view import IDLE, Graph, Observed
from viz.printable import printable
from viz.svg.thread_states import STATE_HUES
from viz.weights import percentages, scaled_weight


def graphs(profile: dict[str, Any] | None, observed: Observed, title: str) -> Markup:
    """profile: of the CPU, as `flame_data` gives it. The others are there where the run has their stacks."""
    # In the order of the on-CPU graph, so that a category has one colour.
    owners = [(name, label) for name, label in profile["profile"]["categories"]] if profile is not None else []
    found = [] if profile is None else [("cpu", "on-CPU", profile)]
    found += [(graph.key, graph.name, graph.make(title, owners)) for graph in observed.graphs if weighs(graph.stacks)]
    return flame_graphs(found)


def weighs(stacks: Sequence[Stack]) -> bool:
    """Whether there is anything to draw."""
    return any(stack.weight > 0 for stack in stacks)


def flame_graphs(found: Sequence[tuple[str, str, dict[str, Any]]]) -> Markup:
    """Key, name and data of each graph; the first is shown. The scripts find its parts by `data-part`."""
    made = [
        {
            "key": key,
            "name": name,
            "group": "object (DSO)" if len(data["profile"]["objects"]) > 1 else "namespace, by name",
            "kind": data.get("kind", "category"),  # what the categories are
            "note": data.get("note", ""),
            "legend": _legend(data),
            "data": Markup(json_text(data)),
        }
        for key, name, data in found
    ]
    return render("flame_graphs.html", graphs=made)


def _legend(data: dict[str, Any]) -> list[dict[str, Any]]:
    columns, hues = data["profile"], data["hues"]
    weights = [0] * len(columns["categories"])
    for end, weight in zip(columns["end"], columns["weight"], strict=True):
        weights[columns["category"][end]] += int(weight)
    shares = percentages(weights)
    # A category without weight is news; a state that was not seen is none, nor what a target does not do.
    every = data.get("kind", "category") == "category" and data.get("every", True)
    return [
        {"place": place, "name": name, "label": label, "hue": hues[place], "share": shares[place]}
        for place, (name, label) in enumerate(columns["categories"])
        if every or weights[place]
    ]


def off_cpu_graph(stacks: Sequence[Stack], queries: float | None) -> Graph:
    """stacks: by state (`by_state`); queries: in their window. Without idle threads, which would take all the room, and
    with what that leaves out; with them where all are."""
    busy = [stack for stack in stacks if stack.category != IDLE and stack.weight > 0]
    shown = busy or stacks
    note = ""
    left = sum(stack.weight for stack in stacks) - sum(stack.weight for stack in shown)
    if left:
        threads = len({stack.thread for stack in stacks if stack.category == IDLE})
        note = (
            f"Time off the CPU. {scaled_weight(left, 'ns')} of {threads} idle thread{'s' * (threads != 1)} are "
            "not in this graph."
        )
    cost = sum(stack.weight for stack in shown) / 1e3 / queries if queries else None

    def make(title: str, _: Sequence[tuple[str, str]]) -> dict[str, Any]:
        states = _states(shown)
        return flame_data(shown, f"off-CPU: {title}", "ns", cost, states, kind="state", counted="stretches", note=note)

    return Graph("off", "off-CPU", stacks, make)


def pmp_graph(stacks: Sequence[Stack]) -> Graph:
    """stacks: by wall clock, with their owner category"""

    def make(title: str, owners: Sequence[tuple[str, str]]) -> dict[str, Any]:
        return flame_data(stacks, f"PMP: {title}", "ns", None, owners, kind="category")

    return Graph("pmp", "PMP wall clock", stacks, make)


def _states(stacks: Sequence[Stack]) -> list[tuple[str, str]]:
    """Those that were seen, in the order in which they have their hues everywhere."""
    labels = {**STATES, IDLE: "threads with little to do"}
    seen = {stack.category for stack in stacks}
    return [(name, label) for name, label in labels.items() if name in seen]


def flame_data(
    stacks: Sequence[Stack],
    title: str,
    unit: str,
    us_per_query: float | None,
    labels: Sequence[tuple[str, str]] = (),
    leaf_of: Mapping[tuple[str, ...], str] | None = None,
    leaf_labels: Sequence[tuple[str, str]] = (),
    **more: object,
) -> dict[str, Any]:
    """What the scripts read of a graph. labels: of the categories, in order. MeasurementError without any weight."""
    tree = FrameTree(stacks, tuple(name for name, _ in labels))
    hues = hue_places(tree.categories)
    if more.get("kind") == "state":
        states = {**STATE_HUES, IDLE: -1}
        hues = [states.get(name, hue) for name, hue in zip(tree.categories, hues, strict=True)]
    return {
        "name": printable(title),
        "title": printable(title),
        "unit": printable(unit),
        "usPerQuery": us_per_query,
        "hues": hues,
        "profile": pack(tree, dict(labels), leaf_of, leaf_labels),
        **more,
    }
