"""The flame graph of a page as markup: its controls, its legend, its canvas, the table of functions, and the data.

The scripts (run.js first) find the parts by their `data-part`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from viz.markup import figure, hue_class, text
from viz.packed import json_text
from viz.scales import percentages

__all__ = ("flame",)

_KEYS = (
    "click or Enter: zoom \u00b7 Shift-click or s: callers and callees \u00b7 Esc: back \u00b7 arrows: walk \u00b7 "
    "/: search \u00b7 n, N: next and previous match \u00b7 a search is plain text, or /regex/ (/regex/i ignores case). "
    "Without kernel frames, their weight stays with the frame that called them."
)
_SEARCH = (
    '<label>Search <input type="search" data-part="search" placeholder="text or /regex/" spellcheck="false"'
    ' autocomplete="off"></label>'
)
_VIEWS = (("callees", "from the root"), ("callers", "from the leaf (callers)"), ("function", "around one function"))
_WAYS = (("down", "down (icicle)"), ("up", "up (flame)"))
_THREADS = (("name", "by name"), ("split", "each apart"), ("merged", "merged"))
_DIFFERENCES = (
    ("share", "difference from the base: share"),
    ("cost", "difference from the base: us per query"),
)


def flame(page: dict[str, Any] | None, key: str = "cpu", *, hidden: bool = False) -> str:
    """page: what the scripts read, `profile` and `hues` among it; None where no stack has any weight.

    key: whose time it is (`cpu`, `off`, `pmp`); hidden: another one of the run is shown first
    """
    if page is None:
        return '<p class="absent">No flame graph: no stack has any weight.</p>'
    group = "object (DSO)" if len(page["profile"]["objects"]) > 1 else "namespace, by name"
    kind = page.get("kind", "owner")  # what the categories are
    note = f"{text(page['note'])}<br>" if "note" in page else ""
    bar = [
        _SEARCH,
        _select("View", "view", _VIEWS),
        _select("Grows", "direction", _WAYS),
        _select("Colour", "colour", [("owner", kind), ("group", group), *_DIFFERENCES]),
        _select("Threads", "threads", _THREADS),
        '<label><input type="checkbox" data-part="kernel" checked> kernel frames</label>',
        '<button type="button" data-part="reset">Reset zoom</button>',
        '<button type="button" data-part="clear" hidden>Clear filter</button>',
        '<button type="button" data-part="save">save SVG</button>',
    ]
    return "\n".join(
        [
            f'<div class="flame scripted" data-of="{key}"{" hidden" if hidden else ""}>',
            '<div class="bar" role="search">',
            *bar,
            "</div>",
            '<div class="keys" data-part="legend">',
            f'<div data-for="owner" role="group" aria-label="{kind}s, share of all">{_legend(page)}</div>',
            '<div data-for="group" role="group" aria-label="objects, share of all" hidden></div>',
            '<div data-for="difference" hidden></div>',
            "</div>",
            '<p class="line"><span data-part="status"></span> <output data-part="found"></output></p>',
            '<div class="box" data-part="box">',
            '<canvas tabindex="0" role="application" aria-label="flame graph"></canvas>',
            '<div class="spacer"></div></div>',
            f'<p class="legend-note"><span data-part="drawn"></span><br>{note}{_KEYS}</p>',
            '<p class="sr" data-part="live" aria-live="polite"></p>',
            '<div class="tip" data-part="tip" role="tooltip" hidden></div>',
            f'<div data-part="functions">{_functions()}</div>',
            f'<script type="application/json" class="profile">{json_text(page)}</script>',
            "</div>",
        ]
    )


def _select(label: str, part: str, choices: Sequence[tuple[str, str]]) -> str:
    options = "".join(f'<option value="{value}">{words}</option>' for value, words in choices)
    return f'<label>{label} <select data-part="{part}">{options}</select></label>'


def _legend(page: dict[str, Any]) -> str:
    columns, hues = page["profile"], page["hues"]
    weights = [0] * len(columns["categories"])
    for end, weight in zip(columns["end"], columns["weight"], strict=True):
        weights[columns["category"][end]] += int(weight)
    shares = percentages(weights)
    every = page.get("kind", "owner") == "owner"  # an owner without weight is news, a state that was not seen is none
    return "".join(
        f'<button type="button" data-owner="{place}" aria-pressed="false" title="{text(label or name)}">'
        f'<i class="swatch {hue_class(hues[place])}"></i>{text(name)} {shares[place]} %</button>'
        for place, (name, label) in enumerate(columns["categories"])
        if every or weights[place]
    )


def _functions() -> str:
    heads = (
        '<tr><th scope="col">function</th>'
        '<th scope="col"><button type="button" data-sort="self">% self</button></th><th scope="col">us/query self</th>'
        '<th scope="col"><button type="button" data-sort="total">% total</button></th>'
        '<th scope="col">us/query total</th><th scope="col">n</th>'
        '<th scope="col" data-for="object">object</th></tr>'
    )
    return figure(
        'Functions, <span class="count"></span>',
        '<div class="scroll" tabindex="0" role="group" aria-label="functions"><table class="numbers">'
        f"<thead>{heads}</thead><tbody></tbody></table></div>"
        '<button type="button" class="more">more functions</button>',
        "Of all stacks, or of those that a filter above has left; zoom changes nothing here. % of all. "
        "Self: at the bottom of the stack. Total: anywhere on it; a stack counts once for a function, "
        "however often it is there. n: samples of the total. A name opens its callers and callees.",
    )
