"""Colour on a terminal: of what the real tables and lines say, so that a changed line does not lose its own."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ground.results.checks import Check, Verdict, render_checks
from ground.results.differences import Outcome
from ground.results.hues import HUES
from ground.results.record import Unobserved
from ground.text.columns import escaped
from ground.text.titles import title_of
from tests.viz import compared
from tests.viz.experiments import VIEW
from tests.viz.runs import record, view
from tests.viz.test_terminal_tables import cells_record, decision, difference, verdicts
from viz.flame.palette import THEMES
from viz.tables.categories import categories_section
from viz.tables.comparison import decisions_table
from viz.terminal.cells import render_cells
from viz.terminal.colour import painted
from viz.terminal.comparison import comparison_text
from viz.terminal.summary import render_screen
from viz.terminal.table import section_text

RED, GREEN, YELLOW, CYAN = 31, 32, 33, 36


def coloured(text: str) -> list[tuple[str, int]]:
    """What has one of the terminal's own colours, in its order; painted text without colour is the text."""
    made = painted(text, "STANDARD")
    assert re.sub(r"\x1b\[[\d;]*m", "", made) == text
    assert made.count("\x1b[0m") * 2 == made.count("\x1b[")
    return [(words, int(colour)) for colour, words in re.findall(r"\x1b\[(\d+)m([^\x1b]*)\x1b\[0m", made)]


def test_a_check_has_the_colour_of_its_verdict_and_words_have_none() -> None:
    checks = [Check(f"a {one.value} check", one, "warn: it failed  ok", "means", "fix") for one in Verdict]
    colours = {"ok": GREEN, "note": CYAN, "warn": YELLOW, "failed": RED, "blocked": RED}
    assert coloured(render_checks(checks)) == [(one.value, colours[one.value]) for one in Verdict]
    assert coloured(render_checks(checks, 40)) == [(one.value, colours[one.value]) for one in Verdict]


def test_the_screen_of_a_run_colours_what_is_wrong_with_it() -> None:
    lost = [Unobserved("iolat", "no BTF", "another kernel", asked=True)]
    made = record(
        checks=[Check("drift", Verdict.WARN, "9 %"), Check("keys", Verdict.FAILED, "1 of 2")], unobserved=lost
    )
    found = coloured(render_screen(replace(made, missing=["the ladder"]), None, [], ""))
    assert found[0][0].startswith("iolat was asked for") and found[0][1] == YELLOW
    assert found[1] == ("Do not use this run: a check failed", RED) and ("failed", RED) in found
    assert ("Missing from this run:", YELLOW) in found and found[-1] == ("ok", GREEN)
    assert ("warn", YELLOW) in found


def test_a_figure_that_differs_has_colour_and_no_other_has() -> None:
    decisions = {
        "qps": decision("qps", Outcome.REGRESSED, difference(0.9, 0.88, 0.97)),
        "rx.lat": decision("rx.lat", Outcome.IMPROVED, difference(0.96, 0.95, 0.97)),
        "cpuPer": decision("cpuPer", Outcome.SAME, difference(1.001, 0.999, 1.003)),
        "usPer": decision("usPer", Outcome.UNDECIDED, difference(1.01, 0.9, 1.2)),
    }
    wide = section_text([decisions_table("B against A", "A", "B", decisions)], 120)
    bad, good = [("-", RED), ("regressed", RED)], [("+", GREEN), ("\u25cf", GREEN), ("improved", GREEN)]
    assert coloured(wide) == [*bad, *good]
    # The verdict goes below; the mark is there again.
    narrow = coloured(section_text([decisions_table("B against A", "A", "B", decisions)], 80))
    assert sorted(narrow) == sorted([*bad, ("-", RED), *good, ("+", GREEN)])
    assert coloured('  "outcome": "regressed",\n  - a note of two words\n') == []
    told = coloured(comparison_text(compared.record(), verdicts()))
    assert {words for words, _ in told} <= {"-", "\u25cf", "regressed"}
    words = {words for words, _ in coloured(render_cells(cells_record(), VIEW, []))}
    assert words == {"passed", "failed", "Cells that failed", "Checks that failed"}


@pytest.mark.parametrize("width", [100, 110, 160])
def test_a_bar_has_the_colour_of_its_category_on_a_page(width: int) -> None:
    shown = view()
    assert shown.owner is not None
    rows = shown.owner.rows
    text = section_text(categories_section(shown.record, shown.owner), width)
    made = painted(text, "TRUECOLOR")
    of_rows = {
        next(row.name for row in rows if line.startswith(f"  {title_of(row.name)} ")): tuple(map(int, found.groups()))
        for line in made.split("\n")
        if (found := re.search(r"\x1b\[38;2;(\d+);(\d+);(\d+)m[\u2588-\u258f]+\x1b\[0m", line))
    }
    theme = THEMES["dark"]
    expected = {name: theme.colours["other"] if name == "other" else theme.hues[HUES[name]] for name in of_rows}
    assert {name: "#{:02x}{:02x}{:02x}".format(*rgb) for name, rgb in of_rows.items()} == expected
    assert len(of_rows) > 3 or not re.search("[\u2588-\u258f]", text)
    assert "\x1b[38;5;" in painted(text, "EIGHT_BIT") or not of_rows


def test_what_a_name_would_steer_is_spelt_out_before() -> None:
    assert "\x1b[31m" not in painted(escaped("  \x1b[31mwarned"), "STANDARD")
