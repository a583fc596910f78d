"""Ladder, IO latency, off-CPU, run queue and locks on the page: their figures are those of the run's files."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.results.histogram import Histogram
from ground.results.ladder import PLACES, STAGES, Ladder, LadderDevice
from ground.text.titles import title_of
from tests.tails import tail
from tests.viz import observers
from tests.viz.markup import rows_of
from tests.viz.observers import QUERIES
from tests.viz.runs import page_of, view
from tests.viz.samples import stacks
from viz.page.flame_graphs import graphs
from viz.page.ladder import ladder_panel
from viz.page.off_cpu import off_panel
from viz.page.report import render_report
from viz.page.run_view import IDLE, Observed, RunView
from viz.page.waits import waits
from viz.svg.axes import duration, linear_axis, log_axis
from viz.svg.heat_map import columns, heat_map
from viz.svg.histogram import Named, bins, histogram
from viz.svg.ladder import KINDS, LadderRow, kind_of, ladder_plot
from viz.tables.ladder import ladder_section
from viz.tables.tail import first_sentence as slow_sentence
from viz.tables.writes import first_sentence as write_sentence
from viz.terminal.table import section_text


def full(name: str = "run-a", scale: float = 1.0) -> RunView:
    return view(name=name, observed=observers.observed(LADDER=observers.ladder(scale)))


def known(**results: object) -> Observed:
    """These results alone, and the panels that are named below: those of a new instrument are not asked for here."""
    found = observers.only(**results)
    named = ("ladder", "iolat", "offcpu", "runqlat", "pmp")
    found.panels = [panel for panel in found.panels if panel.collector in named]
    return found


def finding(ladder: Ladder) -> str:
    """What is said of the time that is in no figure of the device, as text."""
    words = re.search(r'<p class="finding">(.*?)</p>', ladder_panel(ladder, None), re.DOTALL)
    assert words is not None
    return " ".join(re.sub(r"<[^>]*>", "", html.unescape(words[1])).split())


def test_what_is_missing_is_named_with_the_command() -> None:
    told = waits(known(), {})
    assert told.startswith(
        '<p class="absent">Not shown: Latency ladder, IO latency, Off the CPU, Run-queue waits, Locks.'
    )
    assert "ioflame profile --collect &quot;perf ladder iolat offcpu runqlat pmp&quot;" in told
    assert "<svg" not in told and "<table" not in told
    told = waits(known(LADDER=observers.ladder(), LOCKS=observers.locks()), {})
    assert (
        "Not shown: IO latency, Off the CPU, Run-queue waits." in told
        and "&quot;perf iolat offcpu runqlat&quot;" in told
    )
    # The write path only where something writes.
    given = observers.only()
    given.panels = [panel for panel in given.panels if panel.collector in ("ladder", "writes")]
    assert "Not shown: Latency ladder, Write path." in waits(given, {}, writing=True)
    assert "Not shown: Latency ladder." in waits(given, {}, writing=False)


def test_the_ladders_segments_are_as_long_as_its_stages() -> None:
    plot = ladder_plot([LadderRow("", observers.ladder(), 104.0)])
    widths = {
        name: float(width)
        for name, width in re.findall(r'data-stage="([^"]+)" x="[\d.]+" y="[\d.]+" width="([\d.]+)"', plot)
    }
    per_us = widths["device"] / observers.STAGE_US["device"]
    assert list(widths) == [title_of(name) for name in STAGES]
    for name, us in observers.STAGE_US.items():
        assert widths[title_of(name)] == pytest.approx(us * per_us, abs=0.02)
    device = re.search(r'bracket m-device" d="M([\d.]+) [\d.]+v8M[\d.]+ [\d.]+H([\d.]+)', plot)
    assert device is not None
    assert float(device[2]) - float(device[1]) == pytest.approx(observers.IO_LAT_US * per_us, abs=0.2)


@pytest.mark.parametrize(("await_us", "cut"), [(65, False), (150, False), (5000, True)])
def test_the_mark_of_the_device_stays_on_the_axis_when_others_read_too(await_us: int, cut: bool) -> None:
    device = LadderDevice(254, 0, "vda", QUERIES, QUERIES, await_us)
    plot = ladder_plot([LadderRow("", replace(observers.ladder(), device=device), 104.0)])
    mark = re.search(
        r'bracket m-device" d="M([\d.]+) [\d.]+v8M[\d.]+ [\d.]+H([\d.]+)M[\d.]+ [\d.]+(v8|l6 4l-6 4)"', plot
    )
    assert mark is not None and float(mark[2]) <= 1000 - 60
    assert (mark[3] != "v8") == cut and f"disk latency of vda: {await_us}.00" in plot.replace(",", "")
    queue = re.search(r'data-stage="queue" x="([\d.]+)"', plot)
    assert queue is not None and float(mark[1]) == pytest.approx(float(queue[1]), abs=0.1)
    if not cut:
        width = re.search(r'data-stage="device" x="[\d.]+" y="[\d.]+" width="([\d.]+)"', plot)
        assert width is not None
        per_us = float(width[1]) / observers.STAGE_US["device"]
        assert float(mark[2]) - float(mark[1]) == pytest.approx(await_us * per_us, abs=0.2)


def test_the_gap_is_named_with_its_largest_part_and_with_reads_of_others() -> None:
    def told(device: LadderDevice | None) -> str:
        return finding(replace(observers.ladder(), device=device))

    known = told(LadderDevice(254, 0, "vda", QUERIES, 8 * QUERIES, 8 * 65))
    taken = (
        "takes 100.00 us, of which block layer and device take 60.00 us (disk latency of vda, by diskstats: 65.00 us)"
    )
    assert taken in known and "The other 40.00 us, 40 % of the query" in known
    assert "The largest part of them is run-queue wait, 14.00 us (35 %)" in known
    others = LadderDevice(254, 0, "vda", QUERIES, 8 * QUERIES + 500, 8 * 65)
    assert "with 500 reads of others in it" in told(others)
    assert "The other 40.00 us" in told(None) and "diskstats" not in told(None)


def test_the_stages_of_the_table_add_up_and_two_ladders_are_side_by_side() -> None:
    rows = rows_of(render_report([full()]), "Stages of a query")
    named = {row[0]: row for row in rows[1:]}
    assert list(named) == [*map(title_of, STAGES), "total"]
    assert sum(float(named[title_of(name)][1]) for name in STAGES) == pytest.approx(float(named["total"][1])) == 100
    assert sum(float(named[title_of(name)][7]) for name in STAGES) == pytest.approx(100)
    assert all(kind_of(name) in KINDS for name in STAGES) and kind_of("runq") == "wait"
    page = page_of([full("base"), full("slow", 2.0)])
    both = {row[0]: row[1:] for row in rows_of(page, "Latency by stage, average")}
    assert both["stage, us"] == ["base (base)", "slow", "\u0394"]
    assert both["device"] == ["58.00", "116.00", "+58.00"]
    assert both["the whole query"] == ["100.00", "200.00", "+100.00"]
    assert "Latency ladders" not in page_of([full("base"), view(name="none")])


def test_a_page_says_a_thing_once_and_with_the_number_of_its_samples() -> None:
    page = render_report([full()])
    titles = re.findall(r"<figcaption><span>([^<]*)</span>", page)
    assert len(titles) == len(set(titles)) and "Stages of a query" in titles and "Latency of requests" in titles
    for sentence in (slow_sentence(tail()), write_sentence(observers.write_ladder())):
        assert page.count(html.escape(sentence)) == 1
    pmp = observers.pmp()
    assert f"{pmp.samples:,} samples of {len(pmp.threads)} threads" in page
    heads, *rows = rows_of(page, "Latency of requests")
    reads = next(row for row in rows if row[:3] == ["read", "process", "total"])
    assert reads[heads.index("sum, ms")] == f"{observers.io_latency().row('read', 'process').total.sum_ns / 1e6:,.3f}"


def test_the_cost_of_no_sample_of_other_has_an_interval() -> None:
    page = render_report([view([stack for stack in stacks() if stack.category != "other"])])
    heads, *rows = rows_of(page, "CPU by category")
    other = next(row for row in rows if row[0] == "other")
    cost = heads.index("us/query")
    assert other[cost] == "0.000" and re.fullmatch(r"0\.000\D+0\.\d*[1-9]", other[cost + 1])


@pytest.mark.parametrize("stages", [True, False])
def test_queries_of_several_reads_have_parts_that_add_up(stages: bool) -> None:
    given = observers.of_several(observers.ladder())
    if not stages:
        given = replace(given, stages=[], classes=given.classes[1:])
    page = render_report([view(observed=observers.observed(LADDER=given))])
    rows = rows_of(page, "Parts of a query (several)")
    named = {row[0]: row for row in rows[1:]}
    assert list(named) == [*map(title_of, PLACES), "total"]
    assert sum(float(named[title_of(name)][1]) for name in PLACES) == float(named["total"][1]) == 300.0
    assert named["device"][7] == "66.7"
    text = section_text(ladder_section(given))
    of_probes = re.search(r"^ *of it, the probes +[\d.]+  at least: programs measured, traps estimated$", text, re.M)
    assert (of_probes is not None) is stages
    assert "Latency ladder of MultiGets" in text
    assert "several: n 2,000; 3.00 read calls and 4.00 requests each, of which 1.00 were not waited for." in text
    assert "sum of several" in text and "+0.000 us beside the total" in text
    assert ("there are no stages" in text) is not stages


def test_bins_keep_every_duration_and_a_linear_plot_says_what_lies_beyond() -> None:
    h = Histogram(10, 0, 100, 400, [(100, 200, 4), (200, 400, 6)])
    assert bins(h, [100, 150, 250, 400]) == [2.0, 2 + 1.5, 4.5]
    for found in re.findall(r'data-hist="([^"]*)"', render_report([full()])):
        data = json.loads(html.unescape(found))
        rounded = 0.05 * len(data["counts"])
        least = 0.99 if data["scale"] == "linear" else 1
        assert least * data["n"] - rounded <= sum(data["counts"]) <= data["n"] + rounded
    h = Histogram(1000, 10**8, 1000, 10**7, [(1000, 1024, 998), (9_000_000, 10_000_001, 2)])
    found = observers.only(RUN_QUEUE=replace(observers.run_queue(), waits={"woken": h}))
    assert "the longest 0.5 %, up to 10 ms, lie beyond" in render_report([view(observed=found)])


def test_a_heat_map_has_every_read_of_its_owner() -> None:
    io = observers.io_latency()
    shown = columns(io, "process")
    assert [column.latency.count for column in shown] == [100] * 5
    assert (shown[0].begin, shown[-1].end) == (0.0, 5.0)
    many = [replace(io.slices[0], end_ns=10**9 + place * 10**7) for place in range(1, 501)]
    merged = columns(replace(io, slices=many, start_ns=10**9), "process")
    assert len(merged) <= 120 and sum(column.latency.count for column in merged) == 500 * 100
    assert merged[-1].end == pytest.approx(5.0)
    # A turn follows the one before, however long nothing was watched in between.
    turns = [(10**9, 2 * 10**9), (50 * 10**9, 51 * 10**9)]
    ends = [int(x * 1e9) for x in (1.5, 2.0, 50.5, 51.0)]
    io = replace(io, slices=[replace(io.slices[0], end_ns=end) for end in ends], turns=turns)
    assert [(one.begin, one.end) for one in columns(io, "process")] == [(0.0, 0.5), (0.5, 1.0), (1.0, 1.5), (1.5, 2.0)]
    # All requests of the last column in one bucket: both percentiles end at the same height, their names apart.
    near = Histogram(100, 10**7, 10**5, 10**5 + 10, [(10**5, 10**5 + 10, 100)])
    plot = heat_map([*shown[:-1], replace(shown[-1], latency=near)], "window")
    heights = [float(found) for found in re.findall(r'<text class="tick ink" x="[\d.]+" y="([\d.]+)">p\d\d<', plot)]
    assert len(heights) == 2 and heights[0] - heights[1] >= 12


def test_idle_threads_are_named_and_in_no_bar_table_or_graph() -> None:
    page = render_report([full()])
    assert (
        "Left out: 1 idle thread, waiting for work 99 % of the time and rarely running (1 rocksdb:low, idle)." in page
    )
    rows = rows_of(page, "States of the threads that work")
    states = {row[0]: row[1:5] for row in rows}
    assert rows[1][5] == "switch-in to switch-out" and rows[-1][5] == ""
    # Of two threads of a second each; the idle one waited for work.
    assert states["on-CPU"] == ["500.000", "25.00", "-", "-"]
    assert states["io"] == ["1,300.000", "65.00", "13,000", "100.0"]
    assert states["all"] == ["2,000.000", "100.00", "-", "-"] and "condition" not in states
    assert "1.000 s of 1 idle thread are not in this graph" in page and "PMP wall clock" in page
    data = [json.loads(found) for found in re.findall(r'class="profile">(.*?)</script>', page, re.DOTALL)]
    assert [sum(one["profile"]["weight"]) for one in data[1:]] == [1_500_000_000, 10**9]
    assert IDLE not in {name for name, _ in data[1]["profile"]["categories"]}
    assert "No thread was seen" in off_panel(replace(observers.off_cpu(), threads=[]))
    assert "off-CPU" not in graphs(None, Observed(), "t")


def test_axes_end_where_they_should_and_durations_have_three_digits() -> None:
    told = {999.6: "1 us", 0: "0 ns", 12_345: "12.3 us", 2.5e9: "2.5 s", 1e6: "1 ms"}
    assert {ns: duration(ns) for ns in told} == told
    log, linear = log_axis(1000, 10**6, 0, 300), linear_axis(0, 10**6, 0, 100)
    assert log.at(1000) == 0 and log.at(10**6) == pytest.approx(300) and log.at(10**4) == pytest.approx(100)
    assert linear.at(5 * 10**5) == 50 and linear.ticks[-1] == 10**6 and len(linear.ticks) <= 11


@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(2, 10**6)), min_size=1, max_size=9))
def test_names_of_percentiles_are_crossed_by_no_line_and_no_name(values: list[tuple[int, int]]) -> None:
    buckets = sorted({ns * 1000: (ns * 1000, ns * 1000 + ns * 20, count) for ns, count in values}.values())
    apart = [buckets[0]]
    for bucket in buckets[1:]:
        if bucket[0] >= apart[-1][1]:
            apart.append(bucket)
    h = Histogram(sum(n for *_, n in apart), sum(low * n for low, _, n in apart), apart[0][0], apart[-1][1] - 1, apart)
    for scale in ("log", "linear"):
        plot = histogram(Named("a", "b", h), scale, "reads")
        lines = [(float(x), float(y)) for x, y in re.findall(r'class="mark" d="M([\d.]+) (\d+)V', plot)]
        names = [
            (float(x), float(x) + 6.2 * len(words), int(y))
            for x, y, words in re.findall(r'class="tick ink clear" x="([-\d.]+)" y="(\d+)">([^<]*)<', plot)
        ]
        assert names and all(begin >= 0 and end <= 900 for begin, end, _ in names)
        for begin, end, y in names:
            assert not [x for x, top in lines if begin < x < end and top < y]
        for row in {y for *_, y in names}:
            ends = sorted((begin, end) for begin, end, y in names if y == row)
            assert all(end <= begin for (_, end), (begin, _) in pairwise(ends))
