"""The flame graph of the report in a real browser: what a reader finds, clicks and types in it."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from playwright.sync_api import Page

from tests.places import RECORDINGS
from tests.viz.conftest import Opener
from tests.viz.report_page import boxes, node, part, search
from tests.viz.runs import leaf_of, view
from tests.viz.samples import US_PER_QUERY, VERSION_GET, matched, percent, stacks, total
from viz.flame.stacks import Stack, read_folded
from viz.page.report import render_report
from viz.page.run_view import RunView

pytestmark = pytest.mark.needs("chromium")

WHOLE = total(stacks())
CPU = 20.0  # us per query of tests.viz.runs.record


@pytest.fixture
def page(chromium_page: Opener) -> Page:
    return chromium_page.html(render_report([view()]))


@pytest.mark.parametrize(
    "pattern, flags",
    [("bloom", "i"), ("/Bloom0[0-4]/", ""), ("/^rocksdb:low$/", ""), ("/PREAD|io_/i", "i")],
)
def test_matched_shares_are_those_of_the_stacks(page: Page, pattern: str, flags: str) -> None:
    regex = re.fullmatch(r"/(.*)/i?", pattern)
    weight = matched(stacks(), regex[1] if regex else re.escape(pattern), flags=re.I if flags else 0)
    wanted = f"matched {percent(weight, WHOLE)} of all, {CPU * weight / WHOLE:.3f} us per query"
    assert search(page, pattern) == (wanted if weight else "no frame matches")


REAL = ("readrandom-1u-profile13.folded", "readrandom_fp__kernel.expected", "multireadrandom_fp__default.expected")
WORDS = ("rocksdb", "read", "crc", "mutex", "alloc")


@pytest.mark.parametrize("name", REAL)
def test_matched_shares_of_real_profiles_zoomed_and_not(chromium_page: Opener, name: str) -> None:
    lines = (RECORDINGS / name).read_bytes().splitlines()
    page = chromium_page.html(render_report([RunView(name, view().record, stacks=read_folded(lines))]))
    # the truth, in a few lines of its own
    pairs = [(line.rpartition(b" ")[0].decode().split(";"), int(line.rpartition(b" ")[2])) for line in lines if line]
    everything = sum(weight for _, weight in pairs)
    heavy = max(pairs, key=lambda pair: pair[1])[0]
    for words in WORDS:
        hit = [words in ";".join(frames).lower() for frames, _ in pairs]
        share = 100 * sum(weight for (_, weight), is_hit in zip(pairs, hit, strict=True) if is_hit) / everything
        shown = search(page, words)
        assert shown.startswith(f"matched {share:.2f} % of all" if share else "no frame matches"), words
        for depth in (2, len(heavy) // 2, len(heavy)):
            page.keyboard.press("Escape")
            below = [frames[:depth] == heavy[:depth] for frames, _ in pairs]
            inside = sum(weight for (_, weight), is_below in zip(pairs, below, strict=True) if is_below)
            both = sum(pair[1] for pair, a, b in zip(pairs, below, hit, strict=True) if a and b)
            page.evaluate(f"location.hash = 'zoom={node(page, tuple(heavy[:depth]))}&search={words}'")
            page.wait_for_function("ioflameRuns[0].graph.boxes.some(b => b.above)")
            if share and inside < everything:
                wanted = f"matched {100 * both / inside:.2f} % of view, {100 * both / everything:.2f} % of all"
                assert part(page, "found").startswith(wanted), (words, depth)
                assert f"{share:.2f} % in the whole profile" in part(page, "found")
        page.keyboard.press("Escape")  # out of the zoom, and out of the search
        page.keyboard.press("Escape")
        assert (part(page, "found"), page.locator('[data-part="reset"]').is_disabled()) == ("", True)


def test_a_bad_regex_is_a_message(page: Page) -> None:
    assert "not a regular expression: " in search(page, "/rocks(/")
    assert page.locator('[data-part="search"]').get_attribute("aria-invalid") == "true"
    page.keyboard.press("Escape")
    assert part(page, "found") == ""
    assert search(page, "/") == "no frame matches"  # a slash alone is text


def test_hover_tells_name_owner_weights_share_cost_and_samples(page: Page) -> None:
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
        "owner: libc+k (the read call: libc and the kernel below it)",
        f"{weight / 1e6:.3f} ms ({weight:,} ns)",
        "0.00 % of all (0 ns)",
        f"{percent(weight, WHOLE)} of all",
        f"{CPU * weight / WHOLE:.3f} us per query",
        "61 samples",
    ):
        assert words in tip
    page.mouse.move(2, 2)
    assert not page.locator('[data-part="tip"]').is_visible()


def test_zoom_by_click_and_every_way_back(page: Page) -> None:
    number = node(page, VERSION_GET)
    for way in ("Escape", "button", "Back"):
        at = page.evaluate(
            f"(() => {{ const b = ioflameRuns[0].graph.boxes.find(b => b.node === {number});"
            " return [b.x + 30, b.row * 18 + 9]; })()"
        )
        page.locator("canvas").click(position={"x": at[0], "y": at[1]})
        get = total(stacks(), VERSION_GET)
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


def test_the_address_keeps_the_state(page: Page) -> None:
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


def test_an_address_of_another_file_does_no_harm(chromium_page: Opener) -> None:
    hash_ = "#zoom=99999&view=function&fn=gone&owner=none&search=%2F(%2F&leaf=x&group=y&run=7&colour=z&dir=w"
    page = chromium_page.html(render_report([view()]), fragment=hash_)
    assert part(page, "status").startswith("view: the whole profile")
    assert "not a regular expression" in part(page, "found")


def test_callers_hold_the_self_weight_of_every_function(page: Page) -> None:
    page.select_option('[data-part="view"]', "callers")
    selfs: dict[str, int] = {}
    for stack in stacks():
        selfs[stack.frames[-1]] = selfs.get(stack.frames[-1], 0) + stack.weight
    tree = page.evaluate(
        "(() => { const v = ioflameRuns[0].views, p = ioflameRuns[0].profile; const t = v.fromLeaf(v.everything, {});"
        " const out = []; for (let i = 1; i < t.count; i = t.end[i]) out.push([p.data.names[t.name[i]], t.weight[i]]);"
        " return out; })()"
    )
    assert dict(tree) == selfs
    assert len(tree) == len(selfs)


@pytest.mark.parametrize("hide, merge", [(False, False), (True, False), (False, True), (True, True)])
def test_kernel_off_and_threads_merged_keep_every_weight(page: Page, hide: bool, merge: bool) -> None:
    rows = page.evaluate(
        """([hideKernel, mergeThreads]) => { const { views: v, profile: p } = ioflameRuns[0];
        const t = v.fromRoot(v.everything, { hideKernel, mergeThreads }); const path = []; const out = [];
        for (let i = 0; i < t.count; i++) { path.length = t.depth[i]; path.push(i ? p.data.names[t.name[i]] : "all");
          out.push([path.slice(1), t.weight[i]]); } return out; }""",
        [hide, merge],
    )
    wanted: dict[tuple[str, ...], int] = {}
    for stack in stacks():
        frames = [f for d, f in enumerate(stack.frames) if not (merge and d == 0) and not (hide and f.endswith("_[k]"))]
        for depth in range(len(frames) + 1):
            wanted[tuple(frames[:depth])] = wanted.get(tuple(frames[:depth]), 0) + stack.weight
    seen: dict[tuple[str, ...], int] = {}
    for frames, weight in rows:  # siblings of one name but two owners are two frames
        seen[tuple(frames)] = seen.get(tuple(frames), 0) + weight
    assert seen == wanted


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
    assert part(page, "status").startswith(f"only stacks with owner bloom: {percent(bloom, WHOLE)} of all")
    assert boxes(page)[0] == ["all", bloom]
    assert page.locator('.pick[data-owner="2"]').get_attribute("aria-pressed") == "true"
    page.locator('.pick[data-owner="2"]').click()
    assert part(page, "status").startswith("view: the whole profile")
    page.locator('.matrix [data-owner="0"][data-leaf="0"]').click()
    device = sum(s.weight for s in stacks() if s.category == "libc+k" and leaf_of(stacks())[s.frames] == "k:device")
    assert "owner libc+k and leaf k:device" in part(page, "status")
    assert boxes(page)[0] == ["all", device]
    page.go_back()
    assert part(page, "status").startswith("view: the whole profile")


def test_the_cost_of_the_sample_is_not_mixed_up() -> None:
    assert US_PER_QUERY != CPU  # two figures for two kinds of output; a mix-up would be seen


CONTROLS = ".flame:visible .bar :is(input, select, button):visible"


def test_the_controls_are_in_one_row(chromium_page: Opener) -> None:
    page = chromium_page.html(render_report([view()]), width=1280)
    page.locator('.keys [data-owner="2"]').click()  # the button that clears a filter is there, too
    boxes_of = page.locator(CONTROLS).evaluate_all(
        "all => all.map(e => e.getBoundingClientRect()).map(r => [(r.top + r.bottom) / 2, r.left, r.right])"
    )
    assert len(boxes_of) == 10
    middles = [middle for middle, _, _ in boxes_of]
    assert max(middles) - min(middles) <= 2
    ordered = sorted(boxes_of, key=lambda box: box[1])
    assert all(one[2] <= other[1] for one, other in pairwise(ordered)) and ordered[-1][2] <= 1280


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (1280, 600), (390, 844)])
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
    # As much of the graph as fits below them, and what a frame is, are in the window at once.
    page.locator(".graph").evaluate("graph => graph.scrollIntoView()")
    _, line, box = edges()
    assert line[1] <= box[0] < box[1] <= height
    page.mouse.move(width / 2, box[1] - 30)
    page.locator('[data-part="tip"]').wait_for()
    tip = page.locator('[data-part="tip"]').bounding_box()
    assert tip and tip["x"] >= 0 and tip["x"] + tip["width"] <= width
    assert tip["y"] >= 0 and tip["y"] + tip["height"] <= height
