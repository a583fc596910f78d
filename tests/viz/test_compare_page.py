"""The page of a comparison in a real browser: the verdict first, numbers of the JSON, colour only where it differs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Page

from ground.results.differences import Outcome
from tests.viz.compared import COLOURED, SLOWER, view
from tests.viz.conftest import Opener
from viz.page.compare import ComparisonView, render_comparison

pytestmark = pytest.mark.needs("chromium")


@dataclass(frozen=True)
class Made:
    view: ComparisonView
    page: str


@pytest.fixture(scope="module")
def slower(tmp_path_factory: pytest.TempPathFactory) -> Made:
    made = view(tmp_path_factory.mktemp("slower"), 1.05, SLOWER)
    return Made(made, render_comparison(made))


@pytest.fixture(scope="module")
def null(tmp_path_factory: pytest.TempPathFactory) -> Made:
    made = view(tmp_path_factory.mktemp("null"))
    return Made(made, render_comparison(made))


def numbers(value: object) -> Iterator[float]:
    """Every number in JSON."""
    if isinstance(value, dict):
        for one in value.values():
            yield from numbers(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from numbers(one)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def test_the_verdict_comes_first(chromium_page: Opener, slower: Made) -> None:
    page = chromium_page.html(slower.page)
    assert page.locator("main p:visible").first.inner_text() == "B against A: qps regressed, cpuPer regressed"
    assert slower.view.verdicts.arms[0].decisions["qps"].outcome is Outcome.REGRESSED
    heads = page.locator("h2").all_inner_texts()
    assert heads == [
        "Figures", "Where the difference is", "Why, by frame", "Block by block", "What differs", "Noise of this host",
    ]  # fmt: skip


def test_every_number_of_the_tables_is_in_the_json(chromium_page: Opener, slower: Made) -> None:
    # The view is what verdict.json, comparison.json and frames-B.json hold.
    known = set(numbers(msgspec.to_builtins(slower.view)))
    # What a cell shows of a number: itself, a percentage, a percentage of a ratio's distance from 1, a sum of samples.
    shown = [scaled for one in known for scaled in (one, 100 * one, 100 * (one - 1), 100 * (1 - one))]
    shown += [sum(f.samples) for row in slower.view.frames["B"].functions for f in (row.total, row.own)]
    page = chromium_page.html(slower.page)
    cells = page.locator("table.numbers td").all_inner_texts() + page.locator(".explained li").all_inner_texts()
    texts = [re.sub(r"\(\d+ more blocks.*?\)", "", cell) for cell in cells]
    found = [number for text in texts for number in re.findall(r"[+\u2212-]?\d[\d,]*(?:\.\d+)?", text)]
    assert len(found) > 100
    for text in found:
        plain = text.replace(",", "").replace("\u2212", "-")
        unit = 10.0 ** -len(plain.partition(".")[2])
        # A bound is rounded up to the next tenth of a percent.
        assert any(
            abs(abs(float(plain)) - abs(one)) <= 0.51 * unit + 1e-9 or 0 <= float(plain) - one <= 0.1 for one in shown
        ), text


def test_a_against_a_has_no_colour_and_says_so(chromium_page: Opener, null: Made) -> None:
    page = chromium_page.html(null.page)
    assert page.evaluate(COLOURED) == 0
    assert page.evaluate("ioflameDifferences[0].data.different.includes(1)") is False
    assert "No frame differs" in page.locator(".difference-of").inner_text()
    assert page.locator(".explained").count() == 0
    smallest = null.view.frames["B"].rule.smallest_node
    assert f"could have colour: {smallest:.3f} us per query" in page.locator(".difference-of").inner_text()


def test_what_differs_has_colour_and_nothing_else(chromium_page: Opener, slower: Made) -> None:
    page = chromium_page.html(slower.page)
    assert page.evaluate(COLOURED) > 1000
    drawn: list[list[Any]] = page.evaluate(
        "(() => { const d = ioflameDifferences[0]; return d.graph.boxes.map(b => [d.graph.nameOf(b.part.tree, b.node),"
        " d.data.different[b.node], String(d.colourOf(b.part.tree, b.node))]); })()"
    )
    coloured = {name for name, _, colour in drawn if colour != "-1"}
    assert coloured == {name for name, different, _ in drawn if different}
    assert {"eng::Cache::Lookup", "eng::Spin::Wait"} <= coloured
    assert not coloured & {"pread", "eng::Random::Next", "eng::Block::Seek"}
    lines = page.locator(".explained li").all_inner_texts()
    assert len(lines) == 2 and "eng::Cache::Lookup" in lines[0]
    assert "eng::Spin::Wait" in lines[1] and "new: A has no such frame there; below eng::Db::Get" in lines[1]


def test_the_toggles_show_what_one_side_alone_has(chromium_page: Opener, slower: Made) -> None:
    page = chromium_page.html(slower.page)

    def names() -> list[str]:
        found: list[str] = page.evaluate(
            "(g => g.boxes.map(b => g.nameOf(b.part.tree, b.node)))(ioflameDifferences[0].graph)"
        )
        return found

    everything = names()
    page.get_by_role("button", name="new", exact=True).click()
    assert names() == ["all", "db_bench", "main", "eng::Db::Get", "eng::Spin::Wait"]
    page.get_by_role("button", name="vanished", exact=True).click()
    assert "eng::Spin::Wait" not in names()
    page.get_by_role("button", name="both, merged", exact=True).click()
    assert names() == everything


def test_a_click_zooms_and_the_pointer_tells_both_sides(chromium_page: Opener, slower: Made) -> None:
    page = chromium_page.html(slower.page)
    page.locator(".explained button").first.click()
    status = page.locator(".difference [data-part=status]").inner_text()
    line = slower.view.frames["B"].explanation[0]
    assert status.startswith(
        f"eng::Cache::Lookup: A {line.before:.3f} us per query, n {line.samples[0]:,}; B {line.after:.3f} us"
    )
    assert f"+{line.delta:.3f} us per query [+{line.low:.3f}, +{line.high:.3f}]" in status
    box = page.evaluate("(b => [b.x + 9, b.row * 18 + 9])(ioflameDifferences[0].graph.boxes.find(b => !b.above))")
    page.locator(".difference canvas").hover(position={"x": box[0], "y": box[1]})
    tip = page.locator(".difference [data-part=tip]").inner_text()
    assert "different" in tip and f"n {line.samples[1]:,}" in tip
    page.locator(".difference canvas").press("Escape")
    assert page.locator(".difference [data-part=status]").inner_text().startswith("all: ")


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False), (390, True)])
def test_nothing_hangs_over_the_edge(chromium_page: Opener, slower: Made, width: int, dark: bool) -> None:
    page = chromium_page.html(slower.page, width=width, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(20, 23, 27)" if dark else "rgb(255, 255, 255)"
    )


def test_waits_are_no_part_of_the_cpu(chromium_page: Opener, slower: Made) -> None:
    page = chromium_page.html(slower.page)
    depths: dict[str, int] = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('#budget ~ figure table tbody tr')].map("
        "row => row.cells[0].textContent).map(text => [text.trim(), text.length - text.trimStart().length]))"
    )
    rows = {row.name: row for row in slower.view.verdicts.arms[0].budget.rows}  # type: ignore[union-attr]
    assert {name: depth for name, depth in depths.items() if name in rows} == {
        name: {"latency": 0, "category": 2}.get(row.kind, 1) for name, row in rows.items()
    }
    assert depths["on CPU"] == depths["run queue"] == depths["unaccounted"] == 1


def test_without_scripts_verdict_and_tables_are_there(chromium_page: Opener, slower: Made) -> None:
    page = chromium_page.html(slower.page, scripts=False)
    assert page.locator(".verdict").is_visible() and page.locator("svg.plot").count() == 2
    assert not page.locator(".flame").is_visible()


def test_what_bars_the_verdict_is_said_first(chromium_page: Opener, tmp_path: Path) -> None:
    barred = view(tmp_path, not_comparable=["another kernel: 6.1, 6.18"], differing={"kernel": ["6.1", "6.18", "6.1"]})
    page: Page = chromium_page.html(render_comparison(barred))
    assert "not comparable (another kernel" in page.locator(".verdict").inner_text()
    assert page.locator(".verdict.bad").count() == 1
    assert "Also different" in page.locator("section:has(#differs) .banner").inner_text()
