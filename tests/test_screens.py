"""The screens in the documentation are those that the code makes of the recorded results today."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.screens import DOCS, RECORDED, SCREENS, SUMMARY, Screen, between, block, summary, unpacked
from tests.places import ROOT


@pytest.mark.parametrize("one", SCREENS, ids=lambda one: one.name)
def test_no_screen_is_stale(one: Screen, tmp_path: Path) -> None:
    printed = block(one.text(unpacked(one.run, tmp_path)))
    shown = between((ROOT / one.page).read_text(encoding="utf-8"), one.name)
    assert shown == printed, f"{one.page}: the screen `{one.name}` is stale; make screens"


def test_the_summary_is_not_stale(tmp_path: Path) -> None:
    assert SUMMARY.read_text(encoding="utf-8") == summary(unpacked("readrandom", tmp_path)), "stale; make screens"


def test_whatever_is_printed_is_a_screen() -> None:
    """A block without a language is what a command prints: between the markers of a screen, or stale one day."""
    for page in (ROOT / "README.md", *DOCS.glob("*.md")):
        text = re.sub(
            r"<!-- (\w+):begin: written by docs/screens.py -->.*?<!-- \1:end -->", "", page.read_text(), flags=re.DOTALL
        )
        opened = re.findall(r"^```(.*)$", text, re.MULTILINE)[::2]
        assert "" not in opened, f"{page.name}: a block is neither a screen of docs/screens.py nor has a language"


def test_what_is_recorded_is_shown() -> None:
    assert {file.name.removesuffix(".tar.xz") for file in RECORDED.iterdir()} == {one.run for one in SCREENS}


def test_the_readme_is_a_page() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 130
