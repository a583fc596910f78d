"""A flame graph of two sides as one SVG file: as flame_graph.py draws it, with colour only where they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ground.results.frame_differences import FrameDifferences
from viz.flame.difference import DifferenceTree, differs, packed, rows_of, rule_words
from viz.flame.palette import Theme
from viz.svg.flame_graph import FlamegraphOptions, drawing
from viz.svg.static import Key


def difference_graph(found: FrameDifferences, unit: str, options: FlamegraphOptions) -> str:
    """The text of the SVG file. unit: of the costs; options: `subtitle` comes behind what differs."""
    tree = DifferenceTree(found, unit)
    keys = [Key(kind.name, kind.about, f"{count:,}", "") for kind, count in tree.kinds]

    def hover(node: int) -> str:
        rows = rows_of(found, node, unit)
        return "\n".join([tree.name[node], *(f"{key}: {text}" if key else text for key, text in rows)])

    def fills_of(theme: Theme) -> Sequence[str]:
        return [kind.fill(theme) for kind, _ in tree.kinds]

    subtitle = " ".join(filter(None, [differs(found, unit), options.subtitle]))
    notes = ["Width: the mean of both sides.", *rule_words(found, unit), *options.notes]
    told = replace(options, subtitle=subtitle, notes=notes, unit=unit, us_per_query=None)
    return drawing(tree, keys, told, "frames:", hover, fills_of, difference=packed(found, unit))
