"""The page as a file: what it may do, and what it says of itself."""

from __future__ import annotations

import base64
import hashlib
import re

from ground.text.toml import tomllib
from tests.places import ROOT
from tests.viz.runs import view
from tests.viz.samples import stacks, total
from tests.viz.test_palette import contrast
from viz.page.report import render_report, render_stacks
from viz.weights import percentages


def test_nothing_in_the_page_names_another_place() -> None:
    for page in (render_report([view()]), render_report([view(), view(name="b")]), render_stacks(stacks(), "t", "ns")):
        assert set(re.findall(r"https?://[^\s\"'<>`]+", page)) == {"http://www.w3.org/2000/svg"}  # a namespace
        assert not re.search(r"@import|url\(|\bfetch\(|XMLHttpRequest|\beval\(|\bsrc=|innerHTML|\bon[a-z]+=\"", page)


def test_the_policy_allows_our_scripts_alone() -> None:
    page = render_report([view()])
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None and policy[1].startswith("default-src 'none'; script-src 'sha256-")
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 2
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy[1]


def test_a_share_is_printed_alike_wherever_it_stands() -> None:
    page = render_report([view()])
    weights: dict[str, int] = {}
    for stack in stacks():
        weights[stack.category] = weights.get(stack.category, 0) + stack.weight
    names = ["libc+k", "checksm", "bloom", "LRU", "other"]
    for name, share in zip(names, percentages([weights.get(name, 0) for name in names]), strict=True):
        assert f"{name} {share} %</button>" in page  # the legend
        row = re.search(rf"{re.escape(name)}</button></th>\n<td class=\"share\">.*?<span>([^<]*)</span>", page)
        if weights.get(name):
            assert row is not None and row[1] == share  # the table
        else:
            assert row is None and f"Without weight: {name}." in page
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
