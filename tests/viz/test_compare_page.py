"""The page of a comparison, and drawings of two profiles, in a real browser: colour only where they differ."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Locator, Page

from ground.results.differences import Outcome
from ground.text.titles import title_of
from ioflame.cli import main
from tests.viz.compared import COLOURED, SLOWER, view
from tests.viz.conftest import Opener
from tests.viz.report_page import assert_fits
from tests.viz.test_two_profiles import BASE, OTHER, script
from viz.page.compare import ComparisonView, render_comparison

pytestmark = [pytest.mark.long, pytest.mark.needs("chromium")]


@pytest.fixture(scope="module")
def slower(tmp_path_factory: pytest.TempPathFactory) -> ComparisonView:
    return view(tmp_path_factory.mktemp("slower"), 1.05, SLOWER)


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


def test_the_verdict_comes_first_and_every_number_is_in_the_json(chromium_page: Opener, slower: ComparisonView) -> None:
    page = chromium_page.html(render_comparison(slower))
    assert page.locator("main p:visible").first.inner_text() == "B against A: qps regressed, cpuPer regressed"
    assert slower.verdicts.arms[0].decisions["qps"].outcome is Outcome.REGRESSED
    heads = page.locator("h2").all_inner_texts()
    assert heads == [
        "Figures", "Where the difference is", "Why, by frame", "Block by block", "What differs", "Noise of this host",
    ]  # fmt: skip
    # The view is what verdict.json, comparison.json and frames-B.json hold.
    known = set(numbers(msgspec.to_builtins(slower)))
    # What a cell shows of a number: itself, a percentage, a percentage of a ratio's distance from 1, a sum of samples.
    shown = [scaled for one in known for scaled in (one, 100 * one, 100 * (one - 1), 100 * (1 - one))]
    shown += [sum(f.samples) for row in slower.frames["B"].functions for f in (row.total, row.own)]
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
    # Waits are no part of the CPU.
    depths: dict[str, int] = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('#budget ~ figure table tbody tr')].map("
        "row => row.cells[0].textContent).map(text => [text.trim(), text.length - text.trimStart().length]))"
    )
    rows = {title_of(row.name): row for row in slower.verdicts.arms[0].budget.rows}  # type: ignore[union-attr]
    assert {name: depth for name, depth in depths.items() if name in rows} == {
        name: {"latency": 0, "category": 2}.get(row.kind, 1) for name, row in rows.items()
    }
    assert depths["on CPU"] == depths["run-queue wait"] == depths["unaccounted"] == 1
    assert_fits(page)


def test_what_differs_has_colour_and_nothing_else_and_is_shown_alone(
    chromium_page: Opener, slower: ComparisonView
) -> None:
    page = chromium_page.html(render_comparison(slower))
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

    # A click zooms, and the pointer tells both sides.
    page.locator(".explained button").first.click()
    status = page.locator(".difference [data-part=status]").inner_text()
    line = slower.frames["B"].explanation[0]
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


def test_a_against_a_has_no_colour_and_says_so(chromium_page: Opener, tmp_path: Path) -> None:
    null = view(tmp_path)
    page = chromium_page.html(render_comparison(null))
    assert page.evaluate(COLOURED) == 0
    assert page.evaluate("ioflameDifferences[0].data.different.includes(1)") is False
    assert "No frame differs" in page.locator(".difference-of").inner_text()
    assert page.locator(".explained").count() == 0
    smallest = null.frames["B"].rule.smallest_node
    assert f"could have colour: {smallest:.3f} us per query" in page.locator(".difference-of").inner_text()


def test_what_bars_the_verdict_is_said_first_with_scripts_and_without(chromium_page: Opener, tmp_path: Path) -> None:
    barred = view(tmp_path, not_comparable=["another kernel: 6.1, 6.18"], differing={"kernel": ["6.1", "6.18", "6.1"]})
    for scripts in (True, False):
        page = chromium_page.html(render_comparison(barred), scripts=scripts)
        assert "not comparable (another kernel" in page.locator(".verdict").inner_text()
        assert page.locator(".verdict.bad:visible").count() == 1
        assert "Also different" in page.locator("section:has(#differs) .banner").inner_text()
    assert page.locator("svg.plot").count() == 2 and not page.locator(".flame").is_visible()


# ---- two profiles ----------------------------------------------------------------------------------------------------


def drawn(tmp_path: Path, *, same: bool = False) -> str:
    paths = [script(BASE, tmp_path / "a.txt"), script(BASE if same else OTHER, tmp_path / "b.txt")]
    out = tmp_path / f"x{same}.svg"
    assert main(["flamegraph", *paths, "-o", str(out)]) == 0
    return out.read_text()


def frame(page: Page, name: str) -> Locator:
    return page.locator(f'g.f[aria-label^="{name},"]')


def fill(page: Page, name: str) -> str:
    found: str = frame(page, name).locator("rect").evaluate("rect => getComputedStyle(rect).fill")
    return found


@pytest.mark.parametrize("dark", [False, True])
def test_a_drawing_tells_both_sides_and_has_colour_for_what_is_new_and_vanished(
    chromium_page: Opener, tmp_path: Path, dark: bool
) -> None:
    page = chromium_page(drawn(tmp_path), dark=dark)
    grey = fill(page, "main")
    assert fill(page, "lookup") == fill(page, "crc") == grey
    assert fill(page, "verify") == "rgb(230, 110, 30)" and fill(page, "log") == "rgb(70, 140, 225)"
    keys = [key.inner_text() for key in page.locator(".legend button").all()]
    assert keys == ["no significant difference\n7", "new in b.txt\n1", "vanished in b.txt\n1"]
    assert page.locator(".legend .of").inner_text() == "frames:"
    # Search, zoom and pointer tell both sides.
    page.keyboard.press("Control+f")
    page.keyboard.type("block")
    assert page.locator(".found").inner_text() == "matched 30.000 \u2192 29.000 % of all"
    page.keyboard.press("Escape")
    frame(page, "get").click()
    said = "a.txt 90.000 % of all, n 9,000; b.txt 90.000 % of all, n 9,000; +0.000 % of all"
    assert page.locator(".zoomed").inner_text().startswith(f"view: get, {said}")
    page.keyboard.press("Escape")
    frame(page, "verify").hover()
    card = page.locator(".tip .card").inner_text()
    assert "b.txt\n10.000 % of all, n 1,000" in card and "different: not seen in a.txt" in card
    page.locator(".legend button").nth(1).click()
    assert "pale" in (frame(page, "lookup").get_attribute("class") or "")
    assert "pale" not in (frame(page, "verify").get_attribute("class") or "")
    page = chromium_page(drawn(tmp_path, same=True), dark=dark)
    assert {fill(page, name) for name in ("main", "get", "lookup", "block", "crc", "log")} == {grey}
