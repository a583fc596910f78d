"""Whatever a profile or a record holds, the page stays a page, and nothing of it runs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ground.results.checks import Check, Verdict
from ground.results.database_facts import DatabaseFacts
from tests.viz.categorised import read_categorised
from tests.viz.conftest import Opener
from tests.viz.runs import view
from tests.viz.test_hostile_names import NAMES
from tests.viz.xml import xmllint
from viz.flame.stacks import Stack, read_folded
from viz.page.report import render_report
from viz.page.run_view import RunView
from viz.printable import printable

EVIL = NAMES[1].decode() + NAMES[3].decode() + "\x00\u202e]]>"


def hostile() -> str:
    lines = [b"bloom\t1\t1\t%d\tcomm;%s;inner" % (1000 + i, name) for i, name in enumerate(NAMES)]
    given = view(
        [
            replace(
                stack,
                objects=(printable(EVIL), *(printable(NAMES[2]) for _ in stack.frames[1:])),
                thread=printable(f"{EVIL}/{index % 3}"),
            )
            for index, stack in enumerate(read_categorised(lines))
        ],
        EVIL,
        workload=EVIL,
        tools={"engine": EVIL},
        database=DatabaseFacts(description=EVIL),
        checks=[Check(EVIL, Verdict.FAILED, EVIL, EVIL, EVIL)],
        missing=[EVIL],
    )
    given.notes.append(EVIL)
    return render_report([given])


class Elements(HTMLParser):
    """Counts the elements of a page, with the scripts as a browser would cut them out."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: dict[str, int] = {}
        self.handlers: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found[tag] = self.found.get(tag, 0) + 1
        self.handlers += [name for name, _ in attrs if name.startswith("on")]


def test_names_make_no_elements_and_no_handlers() -> None:
    seen = Elements(hostile())
    assert seen.found["script"] == 3
    assert not {"img", "b2", "iframe", "link"} & set(seen.found)
    assert seen.handlers == []
    assert "\x00" not in hostile() and "\u202e" not in hostile()


def test_every_plot_is_xml() -> None:
    for plot in re.findall(r'<svg class="(?:plot|share-bar).*?</svg>', hostile(), re.DOTALL):
        ElementTree.fromstring(plot)


@pytest.mark.needs("xmllint")
def test_every_plot_is_xml_to_xmllint() -> None:
    plots = re.findall(r'<svg class="plot.*?</svg>', hostile(), re.DOTALL)
    assert len(plots) == 1
    for plot in plots:
        xmllint(plot)


@pytest.mark.needs("chromium", "xmllint")
def test_what_the_page_saves_is_xml(chromium_page: Opener) -> None:
    page = chromium_page.html(hostile(), fragment="#colour=group&threads=split")
    buttons = page.locator("[data-save], [data-part=save]")
    assert buttons.count() >= 4
    for index in range(buttons.count()):
        with page.expect_download() as download:
            buttons.nth(index).click()
        xmllint(Path(download.value.path()).read_bytes())


def test_the_data_of_the_page_is_json_and_whole() -> None:
    found = re.search(r'<script type="application/json" class="profile">(.*?)</script>', hostile(), re.DOTALL)
    assert found is not None
    names = json.loads(found[1])["profile"]["names"]
    assert {printable(name) or "[no name]" for name in NAMES if b";" not in name} <= set(names)


@pytest.mark.needs("chromium")
def test_nothing_runs_whatever_is_done_with_the_names(chromium_page: Opener) -> None:
    page = chromium_page.html(hostile())
    for name in ("callees", "callers"):
        page.select_option('[data-part="view"]', name)
        page.locator("canvas").focus()
        for _ in range(40):
            page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        page.locator("canvas").hover(position={"x": 300, "y": 45})
        tip = page.locator('[data-part="tip"]').bounding_box()
        assert tip is not None and tip["x"] >= 0 and tip["x"] + tip["width"] <= 1280
    page.keyboard.press("/")
    page.keyboard.type("<script>")
    assert "matched" in page.locator('[data-part="found"]').inner_text()
    for index in range(min(20, page.locator("button.fn").count())):
        page.locator("button.fn").nth(index).click()
    page.reload()
    with page.expect_download() as download:
        page.locator('[data-part="save"]').click()
    ElementTree.fromstring(Path(download.value.path()).read_bytes())
    assert page.evaluate("window.pwned") is None
    assert page.locator("img, iframe").count() == 0
    assert page.locator("script").count() == 3


@pytest.mark.needs("chromium")
def test_a_stack_of_5000_frames(chromium_page: Opener) -> None:
    deep = b";".join(b"recursive<%d>" % i for i in range(5000))
    some = read_folded([b"c;" + deep + b" 7", b"c;other 3"])
    page = chromium_page.html(render_report([RunView("deep", view().record, stacks=some)]))
    page.keyboard.press("/")
    page.keyboard.type("<4999>")
    assert page.locator('[data-part="found"]').inner_text().startswith("matched 70.00 % of all")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert page.locator('[data-part="status"]').inner_text().startswith("view: recursive<4999>, 70.00 % of all")
    assert page.evaluate("document.querySelector('.box').scrollTop") > 80_000
    page.select_option('[data-part="view"]', "callers")
    assert page.evaluate("ioflameRuns[0].graph.boxes.length") == 5003 + 1


@pytest.mark.needs("chromium")
def test_an_empty_profile_is_a_page_that_says_so(chromium_page: Opener) -> None:
    page = chromium_page.html(render_report([RunView("empty", view().record)]))
    assert page.get_by_text("No flame graph: no stack has any weight.").is_visible()
    assert page.get_by_text("No owner view").is_visible()
    page.keyboard.press("Escape")
    page.locator(".theme").click()


@pytest.mark.needs("chromium")
def test_a_weight_above_2_to_53_is_told_to_the_last_unit(chromium_page: Opener) -> None:
    big = 2**60 + 1
    some = [Stack(("c", "f"), big, 3, "other", -1), Stack(("c", "g"), 2, 1, "other", -1)]
    page = chromium_page.html(render_report([view(some)]))
    page.locator("canvas").hover(position={"x": 300, "y": 27})
    assert f"({big + 2:,} ns)" in page.locator('[data-part="tip"]').inner_text()
    page.select_option('[data-part="view"]', "callers")
    page.locator("canvas").hover(position={"x": 301, "y": 28})
    assert f"({big:,} ns)" in page.locator('[data-part="tip"]').inner_text()
