"""The report page in a real browser: what a reader sees first, points at, walks through, copies, saves and prints."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page

from ground.results.checks import Check, Verdict
from ground.results.ladder import STAGES
from tests.viz.conftest import Opener, saved_by
from tests.viz.observers import observed, only
from tests.viz.report_page import part, search
from tests.viz.runs import FOUND, view
from viz.page.report import render_report
from viz.svg.axes import duration

pytestmark = [pytest.mark.long, pytest.mark.needs("chromium")]


def page_of(chromium_page: Opener, **how: Any) -> Page:
    """Of a run with findings and all that observers left."""
    return chromium_page.html(render_report([view(observed=observed(), findings=FOUND)]), **how)


def test_it_opens_with_one_screen_and_the_rest_is_folded(chromium_page: Opener) -> None:
    page = chromium_page.html(render_report([view(findings=FOUND * 2)]), folded=True)
    assert page.title() == "readrandom, 1 thread, rocksdb 7.8.3: run-a"
    for words in ("assertions on", "1,000 keys", "2 x Model (VM)"):
        assert words in page.locator(".ran").inner_text()
    assert "10,000" in page.locator(".tiles:visible").inner_text()
    for words in (FOUND[0].sentence, "read syscall", "queries a second qps"):
        box = page.get_by_text(words, exact=True).first.bounding_box()
        assert box is not None and box["y"] + box["height"] <= 900, words
    assert page.locator(".facts:visible").count() == 0
    page.get_by_role("heading", name="What ran", exact=True).click()
    assert page.locator(".facts:visible").count() > 0 and page.locator("details.folded[open]").count() == 1
    # A check is reached from the verdict.
    page.locator("#first-0 ~ .banner").get_by_role("link").click()
    assert page.evaluate("document.activeElement.id") == "trust-0"
    assert page.locator(".light:visible").count() == 2
    page.get_by_text("1 check that is ok").click()
    assert page.locator(".light:visible").count() == 3


def test_no_table_of_a_section_is_cut(chromium_page: Opener) -> None:
    page = page_of(chromium_page)
    cut = "all => all.filter(e => e.scrollHeight > e.clientHeight + 1).map(e => e.getAttribute('aria-label'))"
    tables = page.locator("details.folded > figure .scroll")
    assert tables.count() > 3 and tables.evaluate_all(cut) == []


def test_every_table_copies_as_tsv_and_markdown_and_every_plot_saves(chromium_page: Opener) -> None:
    page = page_of(chromium_page)
    for kind, tools in (
        ("table", ['[data-copy-as="tsv"]', '[data-copy-as="markdown"]']),
        ("svg.plot", ["[data-save]"]),
    ):
        figures = page.locator(f"figure:has({kind})")
        assert page.locator(kind).count() == page.locator(f"figure {kind}").count() > 0
        for tool in tools:
            assert figures.evaluate_all("(all, tool) => all.every(e => e.querySelector(tool))", tool)
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    owners = page.locator("figure", has=page.locator(".pick[data-owner]")).last
    owners.locator('[data-copy-as="tsv"]').click()
    page.wait_for_function("window.copied", polling=20)
    lines = [line.split("\t") for line in page.evaluate("copied").split("\n")]
    assert lines[0][:4] == ["category", "short", "CPU %", "95 %"]
    assert lines[-1][:3] == ["all", "", "100.00"] and {len(line) for line in lines} == {9}
    owners.locator('[data-copy-as="markdown"]').click()
    page.wait_for_function("copied.startsWith('|')", polling=20)
    assert page.evaluate("copied").split("\n")[1].startswith("| --- |")

    texts = saved_by(lambda: page_of(chromium_page, own=True))
    assert not [name for name, text in texts.items() if b"var(--" in text]
    saved = {name: ElementTree.fromstring(text) for name, text in texts.items()}
    assert {"flamegraph.svg", "leaf.svg", "category-by-leaf.svg", "owner.svg", "timeline.svg"} < saved.keys()
    svg = "{http://www.w3.org/2000/svg}"
    assert len(saved) == 12 and {root.tag for root in saved.values()} == {f"{svg}svg"}
    shares = page.locator("figure:has([data-owner]) .share").all_inner_texts()
    assert len(saved["owner.svg"].findall(f"{svg}svg/{svg}rect")) == len(shares)
    assert shares[0] in [text.text for text in saved["owner.svg"].iter(f"{svg}text")]


def test_a_link_or_finding_leads_to_its_section_and_leaves_the_graph_as_it_is(chromium_page: Opener) -> None:
    page = page_of(chromium_page)
    search(page, "Bloom")
    before = page.url, part(page, "found")
    for name in ("Over time", "Flame graph", "Can it be trusted?"):
        page.get_by_role("link", name=name, exact=True).click()
        heading = page.get_by_role("heading", name=name, exact=True)
        top, seen = heading.bounding_box(), page.evaluate("innerHeight")
        assert top is not None and 0 <= top["y"] < seen
        assert heading.evaluate("h => h === document.activeElement")
    page.get_by_role("link", name="28.1 [27.0, 29.2]").first.click()
    assert page.evaluate("document.activeElement.id") == "graph-0"
    assert (page.url, part(page, "found")) == before


@pytest.mark.parametrize("dark", [False, True])
def test_the_theme_follows_the_system_until_it_is_chosen(chromium_page: Opener, dark: bool) -> None:
    page = chromium_page.html(render_report([view()]), dark=dark, own=True)
    ground = "getComputedStyle(document.body).backgroundColor"
    pages = {False: "rgb(255, 255, 255)", True: "rgb(20, 23, 27)"}
    assert page.evaluate(ground) == pages[dark]
    page.locator(".theme").click()  # dark
    assert page.evaluate(ground) == pages[True]
    page.locator(".theme").click()  # light
    assert page.evaluate(ground) == pages[False]
    assert page.evaluate("localStorage.getItem('ioflame-theme')") == "light"
    # Opened with a theme stored. That is stored by the same document: Chromium has no moment from which on what one
    # document stores is read by the next; on a busy host it was not within 20 s, nor after thirty reloads.
    kept = "light" if dark else "dark"
    page.add_init_script(f"localStorage.setItem('ioflame-theme', '{kept}')")
    page.reload()
    assert page.evaluate(ground) == pages[not dark]
    page.get_by_role("button", name=f"Theme: {kept}", exact=True).wait_for()


def test_it_prints_without_controls_and_in_light(chromium_page: Opener) -> None:
    page = page_of(chromium_page, dark=True)
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for part_of in (".flame .bar", ".theme", ".turns, .choices"):
        assert not page.locator(part_of).first.is_visible()
    for part_of in (".matrix", "[data-heat]", "rect[data-stage]"):
        assert page.locator(part_of).first.is_visible()
    for plot in page.locator(".wide svg:visible").all():
        box = plot.bounding_box()
        assert box is not None and box["x"] + box["width"] <= 1280
    assert len(page.pdf()) > 20_000


def test_it_is_whole_without_a_script(chromium_page: Opener) -> None:
    page = page_of(chromium_page, scripts=False)
    assert page.locator("[data-hist]:visible").count() == 3 and page.locator("[data-heat]:visible").count() == 1
    assert page.locator("rect[data-stage]").count() == len(STAGES) and page.locator("svg.share-bar").count() == 10
    assert page.get_by_text("The flame graph needs a script").is_visible() and page.locator(".matrix").is_visible()
    for control in (".flame", "figure .tools", ".choices, .turns"):
        assert not page.locator(control).first.is_visible()


def test_nothing_hangs_over_the_edge_of_any_window(chromium_page: Opener) -> None:
    given = view(checks=[Check("a long name of a check", Verdict.WARN, "/a/path/of/some/length" * 9, "why " * 40)])
    given.observed, given.findings = observed(), FOUND
    page = chromium_page.html(render_report([given, view(name="b" * 80)]))
    page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")
    for width in (1400, 718, 390, 360):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        over = page.locator("main :visible").evaluate_all(
            "all => all.filter(e => !e.closest('.scroll, .box, .keys, svg, .sr, .tip'))"
            ".filter(e => e.getBoundingClientRect().right > innerWidth + 0.5 || e.getBoundingClientRect().left < 0)"
            ".map(e => e.outerHTML.slice(0, 90))"
        )
        assert over == [], width
        # What is wider scrolls by itself.
        holders = page.locator(".scroll:visible, .keys div:visible")
        assert holders.evaluate_all("all => all.every(e => e.getBoundingClientRect().right <= innerWidth)")
    for seen in (observed(), only()):
        given.observed = seen
        page = chromium_page.html(render_report([given, view(name="b" * 80)]), width=718)
        page.emulate_media(media="print")
        assert page.evaluate("document.documentElement.scrollWidth") <= 718


# ---- ladder, histograms, heat map and the other flame graphs ---------------------------------------------------------
def point(page: Any, target: Any, **position: float) -> None:
    """Moves the pointer onto `target` once scrolling there is over: scrolling removes a tooltip."""
    target.scroll_into_view_if_needed()
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    target.hover(position=position or None)
    page.locator("main > .tip").wait_for()


def tip(page: Any) -> str:
    return str(page.locator("main > .tip").inner_text())


def test_a_stage_tells_what_it_is_and_opens_its_histogram_by_pointer_and_by_key(chromium_page: Opener) -> None:
    page = page_of(chromium_page)
    point(page, page.locator("rect[data-stage='run-queue wait']"))
    told = tip(page).split("\n")
    assert told[0] == f"run-queue wait: {STAGES['runq'].start} \u2192 {STAGES['runq'].end}"
    assert "avg 14.00 us, 14.0 % of the query" in told
    # The browser's own tooltip does not lie over ours, and comes back.
    assert page.locator("rect[data-stage='run-queue wait'] title").count() == 0
    point(page, page.locator("rect[data-stage=device]"))
    assert page.locator("rect[data-stage='run-queue wait'] title").count() == 1
    page.keyboard.press("Escape")
    assert not page.locator("main > .tip").is_visible()

    panel = page.locator(".panel:has([data-stage])")
    shown = panel.locator(".histograms svg:visible")
    assert shown.count() == 1 and str(shown.get_attribute("aria-label")).startswith("total, ")
    page.locator("rect[data-stage=device]").click()
    assert shown.count() == 1 and str(shown.get_attribute("aria-label")).startswith("device, ")
    page.locator("button[data-stage=queue]").focus()
    page.keyboard.press("Enter")
    assert str(shown.get_attribute("aria-label")).startswith("queue, ")
    assert panel.locator("button[data-series][aria-pressed=true]").inner_text() == "queue"
    panel.locator("button[data-scale=linear]").click()
    assert shown.count() == 1 and "linear scale" in (shown.text_content() or "")
    # Other histograms of the page are not touched.
    assert page.locator(".histograms:not(.panel:has([data-stage]) *) [data-at=log]:visible").count() == 2


def test_a_bar_and_a_cell_tell_their_counts(chromium_page: Opener) -> None:
    page = page_of(chromium_page)
    plot = page.locator("[data-hist]:visible").nth(1)
    counts = plot.evaluate("s => JSON.parse(s.dataset.hist)")
    fullest = counts["counts"].index(max(counts["counts"]))
    spot = plot.evaluate(
        "(s, at) => { const h = JSON.parse(s.dataset.hist), e = h.edges, r = s.getBoundingClientRect();"
        "const part = Math.log(Math.sqrt(e[at] * e[at + 1]) / e[0]) / Math.log(e.at(-1) / e[0]);"
        "return (h.left + part * (h.right - h.left)) * r.width / s.viewBox.baseVal.width; }",
        fullest,
    )
    point(page, plot, x=spot, y=100)
    said = tip(page)
    assert re.search(r"(about )?\d+ requests, \d+\.\d\d %", said)
    heat = page.locator("[data-heat]").first
    grid = heat.evaluate("s => JSON.parse(s.dataset.heat)")
    row = max(grid["counts"][2], key=lambda key: grid["counts"][2][key])
    scale = heat.evaluate("s => s.getBoundingClientRect().width / s.viewBox.baseVal.width")
    middle = (grid["x"][2] + grid["x"][3]) / 2, (grid["y"][int(row)] + grid["y"][int(row) + 1]) / 2
    point(page, heat, x=middle[0] * scale, y=middle[1] * scale)
    assert "of 100 reads" in tip(page) and "2 \u2013 3 s" in tip(page) and "p50 " in tip(page)


def said(page: Any) -> list[str]:
    """The text for screen readers, which is the same as the tooltip's."""
    told = str(page.locator("p.sr[role=status]").text_content())
    assert told == ", ".join(tip(page).split("\n"))
    return tip(page).split("\n")


@pytest.mark.parametrize("scale", ["log", "linear"])
def test_arrows_walk_the_bars_of_a_histogram(chromium_page: Opener, scale: str) -> None:
    page = page_of(chromium_page)
    figure = page.locator("figure.histograms:has-text('Run-queue waits by length')")
    figure.locator(f"button[data-scale={scale}]").click()
    holder = figure.locator("[data-at]:visible")
    data = holder.locator("svg").evaluate("s => JSON.parse(s.dataset.hist)")
    filled = [place for place, count in enumerate(data["counts"]) if count > 0]
    holder.focus()
    page.keyboard.press("Home")
    shares, counted = [], 0.0
    for place in filled:
        told = said(page)
        assert told[0] == f"{duration(data['edges'][place])} \u2013 {duration(data['edges'][place + 1])}"
        number = re.match(r"(?:about )?([\d,]+) waits, ", told[1])
        assert number and int(number[1].replace(",", "")) == pytest.approx(data["counts"][place], abs=0.5)
        counted += data["counts"][place]
        assert told[2] == f"{100 * counted / data['n']:.2f} % are not longer"
        mark, whole = holder.locator(".walked").bounding_box(), holder.bounding_box()
        assert mark and whole and whole["x"] <= mark["x"] and mark["x"] + mark["width"] <= whole["x"] + whole["width"]
        shares.append(mark["x"])
        page.keyboard.press("ArrowRight")
    assert shares == sorted(set(shares)) and len(shares) == len(filled) > 1
    last = said(page)
    page.keyboard.press("ArrowLeft")
    assert said(page) != last
    page.keyboard.press("End")
    assert said(page) == last
    page.keyboard.press("Escape")
    assert not page.locator("main > .tip").is_visible() and page.locator(".walked").count() == 0
    # From nowhere an arrow begins where most is.
    page.keyboard.press("ArrowLeft")
    assert f"{round(max(data['counts']))} waits" in said(page)[1]
    page.keyboard.press("Tab")
    assert not page.locator("main > .tip").is_visible() and page.locator(".walked").count() == 0


def test_arrows_walk_the_cells_of_a_heat_map(chromium_page: Opener) -> None:
    page = page_of(chromium_page, width=500)  # wider than its window: the walk scrolls it along
    holder = page.locator("[tabindex]:has(> [data-heat])").first
    holder.focus()
    page.keyboard.press("Home")
    assert said(page)[:2] == ["60.1 us \u2013 65.5 us, 0 \u2013 1 s", "90 of 100 reads, 90.00 %"]
    page.keyboard.press("ArrowUp")
    assert said(page)[1] == "10 of 100 reads, 10.00 %"
    for second in range(1, 5):
        page.keyboard.press("ArrowRight")
        told = said(page)
        assert told[0].endswith(f"{second} \u2013 {second + 1} s") and told[1] == "10 of 100 reads, 10.00 %"
        mark, whole = holder.locator(".walked").bounding_box(), holder.bounding_box()
        assert mark and whole and mark["x"] + mark["width"] <= whole["x"] + whole["width"] + 1
    page.keyboard.press("ArrowDown")
    assert said(page)[1] == "90 of 100 reads, 90.00 %"


def test_the_other_flame_graphs(chromium_page: Opener) -> None:
    page = page_of(chromium_page)
    shown = ".flame:visible"
    assert page.locator(shown).count() == 1
    drawn = page.locator(".flame[data-of=off] [data-part=drawn]")
    assert drawn.inner_text() == ""  # not read before it is asked for
    page.locator("[data-graph=off]").click()
    assert "frames" in drawn.inner_text()
    assert page.locator(shown).get_attribute("data-of") == "off" and page.url.endswith("graph=off")
    assert "1.500 s" in page.locator(f"{shown} [data-part=status]").inner_text()
    page.keyboard.press("/")
    page.keyboard.type("pread64")
    assert page.locator(f"{shown} [data-part=found]").inner_text().startswith("matched 100.00 % of all")
    page.locator(f"{shown} .keys button", has_text="run-queue wait").click()
    assert (
        "only stacks with state run-queue wait: 13.33 % of all"
        in page.locator(f"{shown} [data-part=status]").inner_text()
    )
    page.reload()
    page.locator(f"{shown}[data-of=off]").wait_for()
    assert "state run-queue wait" in page.locator(f"{shown} [data-part=status]").inner_text()
    page.locator("[data-graph=pmp]").click()
    assert page.locator(shown).get_attribute("data-of") == "pmp"
    page.go_back()
    page.locator(f"{shown}[data-of=off]").wait_for()
    # A category of the tables is about the CPU.
    page.locator("button.pick[data-owner='0']").click()
    page.locator(f"{shown}[data-of=cpu]").wait_for()
    assert "only stacks with category" in page.locator(f"{shown} [data-part=status]").inner_text()
