"""Plots of svg/: what is drawn is as long, and lies where, the figures say; what cannot be drawn is a word."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest

from ground.results.interval import Interval
from ground.results.states import STATES
from tests.viz import observers
from tests.viz.markup import drawn, text_of, titles
from viz.figures import CannotBeError, interval_text
from viz.interval_bars import Change, Scale
from viz.svg.axes import nice_step
from viz.svg.bars import Bar, bars_plot
from viz.svg.blocks import Dot, blocks_plot
from viz.svg.elements import element, label, plot
from viz.svg.history import VersionDot, category_bars, history_plot
from viz.svg.ratios import Ratio, ratios_plot
from viz.svg.share_bar import share_bar
from viz.svg.thread_states import ON_CPU, thread_groups, thread_states
from viz.tables.off_cpu import left_out, schedstat_is_above, states_of_working

HOSTILE = '<script>"&\x07'


def number(text: str | None) -> float:
    assert text is not None
    return float(text)


def test_what_stands_in_an_element_is_escaped_and_what_cannot_be_shown_is_replaced() -> None:
    made = element("text", HOSTILE, data_name=HOSTILE, class_="a")
    assert made == ('<text data-name="&lt;script&gt;&#34;&amp;\ufffd" class="a">&lt;script&gt;&#34;&amp;\ufffd</text>')
    assert label("a", 1.0, 2.345) == '<text class="label" x="1" y="2.35">a</text>'
    assert 'data-ns="[1,2]"' in plot(10, 10, "words", ns=[1, 2]) and 'aria-label="words"' in plot(10, 10, "words")


def test_bars_are_as_long_as_their_values_and_whiskers_end_where_intervals_do() -> None:
    bars = [Bar("one", 100.0, 90.0, 110.0), Bar("half", 50.0), Bar("published", 50.0, published=100.0)]
    made = bars_plot(bars, "words", 1)
    one, half, other = drawn(made, "rect", "segment")
    wide, begin = number(one.get("width")), number(one.get("x"))
    assert number(half.get("width")) == number(other.get("width")) == pytest.approx(wide / 2, abs=0.02)
    (whisker,) = drawn(made, "path", "whisker")
    low, high = re.findall(r"M([\d.]+) [\d.]+v8", whisker.get("d") or "")
    assert [float(low) - begin, float(high) - begin] == pytest.approx([0.9 * wide, 1.1 * wide], abs=0.1)
    (mark,) = drawn(made, "path", "over")
    assert number((mark.get("d") or "").split()[0][1:]) == pytest.approx(begin + wide, abs=0.1)
    # One that cannot be drawn is a word.
    made = bars_plot([Bar("gone", None), Bar("endless", math.inf), Bar("x" * 40, 1.0)], "words", 0)
    assert len(drawn(made, "rect", "segment")) == 1
    assert "not measured" in text_of(made) and "inf" in text_of(made) and "x" * 23 + "\u2026" in text_of(made)


def test_a_bar_that_would_leave_the_others_no_length_is_cut_and_says_so() -> None:
    values = [2.0, 4.0, 3.0, 806.9]
    made = bars_plot([Bar(str(value), value) for value in values], "words", 1)
    *others, huge = [number(bar.get("width")) for bar in drawn(made, "rect", "segment")]
    assert others[0] == pytest.approx(others[1] / 2, abs=0.1) and huge > others[1] > huge / 2
    assert len(drawn(made, "path", "cut")) == 1 and text_of(made).count("806.9 (cut)") == 1
    whole = bars_plot([Bar("a", 2.0), Bar("b", 18.0), Bar("c", 3.0)], "words", 1)
    assert not drawn(whole, "path", "cut") and "cut" not in text_of(whole)


def test_windows_of_blocks_lie_by_time_and_by_place() -> None:
    dots = [Dot("A", 1, 0, 0, 1.0), Dot("B", 1, 0, 1, 1.1), Dot("B", 2, 1, 0, 1 / 1.1), Dot("A", 2, 1, 1, 1.0)]
    made = blocks_plot(dots, ["A", "B"], "qps")
    a, b = drawn(made, "circle", "h0"), drawn(made, "circle", "h1")
    assert len(a) == len(b) == 4  # each twice: by time, and by place
    # Ratios and their inverses are as far from the base.
    base = number(a[0].get("cy"))
    above, _, below, _ = (number(one.get("cy")) for one in b)
    assert above < base < below and base - above == pytest.approx(below - base, abs=0.02)
    # One line where the second session begins.
    (line,) = drawn(made, "line", "mark")
    by_time = sorted(number(one.get("cx")) for one in [*a, *b] if number(one.get("cx")) < 700)
    assert by_time[1] < number(line.get("x1")) < by_time[2]
    assert "B: +10.00 %, block 1, place 2" in titles(made)


def version(name: str, value: float, level: float) -> VersionDot:
    return VersionDot(name, value, value * 0.99, value * 1.01, level, f"{name} is {value}")


def test_a_version_on_its_level_is_on_the_line_and_a_step_is_seen() -> None:
    made = history_plot([version("1.0", 100, 100), version("1.1", 101, 100), version("2.0", 120, 120)], "words", 0.02)
    first, second, third = (number(one.get("cy")) for one in drawn(made, "circle", "segment"))
    (line,) = drawn(made, "path", "line")
    levels = [float(y) for y in re.findall(r"M[\d.]+ ([\d.]+)H", line.get("d") or "")]
    assert levels == pytest.approx([first, first, third], abs=0.1) and third < second < first
    (band,) = drawn(made, "rect", "window")
    # 2 % on either side: as wide as 4 of the 20 between the levels.
    assert number(band.get("height")) == pytest.approx((first - third) / 5, abs=0.1)
    assert titles(made) == ["1.0 is 100", "1.1 is 101", "2.0 is 120"]


def test_categories_are_stacked_and_as_high_as_their_costs() -> None:
    made = category_bars([("1.0", {"a": 2.0, "b": 1.0}), ("1.1", {"a": 4.0})], ["a", "b"], "words")
    a, b, grown = drawn(made, "rect", "segment")
    high = number(a.get("height"))
    assert [number(b.get("height")), number(grown.get("height"))] == pytest.approx([high / 2, 2 * high], abs=0.03)
    assert number(b.get("y")) + number(b.get("height")) == pytest.approx(number(a.get("y")), abs=0.03)
    assert titles(made)[0] == "1.0\na: 2.00 us per query"


def test_a_version_that_a_test_was_not_run_with_is_a_gap_in_its_line() -> None:
    line = {"1": Ratio(1.0), "2": Ratio(1.1, 1.05, 1.15), "4": Ratio(0.9)}
    made = ratios_plot({"get": line}, ["1", "2", "3", "4"], "words")
    traces = [one.get("d") or "" for one in drawn(made, "path", "trace") if "V" not in (one.get("d") or "")]
    assert [trace.count("L") + 1 for trace in traces] == [2, 1]
    dots = [number(one.get("cy")) for one in drawn(made, "circle", "segment")]
    (base,) = drawn(made, "line", "mark")
    assert dots[0] == number(base.get("y1")) and dots[1] < dots[0] < dots[2]
    assert titles(made) == ["get, 1: 1.000", "get, 2: 1.100 [1.050, 1.150]", "get, 4: 0.900"]
    # An interval far wider than the ratios differ is cut at the edge.
    made = ratios_plot({"get": {"1": Ratio(1.0), "2": Ratio(1.02, 0.1, 9.0)}}, ["1", "2"], "words")
    (band,) = drawn(made, "path", "band")
    ends = [float(y) for y in re.findall(r" ([\d.]+)", band.get("d") or "")]
    assert min(ends) == 14 and max(ends) == 330 - 46


def test_what_was_published_is_a_mark_at_its_ratio_in_the_colour_of_its_line() -> None:
    lines = {"get": {"1": Ratio(1.0), "2": Ratio(1.1)}, "put": {"1": Ratio(1.0), "2": Ratio(0.9)}}
    made = ratios_plot(lines, ["1", "2"], "words", {"put": {"2": 1.5}})
    (mark,) = [one for one in drawn(made, "path", "trace") if "Z" in (one.get("d") or "")]
    assert (mark.get("class") or "").split() == ["trace", "h1"] and "put, 2: 1.50 published" in titles(made)
    dots = {title: number(one.get("cy")) for title, one in zip(
        [title for title in titles(made) if "published" not in title], drawn(made, "circle", "segment"), strict=True
    )}  # fmt: skip
    # The scale reaches to it: half a ratio above the base, five times as far as the dot of 1.1.
    middle = number((mark.get("d") or "").split()[1].partition("l")[0]) + 6
    base, higher = dots["get, 1: 1.000"], dots["get, 2: 1.100"]
    assert base - middle == pytest.approx(5 * (base - higher), abs=0.5)


def test_a_share_takes_its_part_of_the_cell_and_its_interval_is_around_it() -> None:
    made = share_bar(0.25, (0.2, 0.3), 0.5, "h3")
    wide = number(re.findall(r'width="([\d.]+)"', made)[0])
    low, high = (float(x) for x in re.findall(r"M([\d.]+) 4v8", made))
    assert 'class="h3"' in made and wide == 996 / 2 and low < wide + 2 < high
    assert "whisker" not in share_bar(0.25, None, 0.5, "h3")
    assert 'width="0"' in share_bar(0.0, None, 0.0, "h3")


def test_an_interval_lies_where_it_is_to_zero_and_the_threshold_and_says_that_it_goes_on() -> None:
    scale = Scale(10.0, 2.0)
    made = scale.svg(Change(-20.0, 5.0, 8.0), "bad")
    below, above = (float(x) for x in re.findall(r"M([\d.]+) 0v16", re.findall(r'class="delta" d="([^"]+)"', made)[0]))
    (at,) = (float(x) for x in re.findall(r'class="change bad" x="([\d.]+)"', made))
    low, high = (float(x) for x in re.findall(r"M([\d.]+) 8H([\d.]+)", made)[0])
    assert 500 - below == above - 500 == pytest.approx(480 / 5) and at + 12 == pytest.approx(500 + 480 / 2)
    # An end within the scale has a cap, one beyond it an arrow.
    assert low == 20 and high == 500 + 480 * 0.8 and made.count("4v8") == 1 and made.count("L4 8L") == 1
    assert "delta" not in Scale(10.0).svg(Change(-1.0, 0.0, 1.0)) and scale.svg(None) == ""


def test_a_group_of_threads_is_as_long_as_the_time_of_its_threads_by_state() -> None:
    groups = thread_groups(observers.off_cpu().threads)
    assert [(group.name, group.threads) for group in groups] == [("db_bench", 2), ("rocksdb:low, idle", 1)]
    assert groups[0].ns == {ON_CPU: 500_000_000, "io": 1_300_000_000, "woken": 200_000_000}
    made = thread_states(groups)
    shares = dict(re.findall(r"^(.+:) ([\d.]+) %", "\n".join(titles(made)), re.MULTILINE)[:3])
    assert shares == {"on-CPU:": "25.00", "io:": "65.00", "run-queue wait:": "10.00"}
    widths = [number(one.get("width")) for one in drawn(made, "rect", "segment")]
    assert sum(widths[:3]) == pytest.approx(widths[3], abs=0.05) and widths[1] == pytest.approx(0.65 * widths[3], 1e-3)


def test_states_of_those_that_work_leave_the_idle_out_unless_all_are() -> None:
    off = observers.off_cpu()
    states, working, idle = states_of_working(off)
    assert [thread.tid for thread in working] == [1, 2] and [thread.tid for thread in idle] == [3]
    found = {one.state: (one.ns, one.count) for one in states}
    # An idle thread has all of the conditions, so how many stretches are of the others is not known.
    assert found == {"io": (1_300_000_000, 13_000), "woken": (200_000_000, 13_000), "condition": (0, None)}
    assert [one.state for one in states] == [state for state in STATES if state in found]
    _, working, left = states_of_working(replace(off, threads=list(idle)))
    assert (working, left) == (idle, [])


def test_figures_have_their_words() -> None:
    clock = observers.wall_clock()
    assert not schedstat_is_above(clock)
    assert schedstat_is_above(replace(clock, cpu_ns=round(1.02 * clock.ran_ns)))
    assert interval_text("{:.1f} us", Interval(2, 1.04, 3.06, 9), " to ") == "1.0 to 3.1"
    assert left_out(1, 1_500_000_000) == "left out: 1 idle thread (next to nothing to do; 1.500 s)"
    assert left_out(2, 0, "background", "why") == "left out: 2 background threads (why; 0.000 s)"
    with pytest.raises(CannotBeError):
        nice_step(math.inf)


def test_many_lines_with_intervals_have_a_panel_each() -> None:
    names = ["get", "put", "scan", "delete"]
    lines = {name: {"1": Ratio(1.0), "2": Ratio(1.1 + 0.1 * n, 1.0, 1.3)} for n, name in enumerate(names)}
    made = ratios_plot(lines, ["1", "2"], "words", {"scan": {"2": 1.2}})
    bases = [(number(one.get("x1")), number(one.get("y1"))) for one in drawn(made, "line", "mark")]
    assert len(set(bases)) == len(names)
    # Each in the colour that the legend gives it, within its own panel.
    for hue, (left, _) in enumerate(bases):
        (band,) = [
            one for one in drawn(made, "path", "band") if (one.get("class") or "").split() == ["band", f"h{hue}"]
        ]
        xs = [float(x) for x in re.findall(r"[ML]([\d.]+) ", band.get("d") or "")]
        assert left < min(xs) < max(xs) < left + 1000 / 3
    assert [title for title in titles(made) if "published" in title] == ["scan, 2: 1.20 published"]
    # Three of them share one, as lines without intervals do.
    three = ratios_plot({name: lines[name] for name in names[:3]}, ["1", "2"], "words")
    assert len(drawn(three, "line", "mark")) == 1
