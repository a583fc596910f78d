"""Slow queries as text, on a page and as a trace: the figures are those of the file, and no cause is claimed."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.results.tail import WorstRequest
from tests.tails import SECOND, START, tail
from viz.export.chrome_trace import chrome_trace
from viz.figures import CannotBeError
from viz.page.tail import tail_panel
from viz.svg.slow_strip import slow_strip
from viz.tables.tail import first_sentence, group_words, shown_us, tail_section, worst_section
from viz.terminal.table import section_text


def test_the_first_sentence_has_the_largest_part_with_its_interval() -> None:
    assert first_sentence(tail()) == (
        "the slowest 1 % take 4.1 ms more than the median: 3.5 ms [3.3, 3.9] of it the device"
    )
    asked = replace(tail(), threshold=replace(tail().threshold, ns=500_000, quantile=0.992, asked=True))
    assert first_sentence(asked).startswith("queries of 500 us and more (0.8 %) take 4.1 ms more than the median: ")
    rows = [replace(row, gap=None, share=None) for row in tail().rows]
    assert first_sentence(replace(tail(), gap=None, rows=rows)) == "the slowest 1 % take 4.3 ms, the median 200 us"
    small = [replace(row, share=0.05) for row in tail().rows]
    assert first_sentence(replace(tail(), rows=small)).endswith(": no single part of it is significant")


@pytest.mark.parametrize(
    ("us", "words"), [(0.5, "0.5 us"), (812.3, "812 us"), (999.7, "1 ms"), (4312.0, "4.31 ms"), (1.25e6, "1.25 s")]
)
def test_durations_have_three_digits(us: float, words: str) -> None:
    assert shown_us(us) == words


def test_the_text_has_every_row_and_what_limits_it() -> None:
    text = section_text(tail_section(tail()))
    for words in (
        "2 queries had not ended 2.0 s after the window",
        "p99, 812 us and more (95 % interval 801 to 823 us): n 2,400, 4.34 % of the threads' time",
        "p40 to p60, 181 to 219 us: n 401",
        "asleep for a lock that another thread has; 99.5 % of these waits ended by thread 4712",
        "Of the difference 250.00 us are another mix of queries, 3,850.00 us are within",
    ):
        assert words in " ".join(text.split())
    device, _ = [line.split() for line in text.splitlines() if line.strip().startswith("device ")]
    assert device == ["device", "3,600.00", "100.00", "+3,500.00", "+3,300.00", "to", "+3,900.00", "85.4"]
    (whole,) = [line.split() for line in text.splitlines() if line.strip().startswith("all ")]
    assert whole[:4] == ["all", "4,300.00", "200.00", "+4,100.00"]
    rows = [replace(row, gap=None, share=None, waker=None) for row in tail().rows]
    text = section_text(tail_section(replace(tail(), gap=None, mix_us=None, within_us=None, rows=rows)))
    device, *_ = [line.split() for line in text.splitlines() if line.strip().startswith("device ")]
    assert device[1:] == ["3,600.00", "100.00", "-", "-", "-"] and "another mix" not in text


def test_no_cause_is_told_and_hostile_names_stay_text() -> None:
    for words in (section_text(tail_section(tail())), str(tail_panel(tail())), section_text(worst_section(tail()))):
        assert "because" not in words and "caused" not in words
    rows = [replace(tail().rows[0], name="sleep in <script>alert(1)</script>")]
    assert "<script>" not in str(tail_panel(replace(tail(), rows=rows)))
    with pytest.raises(CannotBeError, match="a row of none"):
        tail_panel(replace(tail(), rows=[replace(tail().rows[0], kind="a row of none")]))


def test_the_longest_are_timelines_of_text() -> None:
    lines = section_text(worst_section(tail())).splitlines()
    assert lines[2] == "1. 9 ms, thread 4711, 1.000 s into the window, 1 read call"
    assert lines[3].strip() == "on-CPU 400.00, run-queue wait 100.00, device 8,000.00, lock 500.00"
    assert [line.split(None, 2) for line in lines[4:]] == [
        ["90.0", "8090.0", "request of 8,192 bytes to 254:0"],
        ["100.0", "8100.0", "device in pread64"],
        ["8100.0", "8150.0", "run-queue wait"],
        ["8200.0", "8700.0", "lock in Cache::Lookup, woken by thread 4712"],
        ["8700.0", "8750.0", "run-queue wait"],
    ]
    assert section_text(worst_section(replace(tail(), worst=[]))) == "no query was recorded"


def test_the_page_has_the_sentence_and_a_bar_for_each_group() -> None:
    page = str(tail_panel(tail()))
    assert page.count('class="stacked-bar"') == 2 and "device 83.7 %" in page
    assert first_sentence(tail()) in page and group_words(tail())[1] in page


def test_a_trace_has_tracks_slices_and_arrows() -> None:
    trace = json.loads(chrome_trace(tail().worst, 42, START))
    assert trace["displayTimeUnit"] == "ns"
    events = trace["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert sorted(names.values()) == ["requests of thread 4711", "thread 4711", "thread 4712"]
    slices = [event for event in events if event["ph"] == "X"]
    (query,) = [event for event in slices if event["name"] == "query 1"]
    assert (query["ts"], query["dur"], query["tid"], query["pid"]) == (SECOND / 1e3, 9000.0, 4711, 42)
    assert query["args"]["device, us"] == 8000.0
    for one in slices:
        if one["tid"] == 4711:  # within its query
            assert query["ts"] <= one["ts"] and one["ts"] + one["dur"] <= query["ts"] + query["dur"]
    (request,) = [event for event in slices if event["name"] == "request"]
    assert (request["dur"], names[request["tid"]]) == (8000.0, "requests of thread 4711")
    start, end = (next(event for event in events if event["ph"] == phase) for phase in "sf")
    assert (start["tid"], end["tid"], start["id"]) == (4712, 4711, end["id"]) and start["ts"] == end["ts"]
    assert json.loads(chrome_trace([], 42, START))["traceEvents"][0]["name"] == "process_name"


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 90), st.integers(0, 30), st.integers(0, 9)), max_size=12),
        min_size=1,
        max_size=3,
    )
)
def test_requests_under_way_at_once_have_tracks_of_their_own(of_queries: list[list[tuple[int, int, int]]]) -> None:
    """A slice that begins within another of its track and ends after it is an error to viewers."""
    queries = [
        replace(
            tail().worst[0],
            begin_ns=START + 50 * place,
            requests=[WorstRequest(begun, begun + to, begun + to + more, 4096, "8:0") for begun, to, more in requests],
        )
        for place, requests in enumerate(of_queries)
    ]
    tracks: dict[int, list[tuple[int, int]]] = {}
    events = json.loads(chrome_trace(queries, 42, START))["traceEvents"]
    for event in events:
        if event["ph"] == "X" and event["name"] == "request":
            begin = round(1e3 * event["ts"])
            tracks.setdefault(event["tid"], []).append((begin, begin + round(1e3 * event["dur"])))
    assert sum(map(len, tracks.values())) == sum(map(len, of_queries))
    assert tracks.keys() <= {event["tid"] for event in events if event["name"] == "thread_name"}
    for own in tracks.values():
        own.sort()
        assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(own))
    # No more of them than were under way at once, where each has a length.
    if all(to + more for requests in of_queries for _, to, more in requests):
        edges = [one for own in tracks.values() for begin, end in own for one in ((end, -1), (begin, 1))]
        assert len(tracks) == max(itertools.accumulate((step for _, step in sorted(edges)), initial=0))


def test_the_cpu_and_what_else_was_under_way_have_tables() -> None:
    text = section_text(tail_section(tail()))
    assert "samples within the queries: 412 in slow queries, 903 in median ones." in " ".join(text.split())
    (checksum,) = [line.split() for line in text.splitlines() if "verify block checksums" in line]
    assert checksum[3:] == ["30.00", "10.00", "+20.00", "-1.00", "to", "+41.00"]
    assert "a larger figure is no cause" in text and "while a compaction ran" in text
    (writes,) = [line.split() for line in text.splitlines() if "writes that the device had" in line]
    assert writes[5:] == ["requests", "6.00", "0.50", "+5.50", "+5.00", "to", "+6.00"]
    few = section_text(tail_section(replace(tail(), cpu=[], cpu_samples=(41, 300))))
    assert "not split by category: 41 in slow queries, 300 in median ones, 100 are needed" in few
    assert "not split" not in section_text(tail_section(replace(tail(), cpu=[], cpu_samples=(0, 0), gap=None)))
    many = section_text(tail_section(replace(tail(), cpu=[], gap=None)))
    assert "412 in slow queries, 903 in median ones, slow and median queries are not apart" in many
    busy = section_text(tail_section(replace(tail(), cpu_disturbed=True)))
    assert "903 in median ones; disturbed: durations include what the samples took" in " ".join(busy.split())


def test_the_strip_has_a_dot_for_each_and_the_jobs_below() -> None:
    page = str(tail_panel(tail()))
    assert page.count('class="slow"') == 2 and "The 2 longest of 2,400." in page
    assert "compaction, 6.00 to 9.50 s" in page
    strip = tail().strip
    assert strip is not None
    bare = str(slow_strip(replace(strip, beside=[], jobs=[])))
    assert "besides" not in bare and "2,400 slow queries over 20.0 s" in bare
    (dots,) = [sorted(float(at) for at in re.findall(r'cx="([0-9.]+)"', bare))]
    # 1.5 and 7.25 s of 20 on an axis of 828 px from 62 on.
    assert dots == pytest.approx([62 + 828 * 1.5 / 20, 62 + 828 * 7.25 / 20], abs=0.1)
    assert "Slow queries over the window" not in str(tail_panel(replace(tail(), strip=None)))
