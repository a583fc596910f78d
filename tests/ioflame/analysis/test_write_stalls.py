"""Stalls of a window by their cause, from the log's stalls of the whole run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ground.results.jobs import RunJobs, Stall
from ioflame.analysis.write_stalls import stall_causes
from tests.background_jobs import MS, UNIX, recorded
from tests.viz.observers import write_ladder
from viz.page.writes import writes_panel
from viz.terminal.writes import writes_text

_SECOND = 10**9
_MEMTABLES = "immutable memtables (waiting for flush)"


def with_stalls(*stalls: Stall) -> RunJobs:
    return replace(recorded(), found=replace(recorded().found, stalls=stalls))


def test_stalls_of_a_cause_are_added_up_by_their_part_in_the_window() -> None:
    """Stops of the seconds 3 to 3.25 and 5 to 5.5; a delay from 9 on, of which no end is known."""
    found = stall_causes(recorded(), 3 * _SECOND + 100 * MS, 10 * _SECOND)
    delay, stop = found
    assert (delay.stopped, delay.cause, delay.column_family, delay.times) == (False, "level-0 files", "default", 1)
    assert (stop.stopped, stop.cause, stop.column_family, stop.times) == (True, _MEMTABLES, "default", 2)
    # Unix seconds are known to a microsecond.
    assert (delay.seconds, delay.longest, delay.first) == pytest.approx((1.0, 1.0, 5.9), abs=1e-5)
    assert (stop.seconds, stop.longest, stop.first) == pytest.approx((0.65, 0.5, 0.0), abs=1e-5)
    assert stall_causes(recorded(), 3_251 * MS, 5 * _SECOND) == []


def test_column_families_and_delays_and_stops_are_told_apart() -> None:
    delay = Stall("level-0 files", False, UNIX + 1, UNIX + 2, "default")
    other = replace(delay, column_family="other")
    stop = replace(delay, stopped=True, begin=UNIX + 2, end=UNIX + 4)
    found = stall_causes(with_stalls(delay, other, stop), 0, 10 * _SECOND)
    assert [(one.stopped, one.column_family, round(one.seconds, 3)) for one in found] == [
        (True, "default", 2), (False, "default", 1), (False, "other", 1),
    ]  # fmt: skip


def test_a_stall_without_an_end_lasts_until_the_next_of_its_family_or_the_logs_end() -> None:
    lost = Stall("level-0 files", False, UNIX + 1, None, "default")
    later = Stall(_MEMTABLES, True, UNIX + 3, None, "default")
    found = stall_causes(with_stalls(lost, later), 0, 20 * _SECOND)
    assert [(one.cause, round(one.seconds, 3)) for one in found] == [(_MEMTABLES, 11), ("level-0 files", 2)]


def test_page_and_terminal_name_the_cause() -> None:
    causes = stall_causes(recorded(), 2 * _SECOND, 10 * _SECOND)
    text, page = writes_text(write_ladder(), causes), str(writes_panel(write_ladder(), causes))
    for words in ("Stalls of this window, by the engine's log", _MEMTABLES, "750.0", "500.0", "1.00"):
        assert words in text and words.replace("'", "&#39;") in page.replace("&#x27;", "&#39;")
    assert "by the engine's log" not in writes_text(write_ladder())
