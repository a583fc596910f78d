"""A share as a bar in a cell of a table, with its interval."""

from __future__ import annotations

from markupsafe import Markup

from viz.svg.elements import element, path

_WIDTH, _HEIGHT = 1000, 16


def share_bar(share: float, interval: tuple[float, float] | None, most: float, hue: str) -> Markup:
    """A bar that takes the width of its cell; the figure is beside it.

    interval: of the share, drawn as a whisker; most: the share that takes the whole width; hue: class of its colour
    """
    scale = (_WIDTH - 4) / (most or 1.0)
    drawn = [element("rect", class_=hue, y=2, width=scale * share, height=_HEIGHT - 4)]
    if interval is not None:
        low, high = (2 + scale * end for end in interval)
        drawn.append(path("whisker", f"M{low:.1f} 8H{high:.1f}M{low:.1f} 4v8M{high:.1f} 4v8"))
    return element(
        "svg", *drawn, class_="share-bar", viewBox=f"0 0 {_WIDTH} {_HEIGHT}", preserveAspectRatio="none",
        aria_hidden="true",
    )  # fmt: skip
