"""One search in the SVG file and on the page: the same words find the same weight, and both say how to search."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page

from tests.viz.conftest import Opener
from tests.viz.runs import view
from tests.viz.samples import options, percent, total
from viz.flame.stacks import Stack
from viz.page.report import render_report
from viz.svg.flame_graph import flamegraph

pytestmark = [pytest.mark.long, pytest.mark.needs("chromium")]

STACKS = [
    Stack(("c", "vfs_read_[k]", "io.part"), 1, 1),
    Stack(("c", "vfs_read_k"), 2, 1),
    Stack(("c", "a::operator*"), 4, 1),
    Stack(("c", "a::Operate"), 8, 1),
    Stack(("c", "f(int)", "f(int)"), 16, 1),
    Stack(("c", "io_part"), 32, 1),
]
WHOLE = total(STACKS)
SEARCHES = (
    ("vfs_read_[k]", 1),  # a name as it stands is text, whatever it would be as a regular expression
    ("OPERATOR*", 4),
    ("f(int)", 16),
    ("io.part", 1),
    ("io.par[t]", 33),  # no name has it as text
    ("vfs.*k|^f", 19),
    ("/io.part/", 33),
    ("/Operat/", 8),
    ("/operat/i", 12),
    ("/", 0),
    ("no such", 0),
)


@pytest.fixture(params=["svg", "page"])
def page(request: pytest.FixtureRequest, chromium_page: Opener) -> Page:
    if request.param == "svg":
        return chromium_page(flamegraph(STACKS, options(us_per_query=None)))
    return chromium_page.html(render_report([view(STACKS)]))


def field(page: Page) -> Locator:
    return page.locator("input[type=search]")


def found(page: Page) -> str:
    words = page.locator(".found, [data-part=found]").text_content() or ""
    return re.sub(r", [\d.]+ us per query$", "", words)


def test_the_same_words_find_the_same_and_it_is_said_what_can_be_searched_for(page: Page) -> None:
    for words, weight in SEARCHES:
        field(page).fill(words)
        assert found(page) == (f"matched {percent(weight, WHOLE)} of all" if weight else "no frame matches"), words
    for told in (field(page).get_attribute("title"), page.locator("body, svg").first.text_content()):
        assert "where no frame has that text, it is read as a regular expression" in (told or "")
        assert "/regex/i" in (told or "")
    # Case counts where it is asked for.
    button = page.get_by_role("button", name="Aa", exact=True)
    field(page).fill("Operat")
    assert found(page) == f"matched {percent(12, WHOLE)} of all"
    button.click()
    assert found(page) == f"matched {percent(8, WHOLE)} of all"
    page.reload()
    assert found(page) == f"matched {percent(8, WHOLE)} of all"
    assert button.get_attribute("aria-pressed") == "true"
    field(page).fill("oPerat.")
    assert found(page) == "no frame matches"
