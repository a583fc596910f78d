"""`report.html`: one run, or several side by side, as one page that opens from disk and asks nobody for anything.

Tables and plots are markup that needs no script. The flame graph is drawn by the scripts in this room from the packed
profile (packed.py). A policy in the page forbids every request and every script but ours, whatever a name may hold.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ioflame.errors import MeasurementError
from ioflame.whole import write_whole
from viz.compare import barriers, comparison
from viz.flame import flame
from viz.frames import FrameTree, Stack, printable
from viz.markup import hue_places, part, text
from viz.packed import pack
from viz.palette import THEMES, Theme
from viz.report_parts import RunView, headline, leaf, matrix, owner, trust, what_ran, windows
from viz.scales import scaled_weight
from viz.timeline import timeline
from viz.turns import graphs
from viz.waits import waits

__all__ = ("render_report", "render_stacks", "write_page")

_HERE = Path(__file__).parent
_SCRIPTS = (
    "tools.js",
    "packed.js",
    "views.js",
    "difference.js",
    "graph.js",
    "saving.js",
    "run.js",
    "plots.js",
    "page.js",
)
# Before first paint, so that a dark page never flashes white.
_EARLY = (
    'try{const t=localStorage.getItem("ioflame-theme");'
    'if(t==="dark"||t==="light")document.documentElement.dataset.theme=t}catch{}'
    'document.documentElement.classList.add("js")'
)


def write_page(page: str, out: Path) -> None:
    """Writes the page whole or not at all."""
    write_whole(out, page.encode())


def render_report(views: Sequence[RunView]) -> str:
    """The page of `views`; the first is the base that others are compared with."""
    if not views:
        raise ValueError("a report needs a run")
    several = len(views) > 1
    title = " | ".join(view.name for view in views) if several else f"{views[0].title}: {views[0].name}"
    parts = [part(lambda: comparison(views)), _tabs(views)] if several else []
    comparable = several and not barriers(views)
    parts += [_run(view, index, several, comparable) for index, view in enumerate(views)]
    return _page(title, parts)


def render_stacks(
    stacks: Sequence[Stack],
    title: str,
    unit: str,
    us_per_query: float | None = None,
    opens: str = "callees",
) -> str:
    """A page of stacks that belong to no run: the flame graph and its functions.

    opens: the view it opens with, `callees` (from the root) or `callers` (from the leaf)
    """
    tree = FrameTree(stacks)
    data = {
        "name": printable(title),
        "title": printable(title),
        "comparable": False,
        "unit": printable(unit),
        "usPerQuery": us_per_query,
        "hues": hue_places(tree.categories),
        "opens": opens,
        "profile": pack(tree, {}),
    }
    words = (
        f"{scaled_weight(tree.total, printable(unit))} in {len({stack.frames for stack in stacks}):,} stacks. "
        "No run, so no checks stand behind it."
    )
    return _page(
        title,
        [
            f'<article class="run" aria-label="{text(title)}"><p class="quiet">{text(words)}</p>',
            f"{flame(data)}</article>",
        ],
    )


def _page(title: str, parts: Sequence[str]) -> str:
    early, code = _EARLY, "".join(_asset(name) for name in _SCRIPTS)
    policy = (
        f"default-src 'none'; script-src '{_digest(early)}' '{_digest(code)}'; style-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'"
    )
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{text(title)}</title>",
            f"<script>{early}</script>",
            f"<style>\n{_colours()}\n{_asset('report.css')}</style>",
            f'<style class="plots">\n{_asset("plots.css")}{_hues()}</style>',
            "</head>",
            "<body>",
            '<header class="top">',
            f"<h1>{text(title)}</h1>",
            '<button type="button" class="theme scripted">Theme: system</button>',
            "</header>",
            "<main>",
            '<p class="banner warn unscripted">The flame graph needs a script; tables and plots do not.</p>',
            *parts,
            "</main>",
            f"<script>{code}</script>",
            "</body>",
            "</html>\n",
        ]
    )


def _run(view: RunView, index: int, several: bool, comparable: bool) -> str:
    record = view.record
    profile, hues = _profile(view, comparable)
    sections: list[tuple[str, str, Callable[[], str]]] = [
        ("What ran", f"what-{index}", lambda: what_ran(view) + headline(view)),
        ("Can it be trusted?", f"trust-{index}", lambda: trust(view)),
        ("Where the CPU of one query goes", f"where-{index}", lambda: owner(view, hues)),
        ("Flame graph", f"graph-{index}", lambda: graphs(profile, view.observed, view.title)),
        ("What the CPU was doing", f"leaf-{index}", lambda: leaf(view) + matrix(view)),
        ("Where the rest of the time goes", f"waits-{index}", lambda: waits(view.observed, record.metrics)),
        (
            "Over time",
            f"time-{index}",
            lambda: timeline(view.rates, record.windows, view.series, record.report_start_ns) + windows(view),
        ),
    ]
    body = "".join(
        f'<section aria-labelledby="{place}"><h2 id="{place}" tabindex="-1">{name}</h2>\n{part(make)}</section>\n'
        for name, place, make in sections
    )
    links = "".join(f'<a href="#{place}">{name}</a>' for name, place, _ in sections)
    head = f'<h2 class="run-name">{text(view.name)}</h2>' if several else ""
    head += f'<nav class="sections" aria-label="parts of run {text(view.name)}">{links}</nav>'
    return f'<article class="run" aria-label="run {text(view.name)}">{head}\n{body}</article>'


def _tabs(views: Sequence[RunView]) -> str:
    buttons = "".join(
        f'<button type="button" data-run="{index}" aria-pressed="false">{text(view.name)}'
        f"{' (base)' if not index else ''}</button>"
        for index, view in enumerate(views)
    )
    return f'<div class="tabs scripted" role="group" aria-label="which run is shown below">{buttons}</div>'


def _profile(view: RunView, comparable: bool) -> tuple[dict[str, Any] | None, list[int]]:
    """What the scripts read, None where there is nothing to draw; and the hue of each owner."""
    labels = {printable(row.name): printable(row.label) for row in view.owner.rows} if view.owner else {}
    try:
        tree = FrameTree(view.stacks, tuple(labels))
    except MeasurementError:
        return None, hue_places(list(labels))
    leaves = [(row.name, row.label) for row in view.leaf.rows] if view.leaf else []
    hues = hue_places(tree.categories)
    data = {
        "name": printable(view.name),
        "title": printable(view.title),
        "comparable": comparable,
        "unit": printable(view.record.profile.unit) if view.record.profile else "",
        "usPerQuery": view.cpu[0],
        "hues": hues,
        "profile": pack(tree, labels, view.leaf_of or None, leaves),
    }
    return data, hues


def _colours() -> str:
    light, dark = (_variables(theme) for theme in (THEMES["light"], THEMES["dark"]))
    return (
        f":root {{ color-scheme: light; {light} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root:not([data-theme=light]) {{ color-scheme: dark; {dark} }} }}\n"
        f":root[data-theme=dark] {{ color-scheme: dark; {dark} }}\n"
        f"@media print {{ :root:root:root {{ color-scheme: light; {light} }} }}"
    )


_MORE = {
    # page colour -> lights of the trust block (text on their own ground), heat at its hottest, shades of windows;
    # hot: cells of a heat map by opacity; tail: its lines of percentiles, which must stand out from them
    "light": "--ok: #0b5c33; --ok-ground: #d9f2e3; --note: #20456f; --note-ground: #dfeaf7; --bad: #8f1020; "
    "--bad-ground: #fbdfe1; --heat: #7fb2e5; --second: #a8500c; --shade: #e3edf7; --shade-observed: #fbe3c9; "
    "--hot: #0b4a8f; --tail: #b3471d;",
    "dark": "--ok: #9fe3bd; --ok-ground: #123524; --note: #b4d2f5; --note-ground: #1b3049; --bad: #ffb9bf; "
    "--bad-ground: #521820; --heat: #2b5f96; --second: #f0a35e; --shade: #1f2c3a; --shade-observed: #443018; "
    "--hot: #8ec5ff; --tail: #ffb26b;",
}


def _variables(theme: Theme) -> str:
    named = {name.replace("_", "-"): colour for name, colour in asdict(theme).items() if isinstance(colour, str)}
    named |= {f"h{index}": colour for index, colour in enumerate((*theme.first, *theme.second))}
    kind = "light" if theme is THEMES["light"] else "dark"
    return " ".join(f"--{name}: {colour};" for name, colour in named.items()) + " " + _MORE[kind]


def _hues() -> str:
    names = [*(f"h{index}" for index in range(16)), "hother"]
    pairs = [(name, name.replace("hother", "other")) for name in names]
    return "\n".join(f".{name} {{ fill: var(--{colour}); background: var(--{colour}); }}" for name, colour in pairs)


def _digest(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")


def _asset(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")
