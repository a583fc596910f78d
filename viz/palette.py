"""Colours of the categories, for a light page and a dark one.

The eight hues are the "light" qualitative scheme of Paul Tol, made for dark text on cells that colour-blind
eyes can tell apart. The dimmed set has the same hues with less lightness. Both hold near-black text at AA
contrast (4.5 : 1) or better, which tests/viz/test_palette.py checks, with the distances under simulated
colour blindness. Which set comes first depends on the page; the ninth to sixteenth category get the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ("BRIGHT", "DIMMED", "THEMES", "Theme", "fills")

BRIGHT = ("#77aadd", "#ee8866", "#eedd88", "#ffaabb", "#99ddff", "#44bb99", "#bbcc33", "#aaaa00")
DIMMED = ("#5788ba", "#c86645", "#c2b25d", "#d58395", "#70b3d4", "#0c9979", "#96a500", "#8a8900")


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours of one page; `ink` is the text on the page, `frame_ink` the text on a frame."""

    page: str
    ink: str
    quiet: str
    line: str
    panel: str
    frame_ink: str
    other: str
    match: str
    match_ink: str
    warn: str
    warn_ink: str
    focus: str
    first: tuple[str, ...]
    second: tuple[str, ...]


THEMES = {
    "light": Theme(
        page="#ffffff",
        ink="#1b1f24",
        quiet="#57606a",
        line="#c9d1d9",
        panel="#f6f8fa",
        frame_ink="#111111",
        other="#dddddd",
        match="#a3128f",
        match_ink="#ffffff",
        warn="#ffe7a8",
        warn_ink="#4a3200",
        focus="#0b57d0",
        first=BRIGHT,
        second=DIMMED,
    ),
    "dark": Theme(
        page="#14171b",
        ink="#e8eaed",
        quiet="#a8b0b9",
        line="#3a414a",
        panel="#20252b",
        frame_ink="#111111",
        other="#7f858c",
        match="#ff7bed",
        match_ink="#111111",
        warn="#5a4200",
        warn_ink="#ffe9b0",
        focus="#8ab4f8",
        first=DIMMED,
        second=BRIGHT,
    ),
}


def fills(names: Sequence[str], theme: Theme, other: str) -> list[str]:
    """One fill for each category; `other` is grey and takes no hue."""
    hues = [*theme.first, *theme.second]
    chosen = []
    taken = 0
    for name in names:
        if name == other:
            chosen.append(theme.other)
        else:
            chosen.append(hues[taken % len(hues)])
            taken += 1
    return chosen
