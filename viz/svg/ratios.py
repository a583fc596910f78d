"""Ratios to a base as lines, one a test, over versions in their order; the band of a line is its interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from viz.svg.axes import nice_step
from viz.svg.elements import element, label, path, plot

__all__ = ("Ratio", "ratios_plot")

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _FOOT = 1000, 330, 52, 24, 14, 46
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
    ratios = [one for line in lines.values() for one in line.values()]
    values = [1.0, *(one.value for one in ratios), *(value for line in told.values() for value in line.values())]
    least, most = min(values), max(values)
    spare = _BEYOND * max(most - least, 0.04)
    ends = [end for one in ratios for end in (one.low, one.high) if end is not None]
    bottom, top = min([least, *ends]), max([most, *ends])
    bottom, top = max(bottom, least - spare) - 0.01, min(top, most + spare) + 0.01

    def y(value: float) -> float:
        return _TOP + (_HEIGHT - _FOOT - _TOP) * (top - min(max(value, bottom), top)) / (top - bottom)

    across = (_WIDTH - _LEFT - _RIGHT) / max(len(versions), 1)
    place = {version: _LEFT + across * (index + 0.5) for index, version in enumerate(versions)}
    parts: list[Markup] = []
    step = nice_step((top - bottom) / 6)
    for turn in range(int(bottom / step) + 1, int(top / step) + 1):
        at = y(turn * step)
        parts.append(element("line", class_="grid", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=at, y2=at))
        parts.append(label(f"{turn * step:.2f}", _LEFT - 6, at + 4, "tick end"))
    parts.append(element("line", class_="mark", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y(1), y2=y(1)))
    longest = max((len(version) for version in versions), default=1)
    thin = math.ceil(_LETTER * (longest + 1) / across)
    for index, version in enumerate(versions):
        if index % thin == 0:
            parts.append(label(version, place[version], _HEIGHT - 28, "tick mid"))
    parts.append(label("the axis does not begin at 0", _LEFT, _HEIGHT - 8, "tick"))
    for hue, (test, line) in enumerate(lines.items()):
        for run in _runs(versions, line):
            parts += _line(test, hue % 16, [(version, place[version], line[version]) for version in run], y)
        for version, value in told.get(test, {}).items():
            title = element("title", f"{test}, {version}: {value:.2f} published")
            d = f"M{place[version]:.1f} {y(value) - _MARK:.1f}l{_MARK} {_MARK}l-{_MARK} {_MARK}l-{_MARK} -{_MARK}Z"
            parts.append(element("path", title, class_=f"trace h{hue % 16}", d=d))
    return plot(_WIDTH, _HEIGHT, words, *parts)


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
