"""The report page in a real browser: what a reader sees first, copies, saves and prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page

from ground.results.checks import Check, Verdict
from tests.viz.conftest import Opener
from tests.viz.observers import observed
from tests.viz.report_page import part, search
from tests.viz.runs import FOUND, view
from viz.page.report import render_report

pytestmark = pytest.mark.needs("chromium")


@pytest.fixture
def page(chromium_page: Opener) -> Page:
    return chromium_page.html(render_report([view()]))


def test_it_opens_with_one_screen_and_the_rest_is_folded(chromium_page: Opener) -> None:
    page = chromium_page.html(render_report([view()]), folded=True)
    assert page.title() == "readrandom, 1 thread, rocksdb 7.8.3: run-a"
    ran = page.locator(".ran").inner_text()
    for words in ("assertions on", "1,000 keys", "2 x Model (VM)"):
        assert words in ran
    assert "10,000" in page.locator(".tiles:visible").inner_text()
    verdict = page.locator("#first-0 ~ .banner")
    assert "Usable; read the warnings first. 1 warning (observer), 1 note, 1 ok." in verdict.inner_text()
    assert page.locator(".facts:visible").count() == 0
    page.get_by_role("heading", name="What ran", exact=True).click()
    for words in ("cpu-clock, weights in ns", "vda", "no hardware counter"):
        assert words in page.locator(".facts:visible").inner_text()
    assert page.locator("details.folded[open]").count() == 1


def test_a_section_that_was_opened_shows_its_tables_whole(page: Page) -> None:
    cut = "all => all.filter(e => e.scrollHeight > e.clientHeight + 1).map(e => e.getAttribute('aria-label'))"
    tables = page.locator("details.folded > figure .scroll")
    assert tables.count() > 3 and tables.evaluate_all(cut) == []


def test_a_check_is_reached_from_the_verdict(chromium_page: Opener) -> None:
    page = chromium_page.html(render_report([view()]), folded=True)
    page.locator("#first-0 ~ .banner").get_by_role("link").click()
    assert page.evaluate("document.activeElement.id") == "trust-0"

    def lights() -> list[str]:
        return [re.sub(r"\s", "", light) for light in page.locator(".light:visible").all_inner_texts()]

    assert lights() == ["\u25b2warning", "\u25cbnote"]
    page.get_by_text("1 check that is ok").click()
    assert lights() == ["\u25b2warning", "\u25cbnote", "\u2713ok"]
    assert "not quite the same workload" in page.locator("section:has(#trust-0) figure").first.inner_text()


def test_rows_are_by_weight_or_in_the_published_order(page: Page) -> None:
    def names() -> list[str]:
        return page.locator("section:has(#where-0) figure").first.locator("tbody th").all_inner_texts()

    def shares() -> list[float]:
        rows = page.locator("section:has(#where-0) figure").first.locator(".share").all_inner_texts()
        return [float(text) for text in rows][:-1]

    by_weight = names()
    assert shares() == sorted(shares(), reverse=True) and by_weight[-2:] == ["other", "all"]
    page.get_by_role("button", name="published order").click()
    assert names() == ["libc+k", "checksm", "bloom", "other", "all"]
    page.get_by_role("button", name="published order").click()
    assert names() == by_weight


def test_where_the_cpu_went_is_on_the_first_screen(chromium_page: Opener) -> None:
    given = view()
    given.findings = FOUND * 2
    page = chromium_page.html(render_report([given]), width=1280, height=900, folded=True)
    for words in (FOUND[0].sentence, "the read call: libc and the kernel below it libc+k", "queries a second qps"):
        box = page.get_by_text(words, exact=True).first.bounding_box()
        assert box is not None and box["y"] + box["height"] <= 900, words


def test_a_finding_leads_to_its_section_and_leaves_the_graph_as_it_is(chromium_page: Opener) -> None:
    given = view()
    given.findings = FOUND
    page = chromium_page.html(render_report([given]))
    search(page, "Bloom")
    before = page.url, part(page, "found")
    page.get_by_role("link", name="28.1 [27.0, 29.2]").first.click()
    assert page.evaluate("document.activeElement.id") == "graph-0"
    assert (page.url, part(page, "found")) == before


def test_a_bar_is_as_long_as_its_share_and_saves_with_its_table(page: Page) -> None:
    rows = page.locator("figure:has([data-owner]) .share")
    bars = rows.locator("rect").evaluate_all("all => all.map(r => r.getBoundingClientRect().width)")
    shares = [float(text) for text in rows.all_inner_texts()]
    longest = shares.index(max(shares))
    assert shares[longest] > 20
    for width, share in zip(bars, shares, strict=True):
        assert width == pytest.approx(bars[longest] * share / shares[longest], abs=0.1)
    with page.expect_download() as download:
        page.locator('[data-save="owner.svg"]').click()
    saved = ElementTree.fromstring(Path(download.value.path()).read_bytes())
    svg = "{http://www.w3.org/2000/svg}"
    assert len(saved.findall(f"{svg}svg/{svg}rect")) == len(shares)
    assert f"{shares[longest]:.2f}" in [text.text for text in saved.iter(f"{svg}text")]


def test_a_link_leads_to_its_section_and_leaves_the_graph_as_it_is(page: Page) -> None:
    search(page, "Bloom")
    before = page.url, part(page, "found")
    for name in ("Over time", "Flame graph", "Can it be trusted?"):
        page.get_by_role("link", name=name, exact=True).click()
        heading = page.get_by_role("heading", name=name, exact=True)
        top, seen = heading.bounding_box(), page.evaluate("innerHeight")
        assert top is not None and 0 <= top["y"] < seen
        assert heading.evaluate("h => h === document.activeElement")
    assert (page.url, part(page, "found")) == before


def test_tables_copy_as_tsv_and_markdown(chromium_page: Opener) -> None:
    page = chromium_page.html(render_report([view()]))
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    owners = page.locator("figure", has=page.locator(".pick[data-owner]")).last
    owners.locator('[data-copy-as="tsv"]').click()
    page.wait_for_function("window.copied")
    lines = [line.split("\t") for line in page.evaluate("copied").split("\n")]
    assert lines[0][:4] == ["owner", "% of ns", "95 %", "us/query"]
    assert lines[-1][:2] == ["all", "100.00"] and {len(line) for line in lines} == {8}
    owners.locator('[data-copy-as="markdown"]').click()
    page.wait_for_function("copied.startsWith('|')")
    assert page.evaluate("copied").split("\n")[1].startswith("| --- | ---: |")


def test_plots_and_the_graph_save_as_svg(page: Page) -> None:
    buttons = page.locator("[data-save], [data-part=save]")
    names = []
    for index in range(buttons.count()):
        with page.expect_download() as download:
            buttons.nth(index).click()
        names.append(download.value.suggested_filename)
        root = ElementTree.fromstring(Path(download.value.path()).read_bytes())
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert "var(--" not in Path(download.value.path()).read_text()
    assert sorted(names) == ["flamegraph.svg", "leaf.svg", "owner-by-leaf.svg", "owner.svg", "timeline.svg"]


@pytest.mark.parametrize("dark", [False, True])
def test_the_theme_follows_the_system_until_it_is_chosen(chromium_page: Opener, dark: bool) -> None:
    page = chromium_page.html(render_report([view()]), dark=dark)
    ground = "getComputedStyle(document.body).backgroundColor"
    pixel = "[...document.querySelector('canvas').getContext('2d').getImageData(2, 600, 1, 1).data].slice(0, 3).join()"
    pages = {False: "rgb(255, 255, 255)", True: "rgb(20, 23, 27)"}
    assert page.evaluate(ground) == pages[dark]
    page.locator(".theme").click()  # dark
    assert page.evaluate(ground) == pages[True]
    page.locator(".theme").click()  # light
    assert page.evaluate(ground) == pages[False]
    # Chromium writes what a page stores when it likes. Another page that has seen it has it from then on; the first was
    # seen, on a busy host, to read what it had stored before.
    other = page.context.new_page()
    other.goto(page.url)
    other.wait_for_function("localStorage.getItem('ioflame-theme') === 'light'")
    other.reload()
    assert other.evaluate(ground) == pages[False]
    other.get_by_role("button", name="Theme: light", exact=True).wait_for()
    assert other.evaluate(pixel) is not None
    other.close()


def test_it_prints_without_controls_and_in_light(chromium_page: Opener) -> None:
    page = chromium_page.html(render_report([view()]), dark=True)
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator(".flame .bar").is_visible()
    assert not page.locator(".theme").is_visible()
    assert page.locator(".matrix").is_visible()
    assert len(page.pdf()) > 20_000


def test_without_scripts_the_tables_and_plots_are_there(chromium_page: Opener) -> None:
    page = chromium_page.html(render_report([view()]), scripts=False)
    assert page.locator("svg.plot").count() == 1 and page.locator("svg.share-bar").count() == 7
    assert page.get_by_text("The flame graph needs a script").is_visible()
    assert not page.locator(".flame").is_visible()
    assert page.locator(".matrix").is_visible()
    assert not page.locator("figure .tools").first.is_visible()


def test_no_part_hangs_over_a_narrow_window(chromium_page: Opener) -> None:
    given = view()
    given.observed = observed()
    given.findings = FOUND
    page = chromium_page.html(render_report([given, view(name="b")]), width=390, height=844)
    page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")
    over = page.locator("main :visible").evaluate_all(
        "all => all.filter(e => !e.closest('.scroll, .box, .keys, svg, .sr, .tip'))"
        ".filter(e => e.getBoundingClientRect().right > innerWidth + 0.5 || e.getBoundingClientRect().left < 0)"
        ".map(e => e.outerHTML.slice(0, 90))"
    )
    assert over == []
    # What is wider scrolls by itself.
    holders = page.locator(".scroll:visible, .keys div:visible")
    assert holders.evaluate_all("all => all.every(e => e.getBoundingClientRect().right <= innerWidth)")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("media, width", [("screen", 360), ("screen", 718), ("screen", 1400), ("print", 718)])
def test_nothing_hangs_over_the_edge(chromium_page: Opener, media: Literal["screen", "print"], width: int) -> None:
    given = view(checks=[Check("a long name of a check", Verdict.WARN, "/a/path/of/some/length" * 9, "why " * 40)])
    page = chromium_page.html(render_report([given, view(name="b" * 80)]), width=width)
    page.emulate_media(media=media)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_every_table_copies_and_every_plot_saves(page: Page) -> None:
    figures = page.locator("figure").all()
    for figure in figures:
        if figure.locator("table").count():
            assert figure.locator('[data-copy-as="tsv"]').count() == 1
            assert figure.locator('[data-copy-as="markdown"]').count() == 1
        if figure.locator("svg.plot").count():
            assert figure.locator("[data-save]").count() == 1
    assert page.locator("table").count() == page.locator("figure table").count()
    assert page.locator("svg.plot").count() == page.locator("figure svg.plot").count()
