"""`report.html` of a count: every operation by arm, then each with its categories and the functions that differ.

It follows the rules of a run's page: one file, no request.
"""

from __future__ import annotations

from functools import partial
from urllib.parse import quote

from markupsafe import Markup

from viz.flame.palette import hue_places
from viz.page.document import page
from viz.page.rendering import banner, part, plot_figure, render, section_markup
from viz.svg.history import category_bars
from viz.svg.ratios import Ratio, ratios_plot
from viz.tables.counted import Block, CountView, OperationView

# Arms from which on they are a curve.
_CURVE = 3

_EXACT = "Medians over environments of other lengths. Two counts of one build agree within 0.01 %, whatever else runs."


def render_count(view: CountView) -> str:
    """The page."""
    sections = [("Every operation", "all", partial(every_operation, view))]
    sections += [(one.name, f"op-{one.name}", partial(_operation, view, one)) for one in view.operations]
    made = [{"name": name, "place": place, "content": part(make)} for name, place, make in sections]
    facts = ", ".join(f"{name} {value}" for name, value in view.facts.items())
    content = render(
        "compare.html", label="count", verdict=view.sentence, kind="note", bars=[], notes=[*view.notes, view.unseen],
        sections=made, about=f"{_EXACT} {facts}.",
    )  # fmt: skip
    return page(view.title, content)


def every_operation(view: CountView) -> Markup:
    """A table over all arms; of three and more a curve as well; and each against the base."""
    tables = section_markup([view.table, view.against])
    return _curves(view) + tables if len(view.arms) >= _CURVE else tables


def _curves(view: CountView) -> Markup:
    """A line an operation, over its instructions in the base."""
    lines = {}
    for one in view.operations:
        base = one.instructions[0]
        known = {arm: value for arm, value in zip(view.arms, one.instructions, strict=True) if value}
        if base:
            lines[one.name] = {arm: Ratio(value / base) for arm, value in known.items()}
    caption = f"Instructions relative to {view.arms[0]}"
    plot = ratios_plot(lines, view.arms, caption)
    hues = [(hue % 16, name) for hue, name in enumerate(lines)]
    return plot_figure(caption, plot, "counts.svg", "A line is an operation.", caption, hues)


def _operation(view: CountView, one: OperationView) -> Markup:
    parts = [banner("note", f"{arm} is not counted: {why}.") for arm, why in one.lacks.items()]
    for block in one.blocks:
        if block.stacks and block.counted and len(view.arms) > 1:
            parts.append(_stacked(view, one, block))
        parts.append(section_markup([view.block(block, f"{one.name}: {block.title or 'what was counted'}")]))
    return Markup("").join(parts)


def _stacked(view: CountView, one: OperationView, block: Block) -> Markup:
    names = list(block.counted)
    bars = [
        (arm, {name: cells[place] or 0.0 for name, cells in block.counted.items()})
        for place, arm in enumerate(view.arms)
    ]
    caption = f"{one.name}: {block.title}"
    hues = list(zip(hue_places(names), names, strict=True))
    plot = category_bars(bars, names, caption, "")
    return plot_figure(caption, plot, f"{quote(caption, safe=' ')}.svg", "", caption, hues)
