"""Figures of the tests by hand: what was measured, its interval and what was expected, in a table at the end.

Two measurements of a busy host agree only by luck, so such a test reports and whoever changed what it measures reads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

import pytest

__all__ = ("Figure", "Report", "table_of")

KEY = "figure"


@dataclass(frozen=True)
class Figure:
    """One row. low, high: the interval of the value, in its unit; None where a count is exact"""

    name: str
    value: float
    low: float | None
    high: float | None
    expected: str

    def line(self) -> str:
        interval = "" if self.low is None or self.high is None else f" [{self.low:.4g}, {self.high:.4g}]"
        return f"{self.name}: {self.value:.4g}{interval}" + (f"   expected {self.expected}" if self.expected else "")


Report = Callable[..., None]


def reporter_of(item: pytest.Item) -> Report:
    def figure(
        name: str, value: float, low: float | None = None, high: float | None = None, *, expected: str = ""
    ) -> None:
        """Adds a row; the name carries the unit."""
        item.user_properties.append((KEY, asdict(Figure(name, value, low, high, expected))))

    return figure


def table_of(reports: list[pytest.TestReport]) -> list[str]:
    """The rows of all tests, below the name of each."""
    lines = []
    for report in reports:
        rows = [Figure(**value).line() for key, value in report.user_properties if key == KEY]  # type: ignore[arg-type]
        lines += [report.nodeid, *(f"  {row}" for row in rows)] if rows else []
    return lines
