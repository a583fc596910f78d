"""A drawing and a page of two profiles in a real browser: colour, search, zoom and the details of a frame."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page

from ioflame.cli import main
from tests.viz.compared import COLOURED
from tests.viz.conftest import Opener
from tests.viz.test_two_profiles import BASE, OTHER, script

pytestmark = pytest.mark.needs("chromium")


def drawn(tmp_path: Path, end: str, *, same: bool = False) -> str:
    paths = [script(BASE, tmp_path / "a.txt"), script(BASE if same else OTHER, tmp_path / "b.txt")]
    out = tmp_path / f"x{same}.{end}"
    assert main(["flamegraph", *paths, "-o", str(out)]) == 0
    return out.read_text()


def frame(page: Page, name: str) -> Locator:
    return page.locator(f'g.f[aria-label^="{name},"]')


def fill(page: Page, name: str) -> str:
    found: str = frame(page, name).locator("rect").evaluate("rect => getComputedStyle(rect).fill")
    return found


@pytest.mark.parametrize("dark", [False, True])
def test_a_drawing_has_colour_for_what_is_new_and_vanished(chromium_page: Opener, tmp_path: Path, dark: bool) -> None:
    page = chromium_page(drawn(tmp_path, "svg"), dark=dark)
    grey = fill(page, "main")
    assert fill(page, "lookup") == fill(page, "crc") == grey
    assert fill(page, "verify") == "rgb(230, 110, 30)" and fill(page, "log") == "rgb(70, 140, 225)"
    keys = [key.inner_text() for key in page.locator(".legend button").all()]
    assert keys == ["no significant difference\n7", "new in b.txt\n1", "vanished in b.txt\n1"]
    assert page.locator(".legend .of").inner_text() == "frames:"
    page = chromium_page(drawn(tmp_path, "svg", same=True), dark=dark)
    assert {fill(page, name) for name in ("main", "get", "lookup", "block", "crc", "log")} == {grey}


def test_search_zoom_and_pointer_tell_both_sides(chromium_page: Opener, tmp_path: Path) -> None:
    page = chromium_page(drawn(tmp_path, "svg"))
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


def test_a_page_has_the_graph_of_a_comparison(chromium_page: Opener, tmp_path: Path) -> None:
    page = chromium_page.html(drawn(tmp_path, "html"))
    assert page.evaluate(COLOURED) > 0
    words = page.locator("main").inner_text()
    assert "Base: a.txt (10,000 samples)" in words and "chance in sampling alone" in words
    page.locator(".explained button", has_text="log").click()
    assert page.locator(".difference [data-part=status]").inner_text().startswith("log: a.txt 10.000 % of all, n 1,000")
    page = chromium_page.html(drawn(tmp_path, "html", same=True))
    assert page.evaluate(COLOURED) == 0 and "No frame differs" in page.locator("main").inner_text()
