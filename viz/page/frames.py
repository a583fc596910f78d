"""Frames of two sides on a page: a flame graph that has colour where they differ, and the difference in few lines."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from ground.results.frame_differences import FrameDifferences
from viz.flame.embedded import json_text, named
from viz.page.rendering import render, table
from viz.printable import printable

__all__ = ("frames_compared",)

_RULES = {
    "canonical": "spelled otherwise",
    "alias": "alias file",
    "thread": "the heaviest thread",
    "similar": "names alike under one caller",
    "callees": "the same callees under one caller",
}
_FUNCTIONS = 20


def frames_compared(found: FrameDifferences) -> Markup:
    """The flame graph, its legend, the explanation, what moved, what was matched, functions that differ."""
    base, arm = (printable(side.name) for side in found.sides)
    levels = [
        [one.below, one.object, one.why, f"{one.before:.3f}", f"{one.after:.3f}"]
        for one in found.levels
        if max(one.before, one.after) >= 0.001 * max(found.nodes.before[0], found.nodes.after[0])
    ]
    heads = ("below", "object", "why", f"{base} us/query", f"{arm} us/query")
    return Markup("").join(
        (
            render(
                "frames.html", found=found, base=base, arm=arm, legend=_legend(found),
                data=Markup(json_text(_packed(found, base, arm))), rules=_RULES,
                graph=bool(found.nodes.before[0] or found.nodes.after[0]),
            ),
            _functions(found, base, arm),
            _matches(found),
            table("Not told apart: one side has no names there, or inlined what the other did not", heads, levels,
                  "numbers second-left") if levels else Markup(""),
        )
    )  # fmt: skip


def _packed(found: FrameDifferences, base: str, arm: str) -> dict[str, Any]:
    nodes = found.nodes
    return {
        **named([printable(name) for name in found.names]),
        "objects": [printable(name) for name in found.objects],
        "sides": [{"name": base}, {"name": arm}],
        "title": f"{arm} against {base}: CPU us per query",
        "leastSamples": found.rule.least_samples,
        "depth": nodes.depth,
        "name": nodes.name,
        "object": nodes.object,
        "us": [nodes.before, nodes.after],
        "half": nodes.half,
        "samples": [nodes.samples_before, nodes.samples_after],
        "different": nodes.different,
    }


def _legend(found: FrameDifferences) -> list[str]:
    rule, (base, arm) = found.rule, found.sides
    effect = (
        f"{100 * rule.session_effect:.1f} % are allowed for what sessions differ by: there are too few to tell "
        f"({base.sessions} of {base.name}, {arm.sessions} of {arm.name})"
        if rule.session_effect_assumed
        else f"sessions ({base.sessions} and {arm.sessions}) differ by {100 * rule.session_effect:.1f} % of a cost"
    )
    smallest = (
        "no frame was seen often enough" if rule.smallest_node is None else f"{rule.smallest_node:.3f} us per query"
    )
    return [
        f"A frame has colour where the interval of its difference leaves zero, all {rule.node_tests:,} frames at once "
        f"({100 * rule.alpha:.0f} % for any colour at all where nothing differs), and both sides together have "
        f"{rule.least_samples} samples or more. The smallest difference that could have colour: {smallest}.",
        f"Width: the mean of both sides. Intervals: seconds within sessions; {effect}.",
        f"Frames that {arm.name} has no more: {found.totals.vanished:.3f} us per query, "
        f"{found.totals.vanished_nodes:,} of them different; frames that {base.name} has not: "
        f"{found.totals.new:.3f} us per query, {found.totals.new_nodes:,} of them different.",
    ]


def _functions(found: FrameDifferences, base: str, arm: str) -> Markup:
    rows: list[list[str]] = []
    for one in found.functions:
        if not (one.total.different or one.own.different) or len(rows) == _FUNCTIONS:
            break
        for what, figure in (("total", one.total), ("self", one.own)):
            if figure.different:
                rows.append([
                    found.names[one.name], what, f"{figure.before:.3f}", f"{figure.after:.3f}", f"{figure.delta:+.3f}",
                    f"[{figure.low:+.3f}, {figure.high:+.3f}]", f"{sum(figure.samples):,}",
                ])  # fmt: skip
    if not rows:
        return Markup("")
    heads = ("function", "", base, arm, "difference", "95 % of all at once", "n")
    smallest = found.rule.smallest_function
    legend = (
        f"us per query, wherever it is called; the interval holds for all {found.rule.function_tests:,} figures of "
        f"functions at once. The smallest that could be here: {smallest or 0:.3f} us per query."
    )
    return table("Functions that differ", heads, rows, "numbers second-left places", legend)


def _matches(found: FrameDifferences) -> Markup:
    if not found.matches:
        return Markup("")
    rows = [
        [one.before, one.after, _RULES.get(one.rule, one.rule), "taken for the same" if one.taken_for_the_same else ""]
        for one in found.matches
    ]
    base, arm = found.sides
    return table(
        "Names that were matched", (base.name, arm.name, "by", ""), rows, "words",
        'A match is undone by its name under "apart" in the request of `stackfold diff --runs`, or all of a rule by '
        "--matching.",
    )  # fmt: skip
