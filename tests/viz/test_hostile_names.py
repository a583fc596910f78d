"""Names come from binaries that anyone may have built: whatever they hold is text, in a drawing and on a page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page

from ground.results.checks import Check, Verdict
from ground.results.database_facts import DatabaseFacts
from ground.results.io_latency import Device
from ground.results.off_cpu import OffStack
from tests.viz import observers
from tests.viz.categorised import read_categorised
from tests.viz.conftest import Opener, saved_by
from tests.viz.runs import view
from viz.flame.stacks import Stack, read_folded
from viz.page.report import render_report
from viz.page.run_view import RunView, by_state
from viz.printable import printable
from viz.svg.flame_graph import FlamegraphOptions, flamegraph

NAMES = (
    b"<script>window.pwned=1</script>",
    b"</script><script>window.pwned=2</script>",
    b"</title></g></svg><svg onload='window.pwned=3'>",
    b'"><img src=x onerror=window.pwned=4>',
    b"]]><script>window.pwned=5</script><![CDATA[",
    b"<!-- --> <?xml?> <!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]> &e; &amp; &#0;",
    b"'\"`${window.pwned=6}\\u003c\\",
    b"javascript:window.pwned=7",
    b"control \x01\x02\x08\x0b\x1b[31m\x7f",
    b"nul \x00 inside",
    b"invalid \xff\xfe \xed\xa0\x80 \xc0\xaf \xf8",
    "right to left \u202e\u2067\u200f \u05d0\u05d1".encode(),
    "forbidden in XML \ufffe\uffff, astral \U0001f525::\U0001f600::x".encode(),
    "line \u2028 and paragraph \u2029".encode(),
    b"tab\tinside",
    b"",
    b"__proto__",
    b"constructor",
    b"long" * 2500,
)
EVIL = NAMES[1].decode() + NAMES[3].decode() + "\x00\u202e]]>"
DEEP = read_folded([b"c;" + b";".join(b"recursive<%d>" % i for i in range(5000)) + b" 7", b"c;other 3"])


def drawing() -> str:
    lines = [b"category\t1\t1\t%d\tcomm;%s;inner" % (1000 + i, name) for i, name in enumerate(NAMES)]
    lines.append(b"<b>&\"'\x01\t1\t1\t1000\tcomm;plain")
    given = FlamegraphOptions(
        NAMES[0].decode(),
        unit="<&>\"'",
        subtitle=NAMES[4].decode() + "\x00",
        warnings=[NAMES[1].decode(), NAMES[3].decode()],
        categories=[("category", NAMES[2].decode()), ("other", "\x1b&")],
        us_per_query=1.0,
    )
    return flamegraph(read_categorised(lines), given)


def report() -> str:
    lines = [b"bloom\t1\t1\t%d\tcomm;%s;inner" % (1000 + i, name) for i, name in enumerate(NAMES)]
    some = [
        replace(
            stack,
            objects=(printable(EVIL), *(printable(NAMES[2]) for _ in stack.frames[1:])),
            thread=printable(f"{EVIL}/{index % 3}"),
        )
        for index, stack in enumerate(read_categorised(lines))
    ]
    told: dict[str, Any] = {"workload": EVIL, "tools": {"engine": EVIL}, "missing": [EVIL]}
    checks = [Check(EVIL, Verdict.FAILED, EVIL, EVIL, EVIL)]
    given = view(some, EVIL, database=DatabaseFacts(description=EVIL), checks=checks, **told)
    given.notes.append(EVIL)
    ladder, off, clock = observers.ladder(), observers.off_cpu(), observers.wall_clock()
    assert ladder.device is not None
    frames = (EVIL, *(name.decode(errors="replace") for name in NAMES))
    given.observed = observers.observed(
        by_state([OffStack(1, EVIL, "io", frames, 5, 1)], set()),
        LADDER=replace(ladder, notes=[EVIL], device=replace(ladder.device, name=EVIL)),
        IO_LATENCY=replace(observers.io_latency(), how=EVIL, device=Device(1, 1, EVIL)),
        OFF_CPU=replace(off, threads=[replace(one, comm=EVIL) for one in off.threads]),
        WALL_CLOCK=replace(clock, rows=[replace(one, category=EVIL) for one in clock.rows]),
        LOCKS=observers.locks(EVIL),
    )
    return render_report([given])


def test_a_drawing_is_xml_with_our_two_scripts_alone() -> None:
    tags = [one.tag.rpartition("}")[2] for one in ElementTree.fromstring(drawing().encode()).iter()]
    assert tags.count("script") == 2 and tags.count("svg") == 1 and not {"img", "iframe", "b"} & set(tags)


def test_names_make_no_elements_on_a_page_and_its_plots_are_xml() -> None:
    page = report()
    assert page.count("<script") == 5 and not re.search("<(img|b2|iframe|link)", page)
    assert "\x00" not in page and "\u202e" not in page
    plots = re.findall(r'<svg class="(plot|share-bar)(.*?</svg>)', page, re.DOTALL)
    assert [kind for kind, _ in plots].count("plot") > 5 and len(plots) > 9
    for kind, plot in plots:
        ElementTree.fromstring(f'<svg class="{kind}{plot}')
    found = re.search(r'<script type="application/json" class="profile">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    names = json.loads(found[1])["profile"]["names"]
    assert {printable(name) or "[no name]" for name in NAMES if b";" not in name} <= set(names)


BIG = 2**60 + 1


def in_browser(test: Any) -> Any:
    return pytest.mark.long(pytest.mark.needs("chromium")(test))


@in_browser
@pytest.mark.parametrize("scripts", [True, False], ids=["live", "static"])
def test_nothing_of_a_drawing_runs_whatever_is_done_with_the_names(chromium_page: Opener, scripts: bool) -> None:
    page = chromium_page(drawing(), scripts=scripts)
    assert page.locator("script").count() == page.locator("img, script, svg svg").count() == 2
    if not scripts:
        return
    assert page.locator("h1").inner_text() == NAMES[0].decode()
    for one in page.locator("g.f").all():
        one.hover()
        card = page.locator(".card").bounding_box()
        assert card is not None and card["x"] >= 0 and card["x"] + card["width"] <= 1280
    page.keyboard.press("/")
    page.keyboard.type("<script>")
    assert page.locator("g.f.match").count() == 3
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert "of view" in page.locator(".found").inner_text()
    page.reload()
    assert page.evaluate("window.pwned") is None
    assert page.locator("img, script, svg svg").count() == 2


@in_browser
def test_nothing_of_a_page_runs_whatever_is_done_with_the_names(chromium_page: Opener) -> None:
    page = chromium_page.html(report(), fragment="#colour=group&threads=split")
    graph = page.locator(".flame:visible")
    for name in ("callees", "callers"):
        graph.locator('[data-part="view"]').select_option(name)
        graph.locator("canvas").focus()
        for key in ("ArrowRight",) * 20 + ("ArrowDown",) * 2:
            page.keyboard.press(key)
        graph.locator("canvas").hover(position={"x": 300, "y": 45})
        tip = graph.locator('[data-part="tip"]').bounding_box()
        assert tip is not None and tip["x"] >= 0 and tip["x"] + tip["width"] <= 1280
    page.keyboard.press("/")
    page.keyboard.type("<script>")
    assert "matched" in graph.locator('[data-part="found"]').inner_text()
    for function in page.locator("button.fn:visible").all()[:20]:
        function.click()
    page.reload()
    opened: list[Page] = []

    def again() -> Page:
        opened.append(chromium_page.html(report(), own=True))
        return opened[-1]

    saved = saved_by(again)
    assert len(saved) >= 4
    for document in saved.values():
        ElementTree.fromstring(document)
    assert [other.evaluate("window.pwned") for other in opened] == [None] * len(opened)
    for one in page.locator(".segment:visible").all():
        one.hover(force=True)
    assert printable(EVIL) in page.locator(".places .name").first.inner_text()
    page.locator("[data-graph=off]").click()
    graph.locator("canvas").hover(position={"x": 200, "y": 60})
    assert page.evaluate("window.pwned") is None
    assert page.locator("img, iframe").count() == 0 and page.locator("script").count() == 5
    attributes = page.locator("*").evaluate_all("all => all.flatMap(e => e.getAttributeNames())")
    assert not [name for name in attributes if name.startswith("on")]


def found_and_zoomed(page: Page, found: str, zoomed: str) -> None:
    """Of the deep stack the last frame but the narrowest is found and shown."""
    page.keyboard.press("/")
    page.keyboard.type("<4999>")
    assert page.locator(found).inner_text().startswith("matched 70.00 % of all")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert page.locator(zoomed).inner_text().startswith("view: recursive<4999>, 70.00 % of all")


@in_browser
def test_a_stack_of_5000_frames(chromium_page: Opener) -> None:
    page = chromium_page(flamegraph(DEEP, FlamegraphOptions("deep")))
    assert page.locator("g.f").count() == 5003
    # The root is in sight at once, and the heading too.
    assert page.locator('g.f[aria-label^="all,"]').bounding_box()["y"] < 900  # type: ignore[index]
    assert page.locator("h1").bounding_box()["y"] >= 0  # type: ignore[index]
    found_and_zoomed(page, ".found", ".zoomed")

    page = chromium_page.html(render_report([RunView("deep", view().record, stacks=DEEP)]))
    found_and_zoomed(page, '[data-part="found"]', '[data-part="status"]')
    assert page.evaluate("document.querySelector('.box').scrollTop") > 80_000
    page.select_option('[data-part="view"]', "callers")
    assert page.evaluate("ioflameRuns[0].graph.boxes.length") == 5003 + 1


@in_browser
def test_a_page_of_an_empty_profile_says_so_and_one_of_huge_weights_tells_every_unit(chromium_page: Opener) -> None:
    page = chromium_page.html(render_report([RunView("empty", view().record)]), own=True)
    assert page.get_by_text("No flame graph: no stack has any weight.").is_visible()
    assert page.get_by_text("This run has no categories.").is_visible()
    page.keyboard.press("Escape")
    page.locator(".theme").click()

    some = [Stack(("c", "f"), BIG, 3, "other", -1), Stack(("c", "g"), 2, 1, "other", -1)]
    page = chromium_page.html(render_report([view(some)]))
    page.locator("canvas").hover(position={"x": 300, "y": 27})
    assert f"({BIG + 2:,} ns)" in page.locator('[data-part="tip"]').inner_text()
    page.select_option('[data-part="view"]', "callers")
    page.locator("canvas").hover(position={"x": 301, "y": 28})
    assert f"({BIG:,} ns)" in page.locator('[data-part="tip"]').inner_text()
