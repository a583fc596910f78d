"""Frames of two sides on a page: a flame graph that has colour where they differ, and the difference in few lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from ground.results.frame_differences import FrameDifferences
from viz.flame.difference import PER_QUERY, packed, rule_words
from viz.flame.embedded import json_text, named
from viz.page.document import page
from viz.page.rendering import render, table
from viz.printable import printable

_RULES = {
    "canonical": "spelled differently",
    "alias": "alias file",
    "thread": "the heaviest thread",
    "similar": "names alike under one caller",
    "callees": "the same callees under one caller",
}
_FUNCTIONS = 20


def frames_graph(found: FrameDifferences, unit: str) -> Markup:
    """The flame graph, its legend and the explanation. unit: of the costs"""
    base, arm = (printable(side.name) for side in found.sides)
    return render(
        "frames.html", found=found, base=base, arm=arm, legend=_legend(found, unit), unit=unit,
        data=Markup(json_text(_data(found, unit))), rules=_RULES,
        graph=bool(found.nodes.before[0] or found.nodes.after[0]),
    )  # fmt: skip


def frames_compared(found: FrameDifferences, unit: str = PER_QUERY) -> Markup:
    """`frames_graph`, and below it what moved, what was matched, functions that differ.

    unit: of the costs
    """
    base, arm = (printable(side.name) for side in found.sides)
    levels = [
        [one.below, one.object, one.why, f"{one.before:.3f}", f"{one.after:.3f}"]
        for one in found.levels
        if max(one.before, one.after) >= 0.001 * max(found.nodes.before[0], found.nodes.after[0])
    ]
    heads = ("below", "object", "why", f"{base}, {unit}", f"{arm}, {unit}")
    return Markup("").join(
        (
            frames_graph(found, unit),
            _functions(found, base, arm, unit),
            _matches(found),
            table("Not matched: one side has no names there, or inlined what the other did not", heads, levels,
                  "numbers second-left") if levels else Markup(""),
        )
    )  # fmt: skip


def render_two(found: FrameDifferences, unit: str, title: str, notes: Sequence[str]) -> str:
    """A page of two profiles that belong to no comparison. notes: what is to be known first"""
    content = render("two_profiles.html", title=title, notes=notes, frames=frames_compared(found, unit))
    return page(title, content)


def _legend(found: FrameDifferences, unit: str) -> list[str]:
    base, arm = found.sides
    colour, *intervals = rule_words(found, unit)
    return [
        colour,
        " ".join(["Width: the mean of both sides.", *intervals]),
        f"Frames that {arm.name} has no more: {found.totals.vanished:.3f} {unit}, "
        f"{found.totals.vanished_nodes:,} of them different; frames that {base.name} has not: "
        f"{found.totals.new:.3f} {unit}, {found.totals.new_nodes:,} of them different.",
    ]


def _data(found: FrameDifferences, unit: str) -> dict[str, Any]:
    base, arm = (printable(side.name) for side in found.sides)
    return {
        **named([printable(name) for name in found.names]),
        **packed(found, unit),
        "title": f"{arm} against {base}, {unit}",
        "depth": found.nodes.depth,
        "name": found.nodes.name,
    }


def _functions(found: FrameDifferences, base: str, arm: str, unit: str) -> Markup:
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
    if found.rule.by == "share":
        return table(
            "Functions that differ", (*heads[:5], heads[6]), [[*row[:5], row[6]] for row in rows],
            "numbers second-left places", f"{unit}, wherever it is called.",
        )  # fmt: skip
    legend = (
        f"{unit}, wherever it is called; the interval holds for all {found.rule.function_tests:,} figures of "
        f"functions at once. The smallest that could be here: {smallest or 0:.3f} {unit}."
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
