"""That pages and drawings work in a browser at all. What else they do there: the tests marked `long`."""

from __future__ import annotations

import pytest

from tests.viz.conftest import Opener
from tests.viz.report_page import part, search
from tests.viz.runs import CPU, view
from tests.viz.samples import US_PER_QUERY, VERSION_GET, matched, options, percent, stacks, total
from viz.page.report import render_report
from viz.svg.flame_graph import flamegraph


@pytest.mark.needs("chromium")
def test_a_page_and_a_drawing_open_zoom_and_search_without_a_complaint(chromium_page: Opener) -> None:
    """`chromium_page` fails where one of them complains, or asks for anything that is not its own file."""
    get, whole = total(stacks(), VERSION_GET), total(stacks())
    inside, everywhere = matched(stacks(), "bloom", VERSION_GET), percent(matched(stacks(), "bloom"), whole)

    def found(us_per_query: float) -> str:
        of_view = f"matched {percent(inside, get)} of view, {percent(inside, whole)} of all"
        return f"{of_view}, {us_per_query * inside / whole:.3f} us per query; {everywhere} in the whole profile"

    page = chromium_page.html(render_report([view()]))
    canvas = page.locator("canvas")
    canvas.focus()
    for key in ("ArrowDown",) * 5 + ("Enter",):
        page.keyboard.press(key)
    assert part(page, "status").startswith(f"view: rocksdb::Version::Get, {percent(get, whole)} of all; ")
    assert search(page, "bloom") == found(CPU)

    page = chromium_page(flamegraph(stacks(), options()))
    page.keyboard.press("/")
    page.keyboard.type("bloom")
    page.locator('g.f[aria-label^="rocksdb::Version::Get,"]').click()
    assert page.locator(".zoomed").inner_text().startswith("view: rocksdb::Version::Get, ")
    assert page.locator(".found").inner_text() == found(US_PER_QUERY)
    page.locator(".reset").click()
    assert page.locator(".found").inner_text().startswith(f"matched {everywhere} of all, ")
