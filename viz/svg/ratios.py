"""Ratios to a base as lines, one a test, over versions in their order; the band of a line is its interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from viz.svg.axes import nice_step
from viz.svg.elements import element, label, path, plot

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _FOOT = 1000, 330, 52, 24, 14, 46
# Bands that lie over one another say nothing: with more lines than these, each has a panel of its own.
_MOST_BANDS = 3
_COLUMNS, _PANEL_HEIGHT, _TITLE = 3, 190, 14
# An interval of few rounds may be far wider than the ratios differ: the plot shows these, and so much more.
_BEYOND = 0.25
# Of small text, px a letter.
_LETTER = 6.2
# Half of a mark of what was published, px.
_MARK = 6


@dataclass(frozen=True)
class Ratio:
    """low, high: of its interval; None without repeats"""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class _Frame:
    """Where a panel lies, px: its left and upper edge, its width and height."""

    left: float
    top: float
    width: float
    height: float


def ratios_plot(
    lines: Mapping[str, Mapping[str, Ratio]],
    versions: Sequence[str],
    words: str,
    published: Mapping[str, Mapping[str, float]] | None = None,
) -> Markup:
    """lines: by test, then by version; a version that a test was not run with has none. Hues are in the order given.

    published: ratios of the same tests and versions, a hollow mark each
    """
    told = published or {}
    hued = {test: (hue % 16, line) for hue, (test, line) in enumerate(lines.items())}
    foot = label("the axis does not begin at 0", _LEFT, _HEIGHT - 8, "tick")
    if sum(any(one.low is not None for one in line.values()) for line in lines.values()) <= _MOST_BANDS:
        return plot(_WIDTH, _HEIGHT, words, *_panel(hued, versions, told, _Frame(0, 0, _WIDTH, _HEIGHT)), foot)
    wide, parts = _WIDTH / _COLUMNS, list[Markup]()
    for place, (test, line) in enumerate(hued.items()):
        row, column = divmod(place, _COLUMNS)
        frame = _Frame(column * wide, row * _PANEL_HEIGHT + _TITLE, wide, _PANEL_HEIGHT - _TITLE)
        parts.append(label(test, frame.left + _LEFT, frame.top + 4))
        parts += _panel({test: line}, versions, told, frame)
    height = math.ceil(len(hued) / _COLUMNS) * _PANEL_HEIGHT + _TITLE
    foot = label("the axes do not begin at 0, and each has its own scale", _LEFT, height - 6, "tick")
    return plot(_WIDTH, height, words, *parts, foot)


def _panel(
    lines: Mapping[str, tuple[int, Mapping[str, Ratio]]],
    versions: Sequence[str],
    told: Mapping[str, Mapping[str, float]],
    frame: _Frame,
) -> Iterator[Markup]:
    """Its axes and its lines. lines: by test, each with its hue"""
    left, right = frame.left + _LEFT, frame.left + frame.width - _RIGHT
    first, last = frame.top + _TOP, frame.top + frame.height - _FOOT
    ratios = [one for _, line in lines.values() for one in line.values()]
    marks = [value for test in lines for value in told.get(test, {}).values()]
    values = [1.0, *(one.value for one in ratios), *marks]
    least, most = min(values), max(values)
    spare = _BEYOND * max(most - least, 0.04)
    ends = [end for one in ratios for end in (one.low, one.high) if end is not None]
    bottom, top = min([least, *ends]), max([most, *ends])
    bottom, top = max(bottom, least - spare) - 0.01, min(top, most + spare) + 0.01

    def y(value: float) -> float:
        return first + (last - first) * (top - min(max(value, bottom), top)) / (top - bottom)

    across = (right - left) / max(len(versions), 1)
    place = {version: left + across * (index + 0.5) for index, version in enumerate(versions)}
    step = nice_step((top - bottom) / (6 if frame.height > _PANEL_HEIGHT else 5))
    for turn in range(math.floor(bottom / step) + 1, math.floor(top / step) + 1):
        at = y(turn * step)
        yield element("line", class_="grid", x1=left, x2=right, y1=at, y2=at)
        yield label(f"{turn * step:.2f}", left - 6, at + 4, "tick end")
    yield element("line", class_="mark", x1=left, x2=right, y1=y(1), y2=y(1))
    longest = max((len(version) for version in versions), default=1)
    thin = math.ceil(_LETTER * (longest + 1) / across)
    for index, version in enumerate(versions):
        if index % thin == 0:
            yield label(version, place[version], last + 18, "tick mid")
    for test, (hue, line) in lines.items():
        for run in _runs(versions, line):
            yield from _line(test, hue, [(version, place[version], line[version]) for version in run], y)
        for version, value in told.get(test, {}).items():
            title = element("title", f"{test}, {version}: {value:.2f} published")
            d = f"M{place[version]:.1f} {y(value) - _MARK:.1f}l{_MARK} {_MARK}l-{_MARK} {_MARK}l-{_MARK} -{_MARK}Z"
            yield element("path", title, class_=f"trace h{hue}", d=d)


def _runs(versions: Sequence[str], line: Mapping[str, Ratio]) -> list[list[str]]:
    """Versions next to each other that the test was run with: a gap is no line."""
    runs: list[list[str]] = [[]]
    for version in versions:
        if version in line:
            runs[-1].append(version)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _line(
    test: str, hue: int, points: Sequence[tuple[str, float, Ratio]], y: Callable[[float], float]
) -> Iterator[Markup]:
    """Its band, its line, and a dot for each version."""
    high = [(x, y(one.high if one.high is not None else one.value)) for _, x, one in points]
    low = [(x, y(one.low if one.low is not None else one.value)) for _, x, one in points]
    if any(one.low is not None for _, _, one in points):
        yield path(f"band h{hue}", _through([*high, *reversed(low)]) + "Z")
        # Of a version alone a band has no width.
        for (x, above), (_, below) in zip(high, low, strict=True):
            yield path(f"trace h{hue}", f"M{x:.1f} {above:.1f}V{below:.1f}")
    yield path(f"trace h{hue}", _through([(x, y(one.value)) for _, x, one in points]))
    for version, x, one in points:
        interval = "" if one.low is None or one.high is None else f" [{one.low:.3f}, {one.high:.3f}]"
        told = element("title", f"{test}, {version}: {one.value:.3f}{interval}")
        yield element("circle", told, class_=f"h{hue} edged segment", cx=x, cy=y(one.value), r=3.6)


def _through(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
