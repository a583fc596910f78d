"""The flame graph in a real browser: what a reader sees, clicks and types."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page

from tests.viz.conftest import Opener
from tests.viz.samples import (
    CATEGORIES,
    US_PER_QUERY,
    VERSION_GET,
    matched,
    options,
    percent,
    stacks,
    total,
)
from tests.viz.test_palette import contrast
from viz.flame.stacks import Stack
from viz.svg.flame_graph import FlamegraphOptions, flamegraph

pytestmark = pytest.mark.needs("chromium")

WHOLE = total(stacks())
GET = total(stacks(), VERSION_GET)


def frame(page: Page, name: str) -> Locator:
    """The first drawn frame of that name, by its label for screen readers."""
    return page.locator(f'g.f[aria-label^="{name},"]').first


def drawn(page: Page) -> list[str]:
    labels: list[str] = page.locator("g.f").evaluate_all("all => all.map(g => g.getAttribute('aria-label'))")
    return [label.rpartition(",")[0] for label in labels]


def search(page: Page, text: str) -> str:
    page.keyboard.press("Control+f")
    page.keyboard.type(text)
    return found(page)


def found(page: Page) -> str:
    return page.locator(".found").inner_text()


def typed(page: Page) -> str:
    value: str = page.locator("input").evaluate("input => input.value")
    return value


def rectangles(page: Page, selector: str) -> list[dict[str, float]]:
    boxes: list[dict[str, float]] = page.locator(selector).evaluate_all(
        "all => all.map(e => e.getBoundingClientRect()).map(r => ({l: r.left, r: r.right, t: r.top, b: r.bottom}))"
    )
    return boxes


@pytest.fixture
def page(chromium_page: Opener) -> Page:
    return chromium_page(flamegraph(stacks(), options(warnings=["profile differs from perf report"])))


def test_it_opens_with_its_title_and_its_texts(page: Page) -> None:
    assert page.title() == options().title
    assert page.locator("h1").inner_text() == options().title
    assert page.locator(".sub").inner_text() == options().subtitle
    assert page.locator(".warning").inner_text() == "profile differs from perf report"
    assert "are drawn. Those narrower than 0.5 px are not" in page.locator(".drawn").inner_text()


def test_hover_tells_name_weight_share_cost_and_samples(page: Page) -> None:
    frame(page, "__libc_pread").hover()
    card = page.locator(".card").inner_text()
    weight = sum(s.weight for s in stacks() if "__libc_pread" in s.frames)
    for text in (
        "__libc_pread",
        "libc+k: the read call: libc and the kernel below it",
        f"{weight / 1e6:.3f} ms ({weight:,} ns)",
        f"{percent(weight, WHOLE)} of all",
        f"{US_PER_QUERY * weight / WHOLE:.3f} us per query",
        "61 samples",
    ):
        assert text in card
    assert "of view" not in card
    frame(page, "rocksdb::Version::Get").hover()
    assert f"{percent(97000001, WHOLE)} of all (97,000,001 ns)" in page.locator(".card").inner_text()  # self


def test_click_zooms_and_shows_frames_that_were_too_narrow(page: Page) -> None:
    assert "Bloom007" not in drawn(page)
    frame(page, "rocksdb::Version::Get").click()
    boxes = rectangles(page, 'g.f[aria-label^="rocksdb::Version::Get,"] rect')
    assert boxes[0]["r"] - boxes[0]["l"] > 1250
    assert drawn(page)[:5] == [
        "rocksdb::DBImpl::Get",
        "rocksdb::Benchmark::ReadRandom",
        "start_thread",
        "db_bench",
        "all",
    ]
    assert "rocksdb::Random64::Next" not in drawn(page)
    status = page.locator(".zoomed").inner_text()
    cost = US_PER_QUERY * GET / WHOLE
    assert status == f"view: rocksdb::Version::Get, {percent(GET, WHOLE)} of all, {cost:.3f} us per query"
    frame(page, "__libc_pread").hover()
    weight = sum(s.weight for s in stacks() if "__libc_pread" in s.frames)
    assert f"{percent(weight, GET)} of view, {percent(weight, WHOLE)} of all" in page.locator(".card").inner_text()


@pytest.mark.parametrize("way", ["Escape", "button", "all", "Back"])
def test_every_way_back_from_a_zoom(page: Page, way: str) -> None:
    before = drawn(page)
    assert page.locator(".reset").is_disabled()
    frame(page, "__libc_pread").click()
    assert drawn(page) != before
    if way == "Escape":
        page.keyboard.press("Escape")
    elif way == "button":
        page.locator(".reset").click()
    elif way == "all":
        frame(page, "all").click()
    else:
        page.go_back()
    page.wait_for_function("document.querySelector('.reset').disabled")
    assert drawn(page) == before
    assert page.locator(".zoomed").inner_text() == ""


@pytest.mark.parametrize("pattern", ["bloom", "Bloom0.*", r"_\[k\]$", "^db_bench$", "xxh3|maymatch", "thread|pread"])
def test_matched_is_computed_from_the_data_zoomed_or_not(page: Page, pattern: str) -> None:
    some = stacks()
    of_all = percent(matched(some, pattern), WHOLE)
    cost = US_PER_QUERY * matched(some, pattern) / WHOLE
    assert search(page, pattern) == f"matched {of_all} of all, {cost:.3f} us per query"

    frame(page, "rocksdb::Version::Get").click()  # the figures follow the zoom
    inside = matched(some, pattern, VERSION_GET)
    cost = US_PER_QUERY * inside / WHOLE
    both = f"{percent(inside, GET)} of view, {percent(inside, WHOLE)} of all"
    assert found(page) == f"matched {both}, {cost:.3f} us per query; {of_all} in the whole profile"

    page.locator(".reset").click()
    assert found(page).startswith(f"matched {of_all} of all, ")


def test_matches_are_marked_and_the_rest_is_pale(page: Page) -> None:
    search(page, "maymatch")
    marked = page.locator("g.f.match").evaluate_all("all => all.map(g => g.getAttribute('aria-label').split(',')[0])")
    assert set(marked) == {"FilterBloomReader::MayMatch", "FastLocalBloomBits::HashMayMatch"}
    assert page.locator("g.f.pale").count() == page.locator("g.f").count() - 2


def test_case_counts_only_when_asked(page: Page) -> None:
    search(page, "BLOOM")
    assert "of all" in found(page)
    page.locator(".case").click()
    assert page.locator(".case").get_attribute("aria-pressed") == "true"
    assert found(page) == "no frame matches"


def test_no_match_says_so_at_the_first_search(page: Page) -> None:
    assert search(page, "no such function") == "no frame matches"


@pytest.mark.parametrize("pattern", ["(", "[z", "a{2,1}", "*"])
def test_a_bad_pattern_gives_a_message(page: Page, pattern: str) -> None:
    assert search(page, pattern).startswith("not a regular expression: ")
    assert page.locator("input").get_attribute("aria-invalid") == "true"
    assert page.locator("g.f.match, g.f.pale").count() == 0
    page.keyboard.press("Escape")
    assert found(page) == ""
    assert typed(page) == ""


@pytest.mark.parametrize("key", ["Control+f", "F3", "/"])
def test_a_key_opens_the_search(page: Page, key: str) -> None:
    page.keyboard.press(key)
    assert page.evaluate("document.activeElement.tagName") == "input"
    page.keyboard.type("a/b")
    assert typed(page) == "a/b"


def test_the_keyboard_alone_is_enough(page: Page) -> None:
    def focused() -> Any:
        return page.evaluate("document.activeElement.getAttribute('aria-label')?.split(',')[0]")

    page.keyboard.press("Tab")
    assert focused() == "all"
    for name in ("db_bench", "start_thread", "rocksdb::Benchmark::ReadRandom"):
        page.keyboard.press("ArrowUp")
        assert focused() == name
    assert "rocksdb::Benchmark::ReadRandom" in page.locator(".card").inner_text()
    page.keyboard.press("ArrowRight")
    assert focused() == "rocksdb::Random64::Next"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowDown")
    assert focused() == "start_thread"
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    assert "view: rocksdb::Benchmark::ReadRandom" in page.locator(".zoomed").inner_text()
    assert focused() == "rocksdb::Benchmark::ReadRandom"
    page.keyboard.press("/")
    page.keyboard.type("maymatch")
    page.keyboard.press("Enter")
    assert focused() == "FilterBloomReader::MayMatch"  # the heaviest match
    page.keyboard.press("Escape")
    assert page.locator(".zoomed").inner_text() == ""


def test_the_address_keeps_zoom_search_case_and_category(page: Page) -> None:
    frame(page, "rocksdb::Version::Get").click()
    search(page, "Bloom&=#%")
    page.locator(".case").click()
    page.locator(".legend button").nth(2).click()
    before = (drawn(page), found(page), page.locator(".zoomed").inner_text())
    page.reload()
    assert (drawn(page), found(page), page.locator(".zoomed").inner_text()) == before
    assert typed(page) == "Bloom&=#%"
    assert page.locator('.legend [aria-pressed="true"]').inner_text().startswith("bloom")


@pytest.mark.parametrize("fragment", ["#zoom=99999", "#zoom=-1", "#zoom=1.5", "#zoom=x&category=none", "#%%%"])
def test_a_bad_address_shows_the_whole(chromium_page: Opener, fragment: str) -> None:
    page = chromium_page(flamegraph(stacks(), options()), fragment=fragment)
    assert page.locator(".zoomed").inner_text() == ""
    assert "all" in drawn(page)


def test_the_legend_gives_shares_and_picks_out_a_category(page: Page) -> None:
    some = stacks()
    texts = [text.replace("\n", " ") for text in page.locator(".legend button").all_inner_texts()]
    assert [re.sub(r" ?[\d.]+ %$", "", text) for text in texts] == [name for name, _ in CATEGORIES]
    assert sum(round(float(re.findall(r"([\d.]+) %$", text)[0]) * 100) for text in texts) == 10_000
    bloom = page.locator(".legend button").nth(2)
    assert "bloom filters" in (bloom.get_attribute("title") or "")
    bloom.click()
    bright = page.locator("g.f:not(.pale)").evaluate_all(
        "all => all.map(g => g.getAttribute('aria-label').split(',')[0])"
    )
    assert bright and all("Bloom" in name for name in bright)

    frame(page, "rocksdb::Version::Get").click()
    assert page.locator(".legend .of").inner_text() == "share of view:"
    weight = sum(s.weight for s in some if s.category == "bloom")
    assert percent(weight, GET) in bloom.inner_text()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    assert page.locator("g.f.pale").count() == 0


STATES = {"plain": [], "zoomed": ["zoom"], "searched": ["search"], "both": ["zoom", "search"]}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_drawn_name_has_aa_contrast(chromium_page: Opener, dark: bool, state: str) -> None:
    page = chromium_page(flamegraph(stacks(), options()), dark=dark)
    if "zoom" in STATES[state]:
        frame(page, "rocksdb::Version::Get").click()
        page.mouse.move(1, 1)
    if "search" in STATES[state]:
        search(page, "bloom|pread")
    colours = page.locator("g.f").evaluate_all(
        """all => all.filter(g => g.querySelector('text').textContent).map(g => {
             const rect = getComputedStyle(g.querySelector('rect'));
             const ink = getComputedStyle(g.querySelector('text'));
             const page = getComputedStyle(document.documentElement);
             return [ink.fill, rect.fill, Number(rect.fillOpacity), page.backgroundColor];
           })"""
    )
    assert len(colours) > 5
    for ink, fill, opacity, ground in colours:
        mixed = [f * opacity + g * (1 - opacity) for f, g in zip(rgb(fill), rgb(ground), strict=True)]
        assert contrast(hexed(rgb(ink)), hexed(mixed)) >= 4.5, (ink, fill, opacity)


def rgb(text: str) -> list[float]:
    return [float(part) for part in re.findall(r"[\d.]+", text)[:3]]


def hexed(parts: list[float]) -> str:
    return "#" + "".join(f"{round(part):02x}" for part in parts)


def test_dark_mode_is_dark(chromium_page: Opener) -> None:
    svg = flamegraph(stacks(), options())
    grounds, pictures = [], []
    for dark in (False, True):
        page = chromium_page(svg, dark=dark)
        grounds.append(rgb(page.evaluate("getComputedStyle(document.documentElement).backgroundColor")))
        pictures.append(page.screenshot())
    assert min(grounds[0]) > 240
    assert max(grounds[1]) < 60
    assert pictures[0] != pictures[1]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_without_scripts_it_can_be_read(chromium_page: Opener, dark: bool) -> None:
    page = chromium_page(flamegraph(stacks(), options()), scripts=False, dark=dark)
    texts = page.locator("g.f text").all_text_contents()
    assert "rocksdb::Version::Get" in texts
    assert "__libc_pread" in texts
    assert page.locator("foreignObject").count() == 0


@pytest.mark.parametrize("width", [320, 800, 1280, 1920])
@pytest.mark.parametrize("scripts", [True, False], ids=["live", "static"])
def test_nothing_overlaps_and_no_label_leaves_its_frame(chromium_page: Opener, width: int, scripts: bool) -> None:
    many = [(f"category {i}", "label") for i in range(14)]
    given = options(warnings=["first warning " * 20, "second"], categories=many, title="A long title, " * 12)
    page = chromium_page(flamegraph(stacks(), given), width=width, height=2000, scripts=scripts)
    if not scripts:
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
    for text_right, frame_right in labels:
        assert text_right <= frame_right + 0.5


def test_it_takes_the_width_of_the_window_when_that_changes(page: Page) -> None:
    for width in (900, 1500):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(
            f"Math.abs(document.querySelector('g.f rect').getBoundingClientRect().right - {width} + 12) < 2"
        )


@pytest.mark.parametrize("name", ["all", "rocksdb:low", "rocksdb::Random64::Next"])
def test_a_tooltip_stays_in_the_window(chromium_page: Opener, name: str) -> None:
    page = chromium_page(flamegraph(stacks(), options()), width=700, height=420)
    box = rectangles(page, f'g.f[aria-label^="{name},"] rect')[0]
    for x in (box["l"] + 1, box["r"] - 2):
        page.mouse.move(x, (box["t"] + box["b"]) / 2)
        card = rectangles(page, ".card")[0]
        assert card["l"] >= 0 and card["r"] <= 700
        assert card["t"] >= 0 and card["b"] <= 420
        assert card["b"] < box["b"] or card["t"] > box["t"]  # and does not hide what it tells of


def test_a_tooltip_below_a_small_graph_is_not_cut(chromium_page: Opener) -> None:
    page = chromium_page(flamegraph([Stack(("c", "f"), 5, 1)], options()), width=700, height=500)
    frame(page, "all").hover()
    card, picture = rectangles(page, ".card")[0], rectangles(page, "svg.ioflame")[0]
    assert card["t"] >= picture["t"] and card["b"] <= picture["b"] <= 500


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


def test_a_weight_beyond_2_to_53_is_printed_to_the_unit(chromium_page: Opener) -> None:
    big = 2**62 + 1
    some = [Stack(("c", "f", "g"), big, 1), Stack(("c", "f"), 3, 1)]
    page = chromium_page(flamegraph(some, FlamegraphOptions("big", unit="cycles")))
    frame(page, "f").hover()
    card = page.locator(".card").inner_text()
    assert f"{big + 3:,} cycles" in card
    assert "(3 cycles)" in card  # self: exact, though 2**62 hides it from a float
    frame(page, "g").hover()
    assert f"{big:,} cycles" in page.locator(".card").inner_text()


def test_a_profile_without_costs_and_samples_shows_none(chromium_page: Opener) -> None:
    page = chromium_page(flamegraph([Stack(("c", "f"), 5)], FlamegraphOptions("bare", unit="page-faults")))
    frame(page, "f").hover()
    card = page.locator(".card").inner_text()
    assert "5 page-faults (5 page-faults)" in card
    assert "per query" not in card
    assert "samples" not in card
    search(page, "f")
    assert found(page) == "matched 100.00 % of all"
