"""Figures of the tests by hand: what was measured, its interval and what was expected, in a table at the end.

Two measurements of a busy host agree only by luck, so such a test reports and whoever changed what it measures reads.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass

import pytest

from ioflame.analysis.quantiles import t_quantile

KEY = "figure"
# What `--times` adds to a test's name.
_TIME = re.compile(r"\[time\d+\]|(?<=\[)time\d+-|-time\d+(?=[-\]])")


@dataclass(frozen=True)
class Figure:
    """One row. low, high: the interval of the value, in its unit; None where a count is exact, or one time says none"""

    name: str
    value: float
    low: float | None
    high: float | None
    expected: str

    def line(self) -> str:
        interval = "" if self.low is None or self.high is None else f" [{self.low:.4g}, {self.high:.4g}]"
        return f"{self.name}: {self.value:.4g}{interval}" + (f"   expected {self.expected}" if self.expected else "")


def of_times(figures: list[Figure]) -> list[Figure]:
    """Figures of one name that have no interval of their own: their mean, with Student's interval of so many times."""
    if len(figures) == 1 or figures[0].low is not None:
        return figures
    values = [one.value for one in figures]
    middle = statistics.fmean(values)
    half = t_quantile(0.95, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    name = f"{figures[0].name}, {len(values)} times"
    return [Figure(name, middle, middle - half, middle + half, figures[0].expected)]


Report = Callable[..., None]


def reporter_of(item: pytest.Item) -> Report:
    def figure(
        name: str, value: float, low: float | None = None, high: float | None = None, *, expected: str = ""
    ) -> None:
        """Adds a row; the name carries the unit."""
        item.user_properties.append((KEY, asdict(Figure(name, value, low, high, expected))))

    return figure


def table_of(reports: list[pytest.TestReport]) -> list[str]:
    """The rows of all tests, below the name of each; a test that was run several times has one row a figure."""
    tests: dict[str, dict[str, list[Figure]]] = {}
    for report in reports:
        named = tests.setdefault(_TIME.sub("", report.nodeid), {})
        for key, value in report.user_properties:
            if key == KEY:
                figure = Figure(**value)  # type: ignore[arg-type]
                named.setdefault(figure.name, []).append(figure)
    lines = []
    for test, named in tests.items():
        rows = [row.line() for figures in named.values() for row in of_times(figures)]
        lines += [test, *(f"  {row}" for row in rows)] if rows else []
    return lines
