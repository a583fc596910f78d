"""The page for a reader who sees it otherwise: axe-core's rules, in both themes, with a graph and without."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.viz.conftest import NpmPackage, Opener
from tests.viz.observers import observed
from tests.viz.runs import page_of, view
from tests.viz.samples import percent, stacks, total
from viz.page.report import render_report

pytestmark = pytest.mark.needs("chromium")

# axe-core is MPL-2.0: fetched for this test from the npm registry, pinned by digest, and never put into the page.
VERSION = "4.14.1"
SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="


@pytest.fixture(scope="session")
def axe(npm_package: NpmPackage) -> str:
    """The text of axe-core."""
    return (npm_package("axe-core", VERSION, SHA512) / "axe.min.js").read_text(encoding="utf-8")


def findings(page: Any, axe: str) -> list[str]:
    devtools = page.context.new_cdp_session(page)  # beside the page's policy, which lets no script in
    devtools.send("Runtime.evaluate", {"expression": axe})
    asked = {"expression": "axe.run().then(r => JSON.stringify(r.violations))", "awaitPromise": True}
    answer = devtools.send("Runtime.evaluate", asked)
    return [
        f"{v['impact']} {v['id']}: {node['target']} {node['failureSummary']}"
        for v in json.loads(answer["result"]["value"])
        for node in v["nodes"]
        if v["impact"] in ("serious", "critical", "moderate")
    ]


# Two runs have all that one has but the page's shape without them, which is no darker or lighter.
@pytest.mark.parametrize(("runs", "dark"), [(1, False), (2, False), (2, True)])
def test_axe_finds_nothing_serious(chromium_page: Opener, axe: str, runs: int, dark: bool) -> None:
    views = [view(name="a"), view(name="b", threads=2)][:runs]
    page = chromium_page.html(page_of(views), dark=dark)
    assert findings(page, axe) == []
    page.locator("article:visible .keys [data-owner='0']").click()
    page.keyboard.press("/")
    page.keyboard.type("/(/")
    page.locator("article:visible canvas").hover(position={"x": 300, "y": 27})
    assert findings(page, axe) == []


@pytest.mark.parametrize(("width", "dark"), [(400, False), (1280, False), (1280, True)])
def test_axe_finds_nothing_serious_in_what_observers_left(
    chromium_page: Opener, axe: str, width: int, dark: bool
) -> None:
    views = [view(name="a"), view(name="b")]
    for one in views:
        one.observed = observed()
    page = chromium_page.html(page_of(views), dark=dark, width=width)
    page.locator("article:visible [data-graph=off]").click()
    page.locator("article:visible .panel:has([data-stage]) button[data-scale=linear]").click()
    page.locator("article:visible rect[data-stage=device]").hover()
    assert findings(page, axe) == []


def test_axe_is_awake(chromium_page: Opener, axe: str) -> None:
    assert findings(chromium_page.html("<html><body><img src=''><button></button>"), axe) != []


def test_what_is_read_aloud(chromium_page: Opener) -> None:
    page = chromium_page.html(render_report([view()]))
    canvas = page.get_by_role("application")
    label = canvas.get_attribute("aria-label")
    assert label is not None and label.startswith("flame graph, view: the whole profile")
    canvas.focus()
    page.keyboard.press("ArrowDown")
    assert (
        page.locator("[aria-live]").inner_text()
        == f"db_bench, {percent(total(stacks(), ('db_bench',)), total(stacks()))} of all, depth 1"
    )
    assert page.get_by_role("button", name="libc+k").count() >= 2
    headings = page.get_by_role("heading", level=2).all_inner_texts()
    assert headings[0] == "The run at a glance" and headings[-1] == "Can it be trusted?" and len(headings) == 7


def test_every_control_is_reached_by_tab(chromium_page: Opener) -> None:
    page = chromium_page.html(render_report([view()]))
    wanted = page.evaluate(
        "[...document.querySelectorAll('button, input, select, canvas')]"
        ".filter(e => e.checkVisibility() && !e.disabled).length"
    )
    seen = set()
    for _ in range(wanted + 60):
        page.keyboard.press("Tab")
        seen.add(
            page.evaluate(
                "[...document.querySelectorAll('button, input, select, canvas')].indexOf(document.activeElement)"
            )
        )
    assert len(seen - {-1}) == wanted
