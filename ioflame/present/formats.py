"""The kinds of file that `ioflame flamegraph` writes: a row for each; options, refusals and help follow from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ioflame.present.stacks import Stacks
from ioflame.present.two_profiles import TwoProfiles
from viz.export.firefox import firefox_profile
from viz.export.speedscope import speedscope
from viz.flame.stacks import Stack
from viz.page.frames import render_two
from viz.page.report import render_stacks
from viz.svg.difference import difference_graph
from viz.svg.flame_graph import FlamegraphOptions, flamegraph
from viz.svg.static import LEAST_PX, WIDTH


@dataclass(frozen=True)
class Asked:
    """What was asked of a file. None where nothing was said.

    us_per_query: CPU us of one query; width, min_width: px, of the drawing, and of the narrowest frame that is drawn
    """

    title: str
    unit: str
    us_per_query: float | None = None
    inverted: bool = False
    width: int | None = None
    min_width: float | None = None


@dataclass(frozen=True)
class Format:
    """A kind of file.

    opens:  what opens it; {out} is its name
    render: its text; None for pprof, which stackfold writes by itself
    takes:  options of the command that have an effect on it
    else_:  why another has none
    render_two: its text of two profiles; None where it can hold one alone
    """

    opens: str
    render: Callable[[Stacks, Asked], str] | None
    takes: tuple[str, ...] = ("--rules", "--title", "--unit")
    else_: str = "this kind of file has no place for it"
    render_two: Callable[[TwoProfiles, Asked], str] | None = None


def format_of(name: str) -> Format | None:
    """By the end of a name; None where no kind has it."""
    return next((one for end, one in FORMATS.items() if name.endswith(end)), None)


def _svg(found: Stacks, asked: Asked) -> str:
    total = sum(stack.weight for stack in found.stacks)
    event = f"{found.event}: " if found.event else ""
    options = FlamegraphOptions(
        title=asked.title + (", callers of every function" if asked.inverted else ""),
        unit=asked.unit,
        subtitle=f"{event}{total:,} {asked.unit} in {len({stack.frames for stack in found.stacks}):,} stacks",
        warnings=[f"cut short: {found.cut_short}"] if found.cut_short else (),
        categories=found.categories,
        us_per_query=asked.us_per_query,
        min_width_px=LEAST_PX if asked.min_width is None else asked.min_width,
        width=asked.width or WIDTH,
    )
    return flamegraph(_inverted(found.stacks) if asked.inverted else found.stacks, options)


def _inverted(stacks: list[Stack]) -> list[Stack]:
    """The stacks from the leaf up. A category is then that of the whole stack, so it begins at the leaf."""
    return [
        Stack(stack.frames[::-1], stack.weight, stack.samples, stack.category, -1 if stack.anchor_depth < 0 else 0)
        for stack in stacks
    ]


def _html(found: Stacks, asked: Asked) -> str:
    opens = "callers" if asked.inverted else "callees"
    return render_stacks(found.stacks, asked.title, asked.unit, asked.us_per_query, opens, found.categories)


def _svg_of_two(compared: TwoProfiles, asked: Asked) -> str:
    options = FlamegraphOptions(
        title=asked.title,
        subtitle=" ".join(compared.notes),
        min_width_px=LEAST_PX if asked.min_width is None else asked.min_width,
        width=asked.width or WIDTH,
    )
    return difference_graph(compared.found, compared.unit, options)


def _html_of_two(compared: TwoProfiles, asked: Asked) -> str:
    return render_two(compared.found, compared.unit, asked.title, compared.notes)


_OF_GRAPHS = ("--rules", "--title", "--unit", "--inverted", "--us-per-query")
# By what the name ends in.
FORMATS: Mapping[str, Format] = {
    ".svg": Format("open it in a browser", _svg, (*_OF_GRAPHS, "--width", "--min-width"), render_two=_svg_of_two),
    ".html": Format("open it in a browser", _html, _OF_GRAPHS, "a page takes the width of its window", _html_of_two),
    ".speedscope.json": Format(
        "open it with speedscope", lambda found, asked: speedscope(found.stacks, asked.title, asked.unit)
    ),
    ".firefox.json": Format(
        "open it in profiler.firefox.com", lambda found, asked: firefox_profile(found.stacks, asked.title, asked.unit)
    ),
    ".pb.gz": Format("go tool pprof -http=: {out}", None, ()),
}
