"""The shell of every page: one file that opens from disk and asks nobody for anything.

A policy in the page forbids every request and every script but ours, whatever a name may hold.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from ground.system.atomic_files import write_whole
from viz.assets import asset
from viz.flame.palette import THEMES, variables
from viz.page.rendering import render

_SCRIPTS = (
    "flame_core.js", "dom.js", "profile.js", "views.js", "canvas.js", "save.js", "function_table.js",
    "flame_controls.js", "two_sides.js", "difference_graph.js", "plots.js", "page.js",
)  # fmt: skip
# Before first paint, so that a dark page never flashes white.
_EARLY = (
    'try{const t=localStorage.getItem("ioflame-theme");'
    'if(t==="dark"||t==="light")document.documentElement.dataset.theme=t}catch{}'
    'document.documentElement.classList.add("js")'
)


def write_page(text: str, out: Path) -> None:
    """Writes the page whole or not at all."""
    write_whole(out, text.encode())


def page(title: str, content: Markup, scripts: Sequence[str] = ()) -> str:
    """A page of that title. scripts: of assets/, that it alone has"""
    code = asset(*_SCRIPTS, *scripts)
    policy = (
        f"default-src 'none'; script-src '{_digest(_EARLY)}' '{_digest(code)}'; style-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'"
    )
    return render(
        "page.html", title=title, policy=Markup(policy), early=Markup(_EARLY), code=Markup(code), content=content,
        style=Markup(_colours() + asset("page.css")), plot_style=Markup(asset("plots.css") + _hues()),
    )  # fmt: skip


def _colours() -> str:
    light, dark = variables(THEMES["light"]), variables(THEMES["dark"])
    return (
        f":root {{ color-scheme: light; {light} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root:not([data-theme=light]) {{ color-scheme: dark; {dark} }} }}\n"
        f":root[data-theme=dark] {{ color-scheme: dark; {dark} }}\n"
        f"@media print {{ :root:root:root {{ color-scheme: light; {light} }} }}\n"
    )


def _hues() -> str:
    names = [*(f"h{index}" for index in range(16)), "hother"]
    pairs = [(name, name.replace("hother", "other")) for name in names]
    filled = [f".{name} {{ fill: var(--{colour}); background: var(--{colour}); }}" for name, colour in pairs]
    drawn = [f".plot .trace.{name} {{ fill: none; stroke: var(--{colour}); }}" for name, colour in pairs]
    return "\n".join([*filled, *drawn])


def _digest(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
