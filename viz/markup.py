"""HTML from Python without a template language: everything that is not markup goes through `text`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from viz.frames import OTHER, printable

__all__ = ("copy_tools", "figure", "hue_class", "hue_places", "part", "svg_button", "table", "text")

_COPY = (
    '<button type="button" data-copy-as="tsv">copy TSV</button>'
    '<button type="button" data-copy-as="markdown">copy Markdown</button>'
)


def text(raw: object) -> str:
    """`raw` as text that is safe in an element and in a quoted attribute."""
    return escape(printable(str(raw)), quote=True)


def svg_button(name: str) -> str:
    return f'<button type="button" data-save="{text(name)}">save SVG</button>'


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    """A table of cells that are markup already; the first cell of a row heads it. heads: markup too."""
    head = "".join(f'<th scope="col">{cell}</th>' for cell in heads)
    body = "\n".join(
        f'<tr><th scope="row">{row[0]}</th>' + "".join(f"<td>{cell}</td>" for cell in row[1:]) + "</tr>" for row in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="table"><table class="{kind}">'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


def figure(caption: str, content: str, legend: str = "", tools: str = _COPY) -> str:
    """A titled block with its buttons; legend: markup below it."""
    note = f'<p class="legend-note">{legend}</p>' if legend else ""
    return (
        f'<figure><figcaption><span>{caption}</span><span class="tools">{tools}</span></figcaption>\n'
        f"{content}\n{note}</figure>\n"
    )


def copy_tools(*more: str) -> str:
    return _COPY + "".join(more)


def hue_class(hue: int) -> str:
    """The class of a hue (palette.py); -1 is the grey of `other`."""
    return f"h{hue}" if hue >= 0 else "hother"


def hue_places(names: Sequence[str]) -> list[int]:
    """Which of the 16 hues each category takes; -1 for `other`, which is grey."""
    places, taken = [], 0
    for name in names:
        places.append(-1 if name == OTHER else taken % 16)
        taken += name != OTHER
    return places


def part(make: Callable[[], str]) -> str:
    """What `make` gives. Where figures of a damaged file cannot be drawn or added up, a line that says so instead:
    the rest of the page does not need them.
    """
    try:
        return make()
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        why = f"{type(error).__name__}: {error}"[:200]
        return (
            '<p class="banner bad">This part is not shown: a file of this run holds figures that cannot be '
            f"({text(why)}). The run was damaged, or another program wrote it.</p>"
        )
