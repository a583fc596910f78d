"""The half of a flame graph that needs no script: heading, legend, frames and footer, as lines of SVG.

Nothing can be measured here, so widths of text are estimated on the safe side. The script measures, and draws
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from ioflame.lines import cells
from viz.frames import FrameTree
from viz.labels import fit

__all__ = (
    "MARGIN",
    "ROW",
    "WIDTH",
    "Box",
    "Key",
    "draw_foot",
    "draw_frames",
    "draw_head",
    "layout",
)

WIDTH = 1200  # px, unless asked otherwise, of the drawing without scripts; with them it takes the width of the window
MARGIN = 12
ROW = 17  # from one row of frames to the next

_FRAME_CHAR = 6.65  # px, of the 11 px fixed-width font, for the widest of the fonts asked for
_SMALL_CHAR = 6.8  # px, of the 12 px proportional font
_TITLE_CHAR = 11.0  # px, of the 17 px bold font
_LINE = 18  # px, from one line of small text to the next


@dataclass(frozen=True, slots=True)
class Box:
    """A frame that is drawn: its node in the tree, and where it lies."""

    node: int
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Key:
    """A line of the legend; `share` is the printed percentage of all weight."""

    name: str
    label: str
    share: str


def layout(tree: FrameTree, width: float, least: float) -> tuple[list[Box], int]:
    """The boxes of the whole tree that are at least `least` wide, and the weight in those that are not."""
    boxes: list[Box] = []
    left_out, node = 0, 0
    begin = [0] * (max(tree.depth) + 2)  # by depth: the weight left of the next box
    while node < len(tree):
        depth, weight = tree.depth[node], tree.weight[node]
        start = begin[depth]
        begin[depth] += weight
        if node and width * weight / tree.total < least:
            left_out += weight
            node = tree.end[node]
            continue
        begin[depth + 1] = start
        boxes.append(Box(node, width * start / tree.total, width * weight / tree.total))
        node += 1
    return boxes, left_out


def draw_head(
    title: str, subtitle: str, warnings: Sequence[str], keys: Sequence[Key], width: int = WIDTH
) -> tuple[list[str], int]:
    """Title, subtitle, warnings and legend; and where the frames may begin."""
    lines = ['<g class="static">']
    y = 26
    for part in _wrap(title, _TITLE_CHAR, width):
        lines.append(f'<text class="title ink" x="{MARGIN}" y="{y}">{escape(part)}</text>')
        y += 22
    y -= 4
    for part in _wrap(subtitle, _SMALL_CHAR, width):
        lines.append(f'<text class="small quiet" x="{MARGIN}" y="{y}">{escape(part)}</text>')
        y += _LINE
    for warning in warnings:
        parts = _wrap(warning, _SMALL_CHAR, width, indent=10)
        lines.append(
            f'<rect class="warnbox" x="{MARGIN}" y="{y - 10}" width="{width - 2 * MARGIN}"'
            f' height="{len(parts) * _LINE + 4}" rx="5"/>'
        )
        for part in parts:
            lines.append(f'<text class="small warnink" x="{MARGIN + 10}" y="{y + 5}">{escape(part)}</text>')
            y += _LINE
        y += 8
    y += 6
    lines.append(f'<text class="small quiet" x="{MARGIN}" y="{y}">share of all:</text>')
    x = MARGIN + 88.0
    for index, key in enumerate(keys):
        text = f"{key.name} {key.share} %"
        wide = 17 + cells(text) * _SMALL_CHAR + 16
        if x + wide > width - MARGIN and x > MARGIN:
            x, y = float(MARGIN), y + _LINE
        hover = f"<title>{escape(key.label)}</title>" if key.label else ""
        lines.append(
            f'<g>{hover}<rect class="c{index}" x="{_px(x)}" y="{y - 10}" width="11" height="11" rx="3"/>'
            f'<text class="small ink" x="{_px(x + 17)}" y="{y}">{escape(text)}</text></g>'
        )
        x += wide
    lines.append("</g>")
    return lines, y + 14


def draw_frames(
    tree: FrameTree,
    boxes: Iterable[Box],
    forms: dict[str, list[int]],
    floor: int,
    hover: Callable[[int], str],
) -> list[str]:
    """One group for each box, root at the bottom, on `floor`; `hover` gives the title of a node."""
    lines = []
    for box in boxes:
        name = tree.name[box.node]
        y = floor - (tree.depth[box.node] + 1) * ROW
        shown = fit(name, forms[name], int((box.width - 6) / _FRAME_CHAR))
        text = f'<text x="{_px(MARGIN + box.x + 3)}" y="{y + 12}">{escape(shown)}</text>' if shown else ""
        gap = 0.6 if box.width > 2 else 0
        lines.append(
            f'<g class="f"><title>{escape(hover(box.node))}</title>'
            f'<rect class="c{tree.category[box.node]}" x="{_px(MARGIN + box.x)}" y="{y}"'
            f' width="{_px(box.width - gap)}" height="{ROW - 1}"/>{text}</g>'
        )
    return lines


def draw_foot(tree: FrameTree, drawn: int, left_out: int, least: float, floor: int) -> tuple[list[str], int]:
    """What was left out; and the height of the whole drawing."""
    text = f"All {len(tree):,} frames are drawn."
    if drawn < len(tree):
        text = (
            f"{drawn:,} of {len(tree):,} frames are drawn. Those narrower than {least:g} px are not: "
            f"they hold {100 * left_out / tree.total:.2f} % of the weight, which stays in every total."
        )
    y = floor + 20
    return [f'<text class="static small quiet" x="{MARGIN}" y="{y}">{escape(text)}</text>'], y + 12


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


def _px(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
