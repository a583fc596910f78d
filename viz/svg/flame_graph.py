"""A flame graph as one SVG file: readable without scripts, explorable with them, offline.

The file holds two things. The frames wide enough to see are drawn, with a `<title>` each, for viewers that
run no script. The whole tree is kept beside them as JSON, to the last unit of weight, so that the script
(assets/svg_flame_graph.js) zooms into frames that were too narrow to draw and computes every share from the data, not
from the boxes. A page shows it in an <iframe> or <object>: inline, its keys and names would meet the page's.

The same stacks and options give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from markupsafe import escape

from ground.system.atomic_files import write_whole
from ground.text.titles import title_of
from viz.assets import asset
from viz.flame.embedded import json_text, tree_columns
from viz.flame.layout import layout
from viz.flame.palette import THEMES, Theme, fills, variables
from viz.flame.stacks import Stack
from viz.flame.tree import DrawnTree, FrameTree
from viz.printable import printable
from viz.svg.static import LEAST_PX, MARGIN, ROW, WIDTH, Key, draw_foot, draw_frames, draw_head
from viz.weights import exact_weight, percentages, scaled_weight

_SCRIPTS = ("flame_core.js", "two_sides.js", "svg_flame_graph.js")


@dataclass(frozen=True, slots=True)
class FlamegraphOptions:
    """What is written on a flame graph, and how fine it is drawn.

    title:         first line, and the name of the browser's tab
    unit:          of the weights: `ns`, `cycles` or what the event counts
    subtitle:      second line: event, total, workload, window, host
    warnings:      what a reader must know before believing the graph; on top, in amber
    categories:    (name, label) in the order of legend and colours; those met in the stacks are added.
                   A category without a stack stays in the legend with 0.00 %
    us_per_query:  CPU us of one query over the whole profile (cpuPer); gives each frame its us per query
    notes:         below the frames: how the drawing is to be read
    width:         of the drawing in px; with scripts it takes the width of the window
    min_width_px:  frames narrower than this are not drawn; their weight stays in every total
    """

    title: str
    unit: str = "ns"
    subtitle: str = ""
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    categories: Sequence[tuple[str, str]] = ()
    us_per_query: float | None = None
    min_width_px: float = LEAST_PX
    width: int = WIDTH


def write_flamegraph(stacks: Iterable[Stack], options: FlamegraphOptions, out: Path) -> None:
    """Write the flame graph of `stacks` to `out`, whole or not at all."""
    write_whole(out, flamegraph(stacks, options).encode())


def flamegraph(stacks: Iterable[Stack], options: FlamegraphOptions) -> str:
    """The text of the SVG file. Raises MeasurementError where there is no weight to draw."""
    labels = {printable(name): printable(label) for name, label in options.categories}
    tree = FrameTree(stacks, tuple(labels))
    shares = percentages(tree.category_weights())
    keys = [
        Key(title_of(name), labels.get(name, ""), share) for name, share in zip(tree.categories, shares, strict=True)
    ]
    fills_of = partial(fills, tree.categories)
    return drawing(tree, keys, options, "share of all:", partial(_hover, tree, options), fills_of)


def drawing(
    tree: DrawnTree,
    keys: Sequence[Key],
    options: FlamegraphOptions,
    of_keys: str,
    hover: Callable[[int], str],
    fills_of: Callable[[Theme], Sequence[str]],
    **more: object,
) -> str:
    """The text of the SVG file of a tree.

    keys, of_keys: the legend, and what its figures are; hover: what is shown of a node; fills_of: the colour of each
    category in a theme; more: what else the script reads
    """
    boxes, left_out = layout(tree, options.width - 2 * MARGIN, options.min_width_px)
    rows = 1 + max(tree.depth[box.node] for box in boxes)
    title, subtitle = printable(options.title), printable(options.subtitle)
    warnings = [printable(warning) for warning in options.warnings]
    notes = [printable(note) for note in options.notes]
    head, top = draw_head(title, subtitle, warnings, keys, options.width, of_keys)
    frames = draw_frames(tree, boxes, top + rows * ROW, hover)
    foot, height = draw_foot(tree, len(boxes), left_out, options.min_width_px, top + rows * ROW, notes, options.width)
    data = {
        "title": title,
        "subtitle": subtitle,
        "warnings": warnings,
        **({"notes": notes} if notes else {}),
        "unit": printable(options.unit),
        "usPerQuery": options.us_per_query,
        "minWidth": options.min_width_px,
        "row": ROW,
        "margin": MARGIN,
        "categories": [[key.name, key.label, key.share] for key in keys],
        **tree_columns(tree),
        **more,
    }
    light, dark = (_colours(theme, fills_of(theme)) for theme in (THEMES["light"], THEMES["dark"]))
    style = f"\n{light}\n{asset('svg_flame_graph.css')}@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            f'<svg xmlns="http://www.w3.org/2000/svg" class="ioflame" version="1.1"'
            f' width="{options.width}" height="{height}" viewBox="0 0 {options.width} {height}">',
            f"<title>{escape(title)}</title>",
            f"<style>{style}</style>",
            '<rect class="page" width="100%" height="100%"/>',
            *head,
            '<g class="frames">',
            *frames,
            "</g>",
            *foot,
            f'<script type="application/json" class="data">{json_text(data)}</script>',
            f"<script><![CDATA[\n{asset(*_SCRIPTS)}]]></script>",
            "</svg>\n",
        ]
    )


def _hover(tree: FrameTree, options: FlamegraphOptions, node: int) -> str:
    weight, unit = tree.weight[node], printable(options.unit)
    lines = [
        tree.name[node],
        f"{scaled_weight(weight, unit)} ({exact_weight(weight, unit)})",
        f"{100 * weight / tree.total:.2f} % of all, {title_of(tree.categories[tree.category[node]])}",
    ]
    if options.us_per_query is not None:
        lines.append(f"{options.us_per_query * (weight / tree.total):.3f} us per query")
    if tree.samples is not None:
        lines.append(f"n = {tree.samples[node]:,} samples")
    return "\n".join(lines)


def _colours(theme: Theme, filled: Sequence[str]) -> str:
    """Plain fills, for viewers that know no CSS variables."""
    lines = [f"svg.ioflame {{ {variables(theme)} }}"]
    for index, fill in enumerate(filled):
        lines.append(f".c{index} {{ fill: {fill}; background: {fill}; }}")
    return "\n".join(lines)
