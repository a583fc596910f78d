"""The page of an experiment in a real browser: what does not hold first, every value, every run a click away."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.viz.conftest import Opener
from tests.viz.experiments import RUN, VIEW
from tests.viz.test_efficiency import STEADY, cell, measured, shown
from viz.page.experiment import render_experiment

pytestmark = pytest.mark.needs("chromium")


def test_an_experiment_is_read_from_its_page(chromium_page: Opener, tmp_path: Path) -> None:
    page = chromium_page.html(render_experiment(VIEW))
    verdict = page.locator("main p:visible").first
    assert verdict.inner_text() == "streams: not as expected: two streams: 5 to 6; 1 not judged"
    assert "bad" in (verdict.get_attribute("class") or "")
    marks = page.locator("[aria-labelledby=holds] .light").all_inner_texts()
    assert marks == ["passed", "failed", "not judged"]
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
    # Of what was published the tests that were measured: one mark, and the scale is not that of others.
    told = page.locator("[aria-labelledby=relative] svg title").all_text_contents()
    assert [one for one in told if "published" in one] == ["readww, 8.0: 1.30 published"]
    # A bar a build, one part above the other, and a part has one colour in all pictures.
    stacks = page.locator("[aria-labelledby=stacked] svg.plot")
    assert stacks.count() == 2 and stacks.first.locator("rect.segment").count() == 3
    heights = [float(one.get_attribute("height") or 0) for one in stacks.first.locator("rect.segment").all()]
    assert heights == pytest.approx([heights[0], heights[0] / 2, 2 * heights[0]], rel=0.01)
    assert "h1" in (stacks.last.locator("rect.segment").get_attribute("class") or "").split()
    legends = page.locator("[aria-labelledby=stacked] .legend").all_inner_texts()
    assert [one.split() for one in legends] == [["LRU", "other"], ["bloom"]]
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
    assert said.startswith("io-efficiency: not as expected: 1 user: the share of bloom falls")
    rows = page.locator("[aria-labelledby=holds] tbody tr").all_inner_texts()
    assert ["failed" in row for row in rows] == [True, True]
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
