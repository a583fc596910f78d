"""The page of an experiment in a real browser: what does not hold first, every value, every run a click away."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from ground.results.cells import Heading, Judged, Value
from ground.results.differences import Cell, RelativeTable
from tests.viz.conftest import Opener
from tests.viz.test_efficiency import STEADY, cell, measured, shown
from viz.breakdowns import Breakdown
from viz.experiment_view import ExperimentView, MadeRun
from viz.page.experiment import render_experiment

pytestmark = pytest.mark.needs("chromium")

RUN = "asc.2, old-1-readwhilewriting"
VIEW = ExperimentView(
    title="streams",
    about="what a load in key order hides",
    facts="two CPUs",
    headings=[Heading("w_amp", "GiB written over GiB flushed", 2), Heading("ops/sec", "rows a second", 0)],
    values={
        "asc.1": {"w_amp": Value(1.0, None, None, 1), "ops/sec": Value(math.inf, None, None, 1)},
        "asc.2, old": {"w_amp": Value(4.0, 3.5, 4.5, 5), "ops/sec": None},
    },
    judged=[
        ("one stream is written once", Judged(True, "asc.1 1")),
        ("two streams: 5 to 6", Judged(False, "asc.2 4")),
        ("64 streams: 6 to 7.5", Judged(None, "with fewer than 2,000,000 keys the tree has fewer levels")),
    ],
    published={"asc.2, old": {"w_amp": 4.2}},
    spread="the quarters of its runs.",
    charted=["w_amp"],
    relative=[
        (
            "byrx",
            RelativeTable(
                "qps", "host", "7.8", ("readww", "overwrite"), ("7.8", "8.0", "9.0"),
                {
                    "readww": {"7.8": Cell(1.0, ""), "8.0": Cell(1.1, "+", 1.05, 1.15), "9.0": Cell(1.2, "?", 0.1, 9)},
                    "overwrite": {"7.8": Cell(1.0, ""), "9.0": Cell(0.9, "-", 0.88, 0.92)},
                },
            ),
        )
    ],
    breakdowns=[Breakdown("CPU by role", ("role", "asc.1"), [["reader", "4.20"]])],
    runs=[MadeRun("asc.2, old", "1", "done, 4 s", {"load": "load.log", "readwhilewriting": f"{RUN}/report.html"})],
    builds={"old": {"version": "7.8", "lto": "no"}, "new": {"version": "9.0", "lto": "no"}},
    cannot="100M rows",
)  # fmt: skip


def test_an_experiment_is_read_from_its_page(chromium_page: Opener, tmp_path: Path) -> None:
    page = chromium_page.html(render_experiment(VIEW))
    verdict = page.locator("main p:visible").first
    assert verdict.inner_text() == "streams: DOES NOT HOLD: two streams: 5 to 6; 1 not judged"
    assert "bad" in (verdict.get_attribute("class") or "")
    marks = page.locator("[aria-labelledby=holds] .light").all_inner_texts()
    assert marks == ["true", "DOES NOT HOLD", "not judged"]
    cells = page.locator("[aria-labelledby=table] tbody tr").all_inner_texts()
    first, _, second, ends = (cell.split() for cell in cells)
    assert (first, second) == (["asc.1", "1.00", "inf", "1", "-"], ["asc.2,", "old", "4.00", "-", "5", "4.200"])
    assert (ends[0], ends[-1]) == ("3.50", "4.50")
    # A bar a cell, as long as its value; a whisker and a published mark where there is one.
    bars = page.locator("[aria-labelledby=charts] svg rect.segment")
    widths = [float(bars.nth(place).get_attribute("width") or 0) for place in (0, 1)]
    assert bars.count() == 2 and widths[1] == pytest.approx(4 * widths[0], rel=0.01)
    assert page.locator("[aria-labelledby=charts] svg .whisker").count() == 1
    assert page.locator("[aria-labelledby=charts] svg .over").count() == 1
    # A line a test with the band of its interval; a version that a test was not run with is a gap.
    assert page.locator("[aria-labelledby=relative] .band").count() == 2
    assert page.locator("[aria-labelledby=relative] circle").count() == 5
    assert "0.90 [0.88, 0.92] -" in page.locator("[aria-labelledby=relative] table").inner_text()
    differing = page.locator("[aria-labelledby=builds] table").inner_text()
    assert "version" in differing and "lto" not in differing
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    # The run of a cell is a click away, also from a directory whose name has blanks and commas.
    (tmp_path / RUN).mkdir()
    (tmp_path / RUN / "report.html").write_text("<title>its run</title>")
    page.get_by_role("link", name="asc.2, old").first.click()
    assert page.title() == "its run"


def test_the_io_efficiency_experiment_has_the_same_page(chromium_page: Opener, tmp_path: Path) -> None:
    view = shown(
        tmp_path,
        readrandom=cell(measured(10_000, 10.0, (40, 20, 40)), fio_iops=STEADY),
        readrandom3=cell(measured(12_000, 9.0, (10, 50, 40)), fio_iops=STEADY),
    )
    page = chromium_page.html(render_experiment(view))
    said = page.locator("main p:visible").first.inner_text()
    assert said.startswith("io-efficiency: DOES NOT HOLD: 1 user: the share of bloom falls")
    rows = page.locator("[aria-labelledby=holds] tbody tr").all_inner_texts()
    assert ["DOES NOT HOLD" in row for row in rows] == [True, True]
    # iops, cpu/query, io.eff, cpu.inc, and the two shares that are judged; with an interval each.
    assert page.locator("[aria-labelledby=charts] svg").count() == 6
    assert page.locator("[aria-labelledby=charts] svg .whisker").count() == 12
    beside = page.locator("[aria-labelledby=parts]").inner_text()
    for title in (
        "fio, random reads",
        "Differences between cells",
        "Categories, owner view, 1 user",
        "Proofs and checks",
    ):
        assert title in beside
