"""Elements of SVG and HTML, of which a plot is made: their content and their attributes are escaped."""

from __future__ import annotations

import json

from markupsafe import Markup, escape

from viz.printable import printable


def element(name: str, *content: object, **attributes: object) -> Markup:
    """`<name attributes>content</name>`. Attributes are written with hyphens for underscores, and `class_` is `class`.
    Pixels are rounded to hundredths."""
    given = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
    start = name + "".join(f' {key}="{_escaped(value)}"' for key, value in given.items())
    return Markup(f"<{start}>{''.join(map(_escaped, content))}</{name}>" if content else f"<{start}/>")


def label(words: str, x: float, y: float, kind: str = "label") -> Markup:
    """`words` that begin at (x, y); kind: classes of plots.css, such as `tick end` for small text that ends there."""
    return element("text", words, class_=kind, x=x, y=y)


def path(kind: str, d: str) -> Markup:
    return element("path", class_=kind, d=d)


def plot(width: float, height: float, words: str, *content: object, **data: object) -> Markup:
    """A plot for the page; words: what a screen reader says; data: what the scripts read of it, as JSON."""
    attributes = {f"data_{name}": json.dumps(value, separators=(",", ":")) for name, value in data.items()}
    box = f"0 0 {_number(width)} {_number(height)}"
    ground = element("rect", class_="page", width=width, height=height)
    return element(
        "svg", ground, *content, class_="plot", xmlns="http://www.w3.org/2000/svg", viewBox=box, role="img",
        aria_label=words, **attributes,
    )  # fmt: skip


def _escaped(value: object) -> Markup:
    if isinstance(value, Markup):
        return value
    # Line feeds part the lines of a tooltip.
    text = _number(value) if isinstance(value, float) else "\n".join(map(printable, str(value).split("\n")))
    return escape(text)


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
