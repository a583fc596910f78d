"""The half of a flame graph that needs no script: heading, legend, frames and footer, as lines of SVG.

Nothing can be measured here, so widths of text are estimated on the safe side. The script measures, and draws
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ground.text.columns import cells
from viz.flame.layout import Box, fit, shorter_forms
from viz.flame.tree import DrawnTree
from viz.svg.elements import element, label

LEAST_PX = 0.5  # a narrower frame is not drawn, unless asked otherwise
WIDTH = 1200  # px, unless asked otherwise, of the drawing without scripts; with them it takes the width of the window
MARGIN = 12
ROW = 17  # from one row of frames to the next

_FRAME_CHAR = 6.65  # px, of the 11 px fixed-width font, for the widest of the fonts asked for
_SMALL_CHAR = 6.8  # px, of the 12 px proportional font
_TITLE_CHAR = 11.0  # px, of the 17 px bold font
_LINE = 18  # px, from one line of small text to the next


@dataclass(frozen=True, slots=True)
class Key:
    """A line of the legend; `share` is the printed percentage of all weight, or another figure in `unit`."""

    name: str
    label: str
    share: str
    unit: str = "%"


def draw_head(
    title: str,
    subtitle: str,
    warnings: Sequence[str],
    keys: Sequence[Key],
    width: int = WIDTH,
    of_keys: str = "share of all:",
) -> tuple[list[Markup], int]:
    """Title, subtitle, warnings and legend; and where the frames may begin. of_keys: what its figures are"""
    lines = [Markup('<g class="static">')]
    y = 26
    for part in _wrap(title, _TITLE_CHAR, width):
        lines.append(label(part, MARGIN, y, "title ink"))
        y += 22
    y -= 4
    for part in _wrap(subtitle, _SMALL_CHAR, width):
        lines.append(label(part, MARGIN, y, "small quiet"))
        y += _LINE
    for warning in warnings:
        parts = _wrap(warning, _SMALL_CHAR, width, indent=10)
        box = {"x": MARGIN, "y": y - 10, "width": width - 2 * MARGIN, "height": len(parts) * _LINE + 4, "rx": 5}
        lines.append(element("rect", class_="warnbox", **box))
        for part in parts:
            lines.append(label(part, MARGIN + 10, y + 5, "small warnink"))
            y += _LINE
        y += 8
    y += 6
    lines.append(label(of_keys, MARGIN, y, "small quiet"))
    x = MARGIN + 88.0
    for index, key in enumerate(keys):
        text = f"{key.name} {key.share} {key.unit}"
        wide = 17 + cells(text) * _SMALL_CHAR + 16
        if x + wide > width - MARGIN and x > MARGIN:
            x, y = float(MARGIN), y + _LINE
        hover = [element("title", key.label)] if key.label else []
        swatch = element("rect", class_=f"c{index}", x=x, y=y - 10, width=11, height=11, rx=3)
        lines.append(element("g", *hover, swatch, label(text, x + 17, y, "small ink")))
        x += wide
    return [*lines, Markup("</g>")], y + 14


def draw_frames(tree: DrawnTree, boxes: Iterable[Box], floor: int, hover: Callable[[int], str]) -> list[Markup]:
    """One group for each box, root at the bottom, on `floor`; `hover` gives the title of a node."""
    lines = []
    for box in boxes:
        name = tree.name[box.node]
        y = floor - (tree.depth[box.node] + 1) * ROW
        shown = fit(name, shorter_forms(name), int((box.width - 6) / _FRAME_CHAR))
        width = box.width - (0.6 if box.width > 2 else 0)
        rect = element("rect", class_=f"c{tree.category[box.node]}", x=MARGIN + box.x, y=y, width=width, height=ROW - 1)
        text = [element("text", shown, x=MARGIN + box.x + 3, y=y + 12)] if shown else []
        lines.append(element("g", element("title", hover(box.node)), rect, *text, class_="f"))
    return lines


def draw_foot(
    tree: DrawnTree,
    drawn: int,
    left_out: int,
    least: float,
    floor: int,
    notes: Sequence[str] = (),
    width: int = WIDTH,
) -> tuple[list[Markup], int]:
    """What was left out, and what else is to be said; and the height of the whole drawing."""
    text = f"All {len(tree):,} frames are drawn."
    if drawn < len(tree):
        text = (
            f"{drawn:,} of {len(tree):,} frames are drawn. Those narrower than {least:g} px are not: "
            f"they hold {100 * left_out / tree.total:.2f} % of the weight, which stays in every total."
        )
    lines = [text, *(part for note in notes for part in _wrap(note, _SMALL_CHAR, width))]
    labels = [label(line, MARGIN, floor + 20 + place * _LINE, "static small quiet") for place, line in enumerate(lines)]
    return labels, floor + 32 + (len(lines) - 1) * _LINE


def _wrap(text: str, char: float, width: int, indent: int = 0) -> list[str]:
    """`text` in lines that fit the width, broken at spaces where there are any."""
    room = int((width - 2 * MARGIN - 2 * indent) / char)
    lines: list[str] = []
    line = ""
    for word in text.split():
        if line and cells(line) + 1 + cells(word) > room:
            lines.append(line)
            line = ""
        line = f"{line} {word}" if line else word
        while cells(line) > room:  # one word wider than the line
            cut = room if line.isascii() else room // 2
            lines.append(line[:cut])
            line = line[cut:]
    return [*lines, line] if line else lines
