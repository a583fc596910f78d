"""Pages of a history and of an experiment in a real browser: steps, any two versions, every run a click away."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ground.results.store.database import Store
from ioflame import cli
from ioflame.store.add import add_to_store
from ioflame.store.history import read_history
from tests.places import DATA
from tests.viz.conftest import Opener
from tests.viz.experiments import RUN, VIEW
from tests.viz.histories import VERSIONS, made
from tests.viz.report_page import assert_fits
from viz.page.experiment import render_experiment
from viz.page.history import render_history
from viz.tables.history import history_section
from viz.terminal.table import section_text

pytestmark = [pytest.mark.long, pytest.mark.needs("chromium")]

PUBLISHED = DATA / "relative-qps.tsv"


@pytest.fixture(scope="module")
def large() -> str:
    return render_history(made(5, 3, 3, 25), "store")


def test_forty_versions_of_five_tests_on_three_hosts(chromium_page: Opener, large: str) -> None:
    assert len(large.encode()) <= 5_000_000
    page = chromium_page.html(large)
    row = page.locator("[aria-labelledby=table] tr", has_text="test0, host0").first.locator("td")
    kinds = [row.nth(place).get_attribute("class") for place in range(len(VERSIONS))]
    assert kinds == [""] * 25 + ["warn"] * 15
    assert row.nth(25).locator("b").inner_text().endswith("-")
    # 30 series of figures, each with its line; 15 stacks of categories.
    assert page.locator("[aria-labelledby=lines] svg.plot").count() == 30
    assert page.locator("[aria-labelledby=categories] svg.plot").count() == 15
    assert_fits(page)


def test_two_versions_beside_each_other_and_the_address_keeps_them(chromium_page: Opener, large: str) -> None:
    page = chromium_page.html(large, fragment="#base=8.4.0&version=8.6.0")
    first = page.locator("[data-part=pair] tbody tr").first.inner_text().split("\t")
    assert first[:2] == ["test0, host0", "qps"] and first[4] == "worse"
    assert -12 < float(first[2].replace("\u2212", "-").removesuffix(" %")) < -8
    costs = page.locator("[data-part=pair] table").nth(1).locator("tbody tr").first.inner_text().split("\t")
    assert costs[:4] == ["test0, host0: LRU", "1.50", "3.50", "+2.00"] and costs[5] == "significant"
    page.locator("[data-pair=version]").select_option("8.4.0")
    assert page.evaluate("location.hash") == "#base=8.4.0&version=8.4.0"
    assert page.locator("[data-part=pair] tbody tr").first.inner_text().endswith("not significant")


def test_what_is_no_longer_measured_is_said(chromium_page: Opener) -> None:
    whole = made(2, 1, 3, 25)
    short = [
        replace(one, labels=VERSIONS[:35], fit=replace(one.fit, versions=one.fit.versions[:35]))
        if one.test == "test1" else one
        for one in whole.series
    ]  # fmt: skip
    history = replace(whole, series=short)
    page = chromium_page.html(render_history(history, "store"))
    assert page.locator(".banner.note").inner_text() == "Not measured after 9.4.0: test1 on host0."
    assert page.locator("[aria-labelledby=table] th", has_text="test1, host0, until 9.4.0").count() == 2
    assert section_text(history_section(history), 200).splitlines()[-1] == "Not measured after 9.4.0: test1 on host0."
    assert "test0 on host0" in page.locator(".verdict").inner_text()
    # The newest versions are in view, where the steps are, and the names of the rows stay.
    scroll = page.locator("[aria-labelledby=table] .scroll").first
    edge, newest = scroll.bounding_box(), scroll.locator("thead th").last.bounding_box()
    name = scroll.locator("tbody th").first.bounding_box()
    assert edge and newest and newest["x"] + newest["width"] <= edge["x"] + edge["width"] + 1
    assert name and name["x"] >= edge["x"]


def test_the_published_loss_of_fillseq_in_10_6_2_is_found(chromium_page: Opener, tmp_path: Path) -> None:
    store = Store(tmp_path / "store", create=True)
    add_to_store(store, PUBLISHED, {"host": "c4a"})
    history = read_history(store)
    lines = [
        line
        for line in section_text(history_section(history), 200).splitlines()
        if "fillseq" in line and "10.5.5 to 10.6.2" in line
    ]
    assert all("candidate" in line for line in lines)
    assert sorted(line.strip().split(",")[0] for line in lines) == [
        f"{cache} fillseq {build}" for cache in ("iobuf", "iodir") for build in ("clang", "clang.lto")
    ]
    assert all("recovered in 10.7.6" in line for line in lines)
    assert cli.main(["history", str(store.directory)]) == 0
    page = chromium_page.html((store.directory / "history.html").read_text())
    # One run a version is no verdict: marked, and without colour.
    assert page.locator(".verdict").inner_text().startswith("No step found, 31 possible steps")
    assert page.locator("td.warn, td.note").count() == 0
    cell = page.locator("tr", has_text="iobuf fillseq clang, c4a").first.locator("td b", has_text="0.60?")
    assert cell.count() == 1


def test_the_run_of_a_cell_of_an_experiment_is_a_click_away(chromium_page: Opener, tmp_path: Path) -> None:
    """Also from a directory whose name has blanks and commas."""
    page = chromium_page.html(render_experiment(VIEW))
    assert "bad" in (page.locator("main p:visible").first.get_attribute("class") or "")
    marks = page.locator("[aria-labelledby=holds] .light").all_inner_texts()
    assert marks == ["passed", "failed", "not judged"]
    legends = page.locator("[aria-labelledby=stacked] .legend").all_inner_texts()
    assert [one.split() for one in legends] == [["LRU", "other"], ["bloom"]]
    assert_fits(page)
    (tmp_path / RUN).mkdir()
    (tmp_path / RUN / "report.html").write_text("<title>its run</title>")
    page.get_by_role("link", name="asc.2, old").first.click()
    assert page.title() == "its run"
