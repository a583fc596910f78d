"""The flame graph in a real browser: what a reader sees, clicks and types."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page

from ground.text.titles import title_of
from tests.viz.conftest import Opener
from tests.viz.samples import CATEGORIES, US_PER_QUERY, VERSION_GET, options, percent, stacks, total
from viz.flame.stacks import Stack
from viz.svg.flame_graph import FlamegraphOptions, flamegraph

pytestmark = [pytest.mark.long, pytest.mark.needs("chromium")]

WHOLE = total(stacks())
GET = total(stacks(), VERSION_GET)
WARNING = "profile differs from perf report"


def frame(page: Page, name: str) -> Locator:
    """The first drawn frame of that name, by its label for screen readers."""
    return page.locator(f'g.f[aria-label^="{name},"]').first


def drawn(page: Page, which: str = "g.f") -> list[str]:
    labels: list[str] = page.locator(which).evaluate_all("all => all.map(g => g.getAttribute('aria-label'))")
    return [label.rpartition(",")[0] for label in labels]


def search(page: Page, text: str) -> str:
    page.keyboard.press("Control+f")
    page.keyboard.type(text)
    return found(page)


def typed(page: Page) -> object:
    return page.locator("input").evaluate("input => input.value")


def found(page: Page) -> str:
    return page.locator(".found").inner_text()


def card(page: Page, name: str) -> str:
    frame(page, name).hover()
    return page.locator(".card").inner_text()


def zoomed(page: Page) -> str:
    return page.locator(".zoomed").inner_text()


def rectangles(page: Page, selector: str) -> list[dict[str, float]]:
    boxes: list[dict[str, float]] = page.locator(selector).evaluate_all(
        "all => all.map(e => e.getBoundingClientRect()).map(r => ({l: r.left, r: r.right, t: r.top, b: r.bottom}))"
    )
    return boxes


@pytest.fixture
def page(chromium_page: Opener) -> Page:
    return chromium_page(flamegraph(stacks(), options(warnings=[WARNING])))


def test_it_opens_with_its_texts_and_the_pointer_tells_of_a_frame(page: Page) -> None:
    assert page.title() == page.locator("h1").inner_text() == options().title
    assert (page.locator(".sub").inner_text(), page.locator(".warning").inner_text()) == (options().subtitle, WARNING)
    assert "are drawn. Those narrower than 0.5 px are not" in page.locator(".drawn").inner_text()
    told = card(page, "__libc_pread")
    weight = sum(s.weight for s in stacks() if "__libc_pread" in s.frames)
    for text in (
        "__libc_pread",
        "read syscall: the read call: libc and the kernel below it",
        f"{weight / 1e6:.3f} ms ({weight:,} ns)",
        f"{percent(weight, WHOLE)} of all",
        f"{US_PER_QUERY * weight / WHOLE:.3f} us per query",
        "61 samples",
    ):
        assert text in told
    assert "of view" not in told
    assert f"{percent(97000001, WHOLE)} of all (97,000,001 ns)" in card(page, "rocksdb::Version::Get")  # self


def test_a_click_zooms_and_every_way_leads_back(page: Page) -> None:
    before = drawn(page)
    assert page.locator(".reset").is_disabled()
    ways: tuple[Callable[[], object], ...] = (
        lambda: page.keyboard.press("Escape"),
        page.locator(".reset").click,
        lambda: frame(page, "all").click(),
        page.go_back,
    )
    for back in ways:
        frame(page, "rocksdb::Version::Get").click()
        box = rectangles(page, 'g.f[aria-label^="rocksdb::Version::Get,"] rect')[0]
        assert box["r"] - box["l"] > 1250
        above = ["rocksdb::DBImpl::Get", "rocksdb::Benchmark::ReadRandom", "start_thread", "db_bench", "all"]
        assert drawn(page)[:5] == above
        assert "rocksdb::Random64::Next" not in drawn(page)
        cost = US_PER_QUERY * GET / WHOLE
        assert zoomed(page) == f"view: rocksdb::Version::Get, {percent(GET, WHOLE)} of all, {cost:.3f} us per query"
        weight = sum(s.weight for s in stacks() if "__libc_pread" in s.frames)
        both = f"{percent(weight, GET)} of view, {percent(weight, WHOLE)} of all"
        assert both in card(page, "__libc_pread")
        back()
        page.wait_for_function("document.querySelector('.reset').disabled", polling=20)
        assert (drawn(page), zoomed(page)) == (before, "")


def test_matches_are_marked_and_a_bad_pattern_is_a_message(page: Page) -> None:
    search(page, "maymatch")
    marked = {name.partition(",")[0] for name in drawn(page, "g.f.match")}
    assert marked == {"FilterBloomReader::MayMatch", "FastLocalBloomBits::HashMayMatch"}
    assert page.locator("g.f.pale").count() == page.locator("g.f").count() - 2
    for key, pattern in (("Control+f", "("), ("F3", "[z"), ("/", "a{2,1}")):
        page.keyboard.press("Escape")
        page.keyboard.press(key)
        page.keyboard.type(pattern)
        assert typed(page) == pattern
        assert found(page).startswith("not a regular expression: ")
        assert page.locator("input").get_attribute("aria-invalid") == "true"
        assert page.locator("g.f.match, g.f.pale").count() == 0
    page.keyboard.press("Escape")
    assert (found(page), typed(page)) == ("", "")


def test_the_keyboard_alone_is_enough(page: Page) -> None:
    def focused() -> Any:
        return page.evaluate("document.activeElement.getAttribute('aria-label')?.split(',')[0]")

    page.keyboard.press("Tab")
    assert focused() == "all"
    for key, name in (
        ("ArrowUp", "db_bench"),
        ("ArrowUp", "start_thread"),
        ("ArrowUp", "rocksdb::Benchmark::ReadRandom"),
        ("ArrowRight", "rocksdb::Random64::Next"),
        ("ArrowLeft", "rocksdb::Benchmark::ReadRandom"),
        ("ArrowDown", "start_thread"),
        ("ArrowUp", "rocksdb::Benchmark::ReadRandom"),
    ):
        page.keyboard.press(key)
        assert focused() == name
    assert "rocksdb::Benchmark::ReadRandom" in page.locator(".card").inner_text()
    page.keyboard.press("Enter")
    assert "view: rocksdb::Benchmark::ReadRandom" in zoomed(page)
    assert focused() == "rocksdb::Benchmark::ReadRandom"
    page.keyboard.press("/")
    page.keyboard.type("maymatch")
    page.keyboard.press("Enter")
    assert focused() == "FilterBloomReader::MayMatch"  # the heaviest match
    page.keyboard.press("Escape")
    assert zoomed(page) == ""


def test_the_address_keeps_zoom_search_case_and_category(page: Page) -> None:
    at = page.url
    frame(page, "rocksdb::Version::Get").click()
    search(page, "Bloom&=#%")
    page.locator(".case").click()
    page.locator(".legend button").nth(2).click()
    before = (drawn(page), found(page), zoomed(page))
    page.reload()
    assert (drawn(page), found(page), zoomed(page)) == before
    assert typed(page) == "Bloom&=#%"
    assert page.locator('.legend [aria-pressed="true"]').inner_text().startswith("bloom")
    for fragment in ("zoom=99999", "zoom=-1", "zoom=1.5", "zoom=x&category=none", "%%%"):  # a bad one shows the whole
        page.goto("about:blank")
        page.goto(f"{at}#{fragment}")
        assert zoomed(page) == "" and "all" in drawn(page)


def test_the_legend_gives_shares_and_picks_out_a_category(page: Page) -> None:
    texts = [text.replace("\n", " ") for text in page.locator(".legend button").all_inner_texts()]
    assert [re.sub(r" ?[\d.]+ %$", "", text) for text in texts] == [title_of(name) for name, _ in CATEGORIES]
    assert sum(round(float(re.findall(r"([\d.]+) %$", text)[0]) * 100) for text in texts) == 10_000
    bloom = page.locator(".legend button").nth(2)
    assert "bloom filters" in (bloom.get_attribute("title") or "")
    bloom.click()
    bright = [name.partition(",")[0] for name in drawn(page, "g.f:not(.pale)")]
    assert bright and all("Bloom" in name for name in bright)

    frame(page, "rocksdb::Version::Get").click()
    assert page.locator(".legend .of").inner_text() == "share of view:"
    weight = sum(s.weight for s in stacks() if s.category == "bloom")
    assert percent(weight, GET) in bloom.inner_text()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    assert page.locator("g.f.pale").count() == 0


@pytest.mark.parametrize("width", [320, 1280])
@pytest.mark.parametrize("scripts", [True, False], ids=["live", "static"])
def test_nothing_overlaps_and_no_label_leaves_its_frame(chromium_page: Opener, width: int, scripts: bool) -> None:
    dark = width == 320
    many = [(f"category {i}", "label") for i in range(14)]
    given = options(warnings=["first warning " * 20, "second"], categories=many, title="A long title, " * 12)
    page = chromium_page(flamegraph(stacks(), given), width=width, height=2000, scripts=scripts, dark=dark)
    if scripts:
        ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert ground == ("rgb(20, 23, 27)" if dark else "rgb(255, 255, 255)")
    if not scripts:
        assert {"rocksdb::Version::Get", "__libc_pread"} <= set(page.locator("g.f text").all_text_contents())
        assert page.locator("foreignObject").count() == 0
        texts = rectangles(page, "g.static g text")
        for i, one in enumerate(texts):
            for other in texts[i + 1 :]:
                assert one["r"] <= other["l"] or one["b"] <= other["t"] + 1 or one["t"] + 1 >= other["b"]
    head = rectangles(page, ".head" if scripts else "g.static text")
    foot = rectangles(page, ".foot" if scripts else "text.static")
    frames = rectangles(page, "g.f rect")
    assert max(box["b"] for box in head) <= min(box["t"] for box in frames) + 1
    assert min(box["t"] for box in foot) >= max(box["b"] for box in frames) - 1
    assert max(box["r"] for box in (*head, *foot, *frames)) <= max(width, 1200 if not scripts else 0)
    labels = page.locator("g.f").evaluate_all(
        "all => all.map(g => [g.querySelector('text')?.getBoundingClientRect().right ?? 0,"
        " g.querySelector('rect').getBoundingClientRect().right])"
    )
    assert all(text_right <= frame_right + 0.5 for text_right, frame_right in labels)


def test_it_takes_the_width_of_the_window_and_a_tooltip_stays_in_it(page: Page) -> None:
    for width in (900, 1500, 700):
        page.set_viewport_size({"width": width, "height": 420})
        edge = "document.querySelector('g.f rect').getBoundingClientRect().right"
        page.wait_for_function(f"Math.abs({edge} - {width} + 12) < 2", polling=20)
    for name in ("all", "rocksdb:low", "rocksdb::Random64::Next"):
        box = rectangles(page, f'g.f[aria-label^="{name},"] rect')[0]
        for x in (box["l"] + 1, box["r"] - 2):
            page.mouse.move(x, (box["t"] + box["b"]) / 2)
            tip = rectangles(page, ".card")[0]
            assert tip["l"] >= 0 and tip["r"] <= 700 and tip["t"] >= 0 and tip["b"] <= 420
            assert tip["b"] < box["b"] or tip["t"] > box["t"]  # and does not hide what it tells of


def test_the_clicked_frame_stays_in_place_where_the_zoom_shows_deeper_frames(chromium_page: Opener) -> None:
    narrow = tuple(f"deep{i}" for i in range(60))
    tall = tuple(f"tall{i}" for i in range(30))
    some = [Stack(("c", "f", *narrow), 1), Stack(("c", "f"), 1_000), Stack(("c", "g", *tall), 20_000)]
    page = chromium_page(flamegraph(some, FlamegraphOptions("deep")), width=900, height=400)
    assert "deep59" not in drawn(page)
    before = rectangles(page, 'g.f[aria-label^="f,"] rect')[0]
    frame(page, "f").click()
    assert "deep59" in drawn(page)
    after = rectangles(page, 'g.f[aria-label^="f,"] rect')[0]
    assert abs(after["t"] - before["t"]) <= 1


def test_small_graphs_tell_every_unit_and_nothing_that_is_not_known(chromium_page: Opener) -> None:
    big = 2**62 + 1
    some = [Stack(("c", "f", "g"), big, 1), Stack(("c", "f"), 3, 1)]
    page = chromium_page(flamegraph(some, FlamegraphOptions("big", unit="cycles")))
    told = card(page, "f")
    # Self is exact, though 2**62 hides it from a float.
    assert f"{big + 3:,} cycles" in told and "(3 cycles)" in told and f"{big:,} cycles" in card(page, "g")

    bare = flamegraph([Stack(("c", "f"), 5)], FlamegraphOptions("bare", unit="page-faults"))
    page = chromium_page(bare, width=700, height=500)
    told = card(page, "f")
    assert "5 page-faults (5 page-faults)" in told and "per query" not in told and "samples" not in told
    assert search(page, "f") == "matched 100.00 % of all"
    frame(page, "all").hover()
    tip, picture = rectangles(page, ".card")[0], rectangles(page, "svg.ioflame")[0]
    assert tip["t"] >= picture["t"] and tip["b"] <= picture["b"] <= 500
