"""Parts of one figure as one bar; names and numbers are in the rows of its legend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from viz.flame.palette import hue_class
from viz.svg.elements import element

_WIDTH, _HEIGHT, _GAP = 1000, 26, 1.5


@dataclass(frozen=True, slots=True)
class BarPart:
    """title: what an outsider calls it; name: the published short one, "" for none; hue: a place of the palette"""

    title: str
    name: str
    hue: int
    value: float


def stacked_bar(parts: Sequence[BarPart]) -> Markup:
    """A bar that takes the width of the page, whatever that is."""
    whole = sum(part.value for part in parts) or 1.0
    drawn = []
    left = 0.0
    for part in parts:
        width = _WIDTH * part.value / whole
        title = element("title", f"{part.title}: {100 * part.value / whole:.1f} %")
        wide = max(width - _GAP, min(width, 0.5))
        drawn.append(element("rect", title, class_=hue_class(part.hue), x=left, y=0, width=wide, height=_HEIGHT))
        left += width
    told = "; ".join(f"{part.title} {100 * part.value / whole:.1f} %" for part in parts)
    return element(
        "svg", *drawn, class_="stacked-bar", viewBox=f"0 0 {_WIDTH} {_HEIGHT}", preserveAspectRatio="none",
        role="img", aria_label=told,
    )  # fmt: skip
