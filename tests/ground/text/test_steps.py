"""What a long run says of its steps."""

from __future__ import annotations

import io
import re

import pytest

from ground.text.progress import Reporter
from ground.text.steps import Steps


def test_a_step_is_found_by_its_name_and_what_was_left_out_is_no_time_any_more() -> None:
    steps = Steps([("load", 100), ("warm-up", 8), ("plain", 5), ("perf", 5), ("plain", 5), ("draw", 300)])
    assert steps.begin("load") and str(steps) == "step 1 of 6, 7 min left"
    # The database was there already, or no warm-up was needed.
    assert steps.begin("plain") and str(steps) == "step 3 of 6, 5 min left"
    assert not steps.begin("warm-up") and not steps.begin("") and steps.place == 3
    assert steps.begin("plain") and steps.place == 5
    # More is known of it than was planned.
    assert steps.begin("draw", 20) and str(steps) == "step 6 of 6, 20 s left"
    steps.expect(0)
    assert str(steps) == "step 6 of 6, 1 s left"


def test_stages_that_are_steps_say_so_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = Reporter()
    with reporter.stage("check the host", 3):
        pass
    reporter.plan([("load", 40), ("rounds", 20)])
    with reporter.stage("load 4 keys", 40, "load") as arrived:
        arrived(0, 200)
        arrived(200, 200)
    with reporter.stage("look at the tree", 1, "levelstats"):
        pass
    with reporter.stage("rounds of perf", step="rounds"):
        pass
    said = [re.sub(r"^\[ *\d+ s\] ", "", line) for line in capsys.readouterr().err.splitlines()]
    assert said == [
        "check the host (about 3 s)",
        "load 4 keys (about 40 s; step 1 of 2, 60 s left)",
        "200 of 200 MB (step 1 of 2, 20 s left)",
        "look at the tree (about 1 s)",
        "rounds of perf (step 2 of 2, 20 s left)",
    ]


def test_what_the_end_replaces_stands_above_the_line_until_then(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stderr", stream := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "4")
    reporter = Reporter(keep=False)
    reporter.plan([("rounds", 20)])
    reporter.show("a table\nof two lines\nand one for which there is no room")
    with reporter.stage("rounds of perf", step="rounds"):
        pass
    shown = stream.getvalue()
    assert "a table" in shown and "of two lines" in shown and "no room" not in shown
    assert "step 1 of 1, 20 s left" in shown
    # All three lines are erased again.
    assert shown.count("\x1b[1A\x1b[2K") >= 3 and not shown.rstrip("\x1b[2K1A").endswith("left")
    reporter.keep_shown()
    kept = stream.getvalue().removeprefix(shown)
    assert kept.splitlines() == ["a table", "of two lines", "and one for which there is no room"]
    reporter.keep_shown()
    assert stream.getvalue() == shown + kept
