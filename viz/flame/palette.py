"""Colours of the categories, for a light page and a dark one.

The eight hues are the "light" qualitative scheme of Paul Tol, made for dark text on cells that colour-blind
eyes can distinguish. The dimmed set has the same hues with less lightness. Both hold near-black text at AA
contrast (4.5 : 1) or better, which tests/viz/test_palette.py checks, with the distances under simulated
colour blindness. Which set comes first depends on the page; hues 8 to 15 are the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ground.results.hues import HUES
from ground.results.profile import OTHER

BRIGHT = ("#77aadd", "#ee8866", "#eedd88", "#ffaabb", "#99ddff", "#44bb99", "#bbcc33", "#aaaa00")
DIMMED = ("#5788ba", "#c86645", "#c2b25d", "#d58395", "#70b3d4", "#0c9979", "#96a500", "#8a8900")


# By the name of its variable: on a light page, on a dark one.
_COLOURS = {
    "page": ("#ffffff", "#14171b"),
    "ink": ("#1b1f24", "#e8eaed"),  # text on the page
    "quiet": ("#57606a", "#a8b0b9"),
    "line": ("#c9d1d9", "#3a414a"),
    "panel": ("#f6f8fa", "#20252b"),
    "frame-ink": ("#111111", "#111111"),  # text on a frame
    "other": ("#dddddd", "#7f858c"),
    "match": ("#a3128f", "#ff7bed"),
    "match-ink": ("#ffffff", "#111111"),
    "warn": ("#ffe7a8", "#5a4200"),
    "warn-ink": ("#4a3200", "#ffe9b0"),
    "focus": ("#0b57d0", "#8ab4f8"),
    "ok": ("#0b5c33", "#9fe3bd"),  # the lights of checks, each on its own ground
    "ok-ground": ("#d9f2e3", "#123524"),
    "note": ("#20456f", "#b4d2f5"),
    "note-ground": ("#dfeaf7", "#1b3049"),
    "bad": ("#8f1020", "#ffb9bf"),
    "bad-ground": ("#fbdfe1", "#521820"),
    "heat": ("#7fb2e5", "#2b5f96"),  # a cell of a table at its hottest
    "second": ("#a8500c", "#f0a35e"),
    "shade": ("#e3edf7", "#1f2c3a"),  # windows of a time line
    "shade-observed": ("#fbe3c9", "#443018"),
    "hot": ("#0b4a8f", "#8ec5ff"),  # cells of a heat map, by opacity
    "tail": ("#b3471d", "#ffb26b"),  # the lines of a heat map, which must stand out from its cells
}


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours of one page by name, and its 16 hues."""

    colours: Mapping[str, str]
    hues: Sequence[str]


THEMES = {
    "light": Theme({name: light for name, (light, _) in _COLOURS.items()}, (*BRIGHT, *DIMMED)),
    "dark": Theme({name: dark for name, (_, dark) in _COLOURS.items()}, (*DIMMED, *BRIGHT)),
}


def hue_places(names: Sequence[str]) -> list[int]:
    """Which of the 16 hues each category takes; -1 for `other`, which is grey. One that is not of our rules takes the
    next that is free, so that `names` should be in the order of its rules."""
    taken = {HUES[name] for name in names if name in HUES}
    every = range(len(BRIGHT) + len(DIMMED))
    rest = itertools.chain((hue for hue in every if hue not in taken), itertools.cycle(every))
    return [-1 if name == OTHER else HUES[name] if name in HUES else next(rest) for name in names]


def hue_class(hue: int) -> str:
    """The class that a style sheet has for a hue."""
    return f"h{hue}" if hue >= 0 else "hother"


def fills(names: Sequence[str], theme: Theme) -> list[str]:
    """One fill for each category."""
    return [theme.colours["other"] if place < 0 else theme.hues[place] for place in hue_places(names)]


def variables(theme: Theme) -> str:
    """The colours of `theme` as variables of a style sheet; its hues are h0 to h15."""
    named = {**theme.colours, **{f"h{place}": hue for place, hue in enumerate(theme.hues)}}
    return " ".join(f"--{name}: {colour};" for name, colour in named.items())
