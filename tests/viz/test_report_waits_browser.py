"""What a reader does with ladder, histograms, heat map and the other flame graphs, in a real browser."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from ground.results.io_latency import Device
from ground.results.ladder import STAGES
from ground.results.off_cpu import OffStack
from tests.viz import observers
from tests.viz.conftest import Opener
from tests.viz.runs import view
from tests.viz.test_hostile_names import NAMES
from viz.page.report import render_report
from viz.page.run_view import by_state
from viz.printable import printable
from viz.svg.axes import duration

pytestmark = pytest.mark.needs("chromium")

EVIL = NAMES[1].decode() + NAMES[3].decode() + "\x00\u202e]]>"


def page_of(chromium_page: Opener, **changes: Any) -> Any:
    given = view()
    given.observed = observers.observed()
    return chromium_page.html(render_report([given]), **changes)


def point(page: Any, target: Any, **position: float) -> None:
    """Moves the pointer onto `target` once scrolling there is over: scrolling removes a tooltip."""
    target.scroll_into_view_if_needed()
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    target.hover(position=position or None)
    page.locator("main > .tip").wait_for()


def tip(page: Any) -> str:
    return str(page.locator("main > .tip").inner_text())


def test_a_stage_tells_what_it_is(chromium_page: Opener) -> None:
    page = page_of(chromium_page)
    point(page, page.locator("rect[data-stage=runq]"))
    told = tip(page).split("\n")
    assert told[0] == f"runq: {STAGES['runq'].start} \u2192 {STAGES['runq'].end}"
    assert "avg 14.00 us, 14.0 % of the query" in told
    # The browser's own tooltip does not lie over ours, and comes back.
    assert page.locator("rect[data-stage=runq] title").count() == 0
    point(page, page.locator("rect[data-stage=device]"))
    assert page.locator("rect[data-stage=runq] title").count() == 1
    page.keyboard.press("Escape")
    assert not page.locator("main > .tip").is_visible()


def test_a_stage_opens_its_histogram_by_pointer_and_by_key(chromium_page: Opener) -> None:
    page = page_of(chromium_page)
    panel = page.locator(".panel:has([data-stage])")
    shown = panel.locator(".histograms svg:visible")
    assert shown.count() == 1 and shown.get_attribute("aria-label").startswith("total, ")
    page.locator("rect[data-stage=device]").click()
    assert shown.count() == 1 and shown.get_attribute("aria-label").startswith("device, ")
    page.locator("button[data-stage=queue]").focus()
    page.keyboard.press("Enter")
    assert shown.get_attribute("aria-label").startswith("queue, ")
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
    figure = page.locator("figure.histograms:has-text('Waits for a CPU')")
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
    page.locator("[data-graph=off]").click()
    assert page.locator(shown).get_attribute("data-of") == "off" and page.url.endswith("graph=off")
    assert "1.500 s" in page.locator(f"{shown} [data-part=status]").inner_text()
    page.keyboard.press("/")
    page.keyboard.type("pread64")
    assert page.locator(f"{shown} [data-part=found]").inner_text().startswith("matched 100.00 % of all")
    page.locator(f"{shown} .keys button", has_text="woken").click()
    assert "only stacks with state woken: 13.33 % of all" in page.locator(f"{shown} [data-part=status]").inner_text()
    page.reload()
    page.locator(f"{shown}[data-of=off]").wait_for()
    assert "state woken" in page.locator(f"{shown} [data-part=status]").inner_text()
    page.locator("[data-graph=pmp]").click()
    assert page.locator(shown).get_attribute("data-of") == "pmp"
    page.go_back()
    page.locator(f"{shown}[data-of=off]").wait_for()
    # A category of the tables is about the CPU.
    page.locator("button.pick[data-owner='0']").click()
    page.locator(f"{shown}[data-of=cpu]").wait_for()
    assert "only stacks with owner" in page.locator(f"{shown} [data-part=status]").inner_text()


def test_the_other_graphs_are_not_read_before_they_are_asked_for(chromium_page: Opener) -> None:
    page = page_of(chromium_page)
    assert page.locator(".flame[data-of=off] [data-part=drawn]").inner_text() == ""
    page.locator("[data-graph=off]").click()
    assert "frames" in page.locator(".flame[data-of=off] [data-part=drawn]").inner_text()


@pytest.mark.parametrize("width", [360, 800, 1600])
def test_it_fits_the_window(chromium_page: Opener, width: int) -> None:
    page = page_of(chromium_page, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_it_is_whole_without_a_script(chromium_page: Opener) -> None:
    page = page_of(chromium_page, scripts=False)
    assert page.locator("[data-hist]:visible").count() == 3 and page.locator("[data-heat]:visible").count() == 1
    assert page.locator("rect[data-stage]").count() == len(STAGES)
    assert not page.locator(".choices, .turns").first.is_visible()


def test_every_plot_saves_as_xml(chromium_page: Opener) -> None:
    page = page_of(chromium_page)
    buttons = page.locator(".panel [data-save]:visible")
    assert buttons.count() == 7
    for index in range(buttons.count()):
        with page.expect_download() as download:
            buttons.nth(index).click()
        saved = Path(download.value.path()).read_text(encoding="utf-8")
        ElementTree.fromstring(saved)
        assert "var(--" not in saved


def test_hostile_names_of_observers_stay_text(chromium_page: Opener) -> None:
    given = view()
    ladder, off, clock = observers.ladder(), observers.off_cpu(), observers.wall_clock()
    assert ladder.device is not None
    threads = [replace(one, comm=EVIL) for one in off.threads]
    rows = [replace(one, category=EVIL) for one in clock.rows]
    stacks = by_state(
        [OffStack(1, EVIL, "io", (EVIL, *(name.decode(errors="replace") for name in NAMES)), 5, 1)], set()
    )
    given.observed = observers.observed(
        stacks,
        LADDER=replace(ladder, notes=[EVIL], device=replace(ladder.device, name=EVIL)),
        IO_LATENCY=replace(observers.io_latency(), how=EVIL, device=Device(1, 1, EVIL)),
        OFF_CPU=replace(off, threads=threads),
        WALL_CLOCK=replace(clock, rows=rows),
        LOCKS=observers.locks(EVIL),
    )
    text = render_report([given])
    for plot in re.findall(r'<svg class="plot.*?</svg>', text, re.DOTALL):
        ElementTree.fromstring(plot)
    assert "\x00" not in text and "\u202e" not in text
    page = chromium_page.html(text)
    page.locator("[data-graph=off]").click()
    page.locator(".flame:visible canvas").hover(position={"x": 200, "y": 60})
    for one in page.locator(".segment").all():
        one.hover(force=True)
    assert page.evaluate("window.pwned") is None
    assert page.locator("img, iframe").count() == 0
    assert printable(EVIL) in page.locator(".places .name").first.inner_text()


def test_print_shows_plots_and_tables(chromium_page: Opener) -> None:
    page = page_of(chromium_page)
    page.emulate_media(media="print")
    assert not page.locator(".turns, .choices").first.is_visible()
    assert page.locator("[data-heat]").first.is_visible() and page.locator("rect[data-stage]").first.is_visible()
    for plot in page.locator(".wide svg:visible").all():
        box = plot.bounding_box()
        assert box is not None and box["x"] + box["width"] <= 1280
