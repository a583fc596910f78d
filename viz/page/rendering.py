"""Templates filled with values. What is no markup of ours is escaped; what cannot be shown becomes U+FFFD."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemBytecodeCache, PackageLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup

from viz.figures import CannotBeError
from viz.flame.palette import hue_class
from viz.printable import printable
from viz.svg.elements import element
from viz.table import NAME, Section, Table


def _shown(value: object) -> object:
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


class _BesideTemplates(FileSystemBytecodeCache):
    """What templates are compiled to, kept beside them as Python keeps modules: where it may, and if it does."""

    def dump_bytecode(self, bucket: Bucket) -> None:
        if sys.dont_write_bytecode:
            return
        with contextlib.suppress(OSError):
            Path(self.directory).mkdir(exist_ok=True)
            super().dump_bytecode(bucket)


_TEMPLATES = Environment(
    loader=PackageLoader("viz.page"), autoescape=True, undefined=StrictUndefined, finalize=_shown,
    trim_blocks=True, lstrip_blocks=True,
    bytecode_cache=_BesideTemplates(str(Path(__file__).with_name("__pycache__")), "%s.template"),
)  # fmt: skip
_TEMPLATES.filters["hue_class"] = hue_class


def render(template: str, **values: object) -> Markup:
    """`template` of the folder beside this file, filled with `values`."""
    return Markup(_TEMPLATES.get_template(template).render(values))


def compile_templates() -> None:
    """All of them, as the first page would one by one: for the set-up."""
    for name in _TEMPLATES.list_templates():
        _TEMPLATES.get_template(name)


def table(
    caption: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    kind: str = "numbers",
    legend: str = "",
    saved: str = "",
) -> Markup:
    """A figure with a table; the first cell of a row heads it. kind: classes of page.css; saved: the name of its SVG
    file"""
    return render("table.html", caption=caption, heads=heads, rows=rows, kind=kind, legend=legend, saved=saved)


def section_markup(section: Section) -> Markup:
    """The paragraphs and tables of a subject."""
    parts = []
    for block in section:
        if isinstance(block, str):
            parts.append(element("p", block, class_="legend-note"))
        elif isinstance(block, Table) and block.title and block.seen:
            parts.append(table_markup(block))
    return Markup("").join(parts)


def table_markup(shown: Table[Any], first: Callable[[str], str] | None = None, saved: str = "") -> Markup:
    """first: what makes the first cell of a row from its text; saved: as `table` has it"""
    heads, *rows = shown.cells("page")
    forms = [column.form for column in shown.shown("page")]
    kind = "words" if all(form.left for form in forms) else "numbers"
    if kind == "numbers" and forms[-1].left:
        kind += " noted"
    if kind.startswith("numbers") and len(forms) > 2 and forms[1].left:
        kind += " second-left"
    if forms[0].page is NAME.page:
        kind += " places"
    words = " ".join(filter(None, [shown.left_out("page"), shown.legend, shown.more]))
    if first is not None:
        rows = [[first(row[0]), *row[1:]] for row in rows]
    return table(shown.title, heads, rows, kind, words, saved)


def plot_figure(
    caption: str,
    plot: Markup,
    saved: str,
    legend: str = "",
    scrolls: str = "",
    hues: Sequence[tuple[int, str]] = (),
) -> Markup:
    """A figure with a plot. saved: the name of its SVG file; scrolls: what a plot is called that keeps its width;
    hues: each with its meaning
    """
    return render("plot.html", caption=caption, plot=plot, saved=saved, legend=legend, scrolls=scrolls, entries=hues)


def absent(why: str) -> Markup:
    """A line in the place of what cannot be shown."""
    return element("p", why, class_="absent")


def banner(kind: str, words: str) -> Markup:
    """kind: ok, note, warn or bad"""
    return element("p", words, class_=f"banner {kind}")


def part(make: Callable[[], Markup]) -> Markup:
    """What `make` gives. Where figures of a damaged file cannot be drawn or added up, a line that says so instead:
    the rest of the page does not need them. Any other error is a fault of ours, and is not hidden.
    """
    try:
        return make()
    except (ArithmeticError, CannotBeError) as error:
        why = f"{type(error).__name__}: {error}"[:200]
        return banner(
            "bad",
            f"This part is not shown: a file of this run holds figures that cannot be ({why}). "
            "The run was damaged, or another program wrote it.",
        )
