"""The screen of `ioflame top`: it fits a terminal of 80 columns and 24 lines, whatever names and errors are in it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ground.results.categories import Categories, Category
from ground.text.columns import cells
from ioflame.measure.attach.top import Top
from tests.ioflame.asked import refused
from viz.tables.categories import categories_table


@pytest.mark.parametrize("cost", [None, 12_345.678])
def test_the_screen_fits(cost: float | None) -> None:
    asked: Any = SimpleNamespace(options=SimpleNamespace(asked=" ".join(f"--pid {pid}" for pid in range(4700, 4730))))
    top = Top(asked, cast(Any, None), cast(Any, None), "", cast(Any, None))
    first = top._text(80, 24)
    assert "attaching" in first
    rows = [Category(f"name {at}", "what it is " * 9, 10**9, 5.0, 99, us_per_query=cost) for at in range(20)]
    view = Categories("owner", [], 20 * 10**9, rows, [])
    top._categories = categories_table(view, "ns", "Where the CPU goes", cores=None if cost else 1.0, about=None)
    top._facts, top._io = "queries a second: 12,345,678 [1, 2]; " * 8, "not permitted here " * 20
    top._end = ["cost: 2.3 %", "  QPS in perf's turns", "q leaves a run"]
    lines = top._text(80, 24).split("\n")
    assert len(lines) <= 24 and max(map(cells, lines)) <= 80
    assert lines[-1] == "q leaves a run" and sum(line.startswith("  name ") for line in lines) >= 4
    assert ("us/query" in "".join(lines), "cores" in "".join(lines)) == ((True, False) if cost else (False, True))


def test_without_a_terminal_it_says_what_prints_instead(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    told = refused(capsys, "top", "1", "--out", tmp_path / "runs")
    assert "no terminal" in told and "ioflame attach PID --seconds 60" in told
    assert not (tmp_path / "runs").exists()
