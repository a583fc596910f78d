"""The page as a file, what it may do and says of itself; and for a reader who hears it, or has no mouse."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from ground.text.titles import title_of
from ground.text.toml import tomllib
from tests.places import ROOT
from tests.viz.conftest import Opener
from tests.viz.observers import observed
from tests.viz.runs import FOUND, page_of, view
from tests.viz.samples import CATEGORIES, options, percent, stacks, total
from tests.viz.test_palette import contrast
from viz.page.report import render_report, render_stacks
from viz.svg.flame_graph import flamegraph
from viz.weights import percentages


def test_nothing_in_a_page_or_a_drawing_names_another_place() -> None:
    pages = render_report([view()]), render_report([view(), view(name="b")]), render_stacks(stacks(), "t", "ns")
    for text in (*pages, flamegraph(stacks(), options())):
        others = {"http://www.w3.org/1999/xhtml"} if text not in pages else set()
        assert set(re.findall(r"https?://[^\s\"'<>`]+", text)) == {"http://www.w3.org/2000/svg"} | others  # namespaces
        assert not re.search(r"@import|url\(|\bfetch\(|XMLHttpRequest|\beval\(|\bsrc=|innerHTML|\bhref=\"[^#]", text)
    assert not re.search(r"\bon[a-z]+=\"", "".join(pages))


def test_the_policy_allows_our_scripts_alone() -> None:
    page = render_report([view()])
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    # A browser runs no script of another digest.
    assert policy is not None and policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert page.count("<script>") == policy[1].count("'sha256-") == 2


def test_the_shares_of_a_legend_are_those_of_the_tables() -> None:
    page = render_report([view()])
    weights: dict[str, int] = {name: 0 for name, _ in CATEGORIES}
    for stack in stacks():
        weights[stack.category] += stack.weight
    for name, share in zip(weights, percentages(list(weights.values())), strict=True):
        assert f"{title_of(name)} {share} %</button>" in page
    assert total(stacks()) == sum(weights.values())


def test_the_matrix_adds_up() -> None:
    page = render_report([view()])
    found = re.search(r'<table class="numbers matrix">(.*?)</table>', page, re.DOTALL)
    assert found is not None
    rows = [[float(x) for x in re.findall(r">(\d+\.\d\d)<", row)] for row in found[1].split("<tr>")[2:]]
    for row in rows:
        assert abs(sum(row[:-1]) - row[-1]) < 0.03  # of rounded cells
    assert rows[-1][-1] == 100.0


def test_heat_and_difference_keep_their_text_readable() -> None:
    page = render_report([view()])
    heats = dict(zip(("light", "dark"), re.findall(r"--heat: (#\w{6})", page)[:2], strict=True))
    assert contrast(heats["light"], "#1b1f24") > 4.5
    assert contrast(heats["dark"], "#e8eaed") > 4.5
    for shade in ("#f59632", "#5aa5eb", "#d6d6d6"):  # flame_controls.js, shade(): more, less, the same
        assert contrast(shade, "#111111") > 4.5


def test_an_installed_package_has_every_script_style_and_template() -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    directories = {file.parent for file in ROOT.glob("viz/**/*.py")}
    # setuptools finds a package by this file.
    assert all((directory / "__init__.py").is_file() for directory in directories)
    packed = {
        file
        for package, patterns in setuptools["package-data"].items()
        for pattern in patterns
        for directory in (directories if package == "*" else {ROOT / package.replace(".", "/")})
        for file in directory.glob(pattern)
    }
    files = {file for file in ROOT.glob("viz/**/*") if file.is_file() and "__pycache__" not in file.parts}
    others = {file for file in files if file.suffix != ".py"}
    assert others and others <= packed


# ---- roles, names and order; axe-core itself is asked by hand --------------------------------------------------------
@pytest.mark.long
@pytest.mark.needs("chromium")
def test_what_is_read_aloud_and_that_tab_reaches_every_control(chromium_page: Opener) -> None:
    page = chromium_page.html(render_report([view()]))
    canvas = page.get_by_role("application")
    label = canvas.get_attribute("aria-label")
    assert label is not None and label.startswith("flame graph, view: the whole profile")
    canvas.focus()
    page.keyboard.press("ArrowDown")
    share = percent(total(stacks(), ("db_bench",)), total(stacks()))
    assert page.locator("[aria-live]").inner_text() == f"db_bench, {share} of all, depth 1"
    assert page.get_by_role("button", name="read syscall").count() >= 2
    headings = page.get_by_role("heading", level=2).all_inner_texts()
    assert headings[0] == "The run at a glance" and headings[-1] == "Can it be trusted?" and len(headings) == 7

    controls = "[...document.querySelectorAll('button, input, select, canvas')]"
    nameless = "e => !(e.textContent.trim() || e.ariaLabel || e.title || e.labels?.[0]?.textContent.trim())"
    assert page.evaluate(f"{controls}.filter(e => e.checkVisibility()).filter({nameless}).map(e => e.outerHTML)") == []
    wanted = page.evaluate(f"{controls}.filter(e => e.checkVisibility() && !e.disabled).length")
    seen = set()
    page.locator("body").evaluate("body => { document.activeElement.blur(); body.focus(); }")
    for _ in range(wanted + 60):
        page.keyboard.press("Tab")
        seen.add(page.evaluate(f"{controls}.indexOf(document.activeElement)"))
        if len(seen - {-1}) == wanted:
            break
    assert len(seen - {-1}) == wanted


@pytest.mark.long
@pytest.mark.needs("chromium")
def test_what_can_be_used_has_a_name_and_what_refers_has_a_target(chromium_page: Opener) -> None:
    views = [view(name=f"of {n}", threads=n, observed=observed(), findings=FOUND) for n in (1, 2)]
    page = chromium_page.html(page_of(views))
    assert page.locator("html[lang=en]").count() == page.locator("main").count() == 1
    nameless = "e => !(e.textContent.trim() || e.ariaLabel || e.title || e.getAttribute('aria-labelledby')"
    nameless += " || e.labels?.[0]?.textContent.trim())"
    named = page.locator(":is(a, summary, label, h1, h2, h3, option, [role=img], [role=region], [role=group])")
    assert named.evaluate_all(f"all => all.filter({nameless}).map(e => e.outerHTML)") == []
    ids = page.locator("[id]").evaluate_all("all => all.map(e => e.id)")
    assert len(ids) == len(set(ids)) > 5
    for name in ("aria-labelledby", "aria-describedby", "aria-controls", "for"):
        found = page.locator(f"[{name}]").evaluate_all("(all, name) => all.map(e => e.getAttribute(name))", name)
        assert set(found) <= set(ids)
    links = page.locator("a").evaluate_all("all => all.map(e => e.getAttribute('href'))")
    assert set(links) <= {f"#{one}" for one in ids}
    assert page.locator("th:not([scope=row], [scope=col], [scope=rowgroup])").count() == 0
    # A table that scrolls is reached by the keyboard, and headings skip no level.
    assert page.locator(".scroll").count() > 0 == page.locator(".scroll:not([tabindex='0'])").count()
    levels = page.locator("h1, h2, h3, h4").evaluate_all("all => all.map(e => Number(e.tagName[1]))")
    assert all(below <= above + 1 for above, below in pairwise(levels)) and levels[0] == 1
