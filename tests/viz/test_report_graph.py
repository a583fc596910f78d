"""The flame graph of the report in a real browser: what a reader finds, clicks and types in it."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from playwright.sync_api import Page

from tests.viz.conftest import Opener
from tests.viz.report_page import boxes, node, part, search
from tests.viz.runs import CPU, leaf_of, view
from tests.viz.samples import VERSION_GET, percent, stacks, total
from viz.flame.stacks import Stack
from viz.page.report import render_report

pytestmark = [pytest.mark.long, pytest.mark.needs("chromium")]

WHOLE = total(stacks())


@pytest.fixture
def page(chromium_page: Opener) -> Page:
    return chromium_page.html(render_report([view()]))


def test_the_pointer_tells_name_owner_weights_share_cost_and_samples_and_a_search_what_is_wrong(page: Page) -> None:
    at = page.evaluate(
        "(() => { const g = ioflameRuns[0].graph;"
        " const b = g.boxes.find(b => g.nameOf(b.part.tree, b.node) === '__libc_pread');"
        " return [b.x + b.width / 2, b.row * 18 + 9]; })()"
    )
    page.locator("canvas").hover(position={"x": at[0], "y": at[1]})
    tip = part(page, "tip")
    weight = sum(s.weight for s in stacks() if "__libc_pread" in s.frames)
    for words in (
        "__libc_pread",
        "category: read syscall (the read call: libc and the kernel below it)",
        f"{weight / 1e6:.3f} ms ({weight:,} ns)",
        "0.00 % of all (0 ns)",
        f"{percent(weight, WHOLE)} of all",
        f"{CPU * weight / WHOLE:.3f} us per query",
        "61 samples",
    ):
        assert words in tip
    page.mouse.move(2, 2)
    assert not page.locator('[data-part="tip"]').is_visible()
    assert "not a regular expression: " in search(page, "/rocks(/")
    page.keyboard.press("Escape")
    assert part(page, "found") == ""


def test_zoom_by_click_and_every_way_back(page: Page) -> None:
    number, get = node(page, VERSION_GET), total(stacks(), VERSION_GET)
    for way in ("Escape", "button", "Back"):
        at = page.evaluate(
            f"(() => {{ const b = ioflameRuns[0].graph.boxes.find(b => b.node === {number});"
            " return [b.x + 30, b.row * 18 + 9]; })()"
        )
        page.locator("canvas").click(position={"x": at[0], "y": at[1]})
        assert part(page, "status").startswith(f"view: rocksdb::Version::Get, {percent(get, WHOLE)} of all; ")
        assert f"zoom={number}" in page.url
        assert ["rocksdb::Random64::Next", 71000003] not in boxes(page)
        if way == "Escape":
            page.keyboard.press("Escape")
        elif way == "button":
            page.locator('[data-part="reset"]').click()
        else:
            page.go_back()
        assert part(page, "status").startswith("view: the whole profile")
        assert ["rocksdb::Random64::Next", 71000003] in boxes(page)


def test_the_keyboard_alone_walks_zooms_searches_and_goes_back(page: Page) -> None:
    page.locator("canvas").focus()
    for _ in range(5):
        page.keyboard.press("ArrowDown")
    live = page.locator('[data-part="live"]')
    assert live.inner_text().startswith("rocksdb::Version::Get, ")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    assert part(page, "status").startswith("view: rocksdb::DBImpl::Get, ")
    assert "matched" in search(page, "/Read|XXH/")
    page.keyboard.press("Enter")
    assert "match 1 of " in live.inner_text()
    first = live.inner_text()
    page.keyboard.press("n")
    assert "match 2 of " in live.inner_text()
    page.keyboard.press("Shift+N")
    assert live.inner_text() == first
    page.keyboard.press("s")
    assert part(page, "status").startswith("function ")
    for _ in range(4):
        page.keyboard.press("Escape")
    assert part(page, "status").startswith("view: the whole profile")
    assert part(page, "found") == ""


def test_the_address_keeps_the_state_and_that_of_another_file_does_no_harm(page: Page) -> None:
    at = page.url
    page.select_option('[data-part="view"]', "callers")
    page.select_option('[data-part="direction"]', "up")
    page.select_option('[data-part="colour"]', "group")
    page.locator('[data-part="kernel"]').uncheck()
    page.select_option('[data-part="threads"]', "merged")
    search(page, "bloom")
    before = (part(page, "status"), part(page, "found"), boxes(page))
    page.reload()
    assert (part(page, "status"), part(page, "found"), boxes(page)) == before
    assert page.locator('[data-part="view"]').input_value() == "callers"
    assert not page.locator('[data-part="kernel"]').is_checked()
    assert page.locator('[data-part="threads"]').input_value() == "merged"
    page.goto("about:blank")
    page.goto(f"{at}#zoom=99999&view=function&fn=gone&owner=none&search=%2F(%2F&leaf=x&group=y&run=7&colour=z&dir=w")
    assert part(page, "status").startswith("view: the whole profile")
    assert "not a regular expression" in part(page, "found")


def test_every_view_keeps_every_weight(page: Page) -> None:
    selfs: dict[str, int] = {}
    for stack in stacks():
        selfs[stack.frames[-1]] = selfs.get(stack.frames[-1], 0) + stack.weight
    callers = page.evaluate(
        "(() => { const v = ioflameRuns[0].views, p = ioflameRuns[0].profile; const t = v.fromLeaf(v.everything, {});"
        " const out = []; for (let i = 1; i < t.count; i = t.end[i]) out.push([p.data.names[t.name[i]], t.weight[i]]);"
        " return out; })()"
    )
    assert dict(callers) == selfs and len(callers) == len(selfs)
    for hide, merge in ((False, False), (True, False), (False, True), (True, True)):
        rows = page.evaluate(
            """([hideKernel, mergeThreads]) => { const { views: v, profile: p } = ioflameRuns[0];
            const t = v.fromRoot(v.everything, { hideKernel, mergeThreads }); const path = []; const out = [];
            for (let i = 0; i < t.count; i++) {
              path.length = t.depth[i]; path.push(i ? p.data.names[t.name[i]] : "all");
              out.push([path.slice(1), t.weight[i]]); } return out; }""",
            [hide, merge],
        )
        wanted: Counter[tuple[str, ...]] = Counter()
        for stack in stacks():
            shown = stack.frames[1:] if merge else stack.frames
            frames = [name for name in shown if not (hide and name.endswith("_[k]"))]
            for depth in range(len(frames) + 1):
                wanted[tuple(frames[:depth])] += stack.weight
        seen: Counter[tuple[str, ...]] = Counter()
        for frames, weight in rows:  # siblings of one name but two owners are two frames
            seen[tuple(frames)] += weight
        assert seen == wanted, (hide, merge)


def test_a_sandwich_counts_a_recursive_function_once(chromium_page: Opener) -> None:
    some = [Stack(("c", "a", "f", "g", "f", "x"), 5, 1), Stack(("c", "b", "f", "y"), 3, 1), Stack(("c", "b"), 2, 1)]
    page = chromium_page.html(render_report([view(some)]), fragment="#view=function&fn=f")
    assert part(page, "status").startswith("function f: 80.00 % of all; callers and callees")
    drawn = boxes(page)
    assert drawn.count(["f", 8]) == 1
    for wanted in (["g", 5], ["f", 5], ["x", 5], ["y", 3], ["a", 5], ["b", 3]):
        assert wanted in drawn
    assert ["b", 5] not in drawn
    rows = {
        row[0]: row[1:]
        for row in (r.split("\t") for r in page.locator('[data-part="functions"] tbody tr').all_inner_texts())
    }
    assert rows["f"][2] == "80.00" and rows["b"][2] == "50.00" and rows["b"][0] == "20.00"


def test_a_click_on_a_category_filters_and_another_takes_it_back(page: Page) -> None:
    bloom = sum(s.weight for s in stacks() if s.category == "bloom")
    page.locator('.keys [data-owner="2"]').click()
    assert part(page, "status").startswith(f"only stacks with category bloom filter: {percent(bloom, WHOLE)} of all")
    assert boxes(page)[0] == ["all", bloom]
    assert page.locator('.pick[data-owner="2"]').get_attribute("aria-pressed") == "true"
    page.locator('.pick[data-owner="2"]').click()
    assert part(page, "status").startswith("view: the whole profile")
    page.locator('.matrix [data-owner="0"][data-leaf="0"]').click()
    device = sum(s.weight for s in stacks() if s.category == "libc+k" and leaf_of(stacks())[s.frames] == "k:device")
    assert "category read syscall and leaf kernel: driver" in part(page, "status")
    assert boxes(page)[0] == ["all", device]
    page.go_back()
    assert part(page, "status").startswith("view: the whole profile")


@pytest.mark.parametrize(("width", "height"), [(1280, 600), (390, 844)])
def test_the_controls_stay_in_sight_while_the_graph_is_used(chromium_page: Opener, width: int, height: int) -> None:
    deep = tuple(f"frame{depth}" for depth in range(90))
    page = chromium_page.html(render_report([view([Stack(("c", *deep), 5, 1)])]), width=width, height=height)

    def edges() -> list[list[float]]:
        """Top and bottom of the controls, of the line that says what is shown, and of the graph, after scrolling."""
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        found: list[list[float]] = page.evaluate(
            "['.bar', '.line', '.box'].map(part => document.querySelector(`.flame ${part}`).getBoundingClientRect())"
            ".map(r => [r.top, r.bottom])"
        )
        return found

    for place, beyond in (("start", 40), ("end", -40)):
        page.locator(".box").evaluate("(box, place) => box.scrollIntoView({ block: place })", place)
        page.evaluate("by => scrollBy(0, by)", beyond)
        bar, line, box = edges()
        assert 0 <= bar[0] < bar[1] <= line[0] < line[1] < height
        assert box[0] < height and box[1] > line[1]
    middles = page.locator(".flame:visible .bar :is(input, select, button):visible").evaluate_all(
        "all => all.map(e => e.getBoundingClientRect()).map(r => [(r.top + r.bottom) / 2, r.left, r.right])"
    )
    if width == 1280:  # in one row
        assert len(middles) == 9 and max(middles)[0] - min(middles)[0] <= 2
        ordered = sorted(middles, key=lambda box: box[1])
        assert all(one[2] <= other[1] for one, other in pairwise(ordered)) and ordered[-1][2] <= 1280
    # As much of the graph as fits below them, and what a frame is, are in the window at once.
    page.locator(".graph").evaluate("graph => graph.scrollIntoView()")
    _, line, box = edges()
    assert line[1] <= box[0] < box[1] <= height
    page.mouse.move(width / 2, box[1] - 30)
    page.locator('[data-part="tip"]').wait_for()
    tip = page.locator('[data-part="tip"]').bounding_box()
    assert tip and tip["x"] >= 0 and tip["x"] + tip["width"] <= width
    assert tip["y"] >= 0 and tip["y"] + tip["height"] <= height
