"""What the first screen of a run says, as text: no browser is needed for it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ground.results.categories import OtherPart, telling_view
from ground.results.interval import Interval
from ground.results.ladder import PARTS, STAGES
from ground.results.metrics import METRICS
from ground.results.record import ObserverCost
from tests.viz.markup import text_of
from tests.viz.observers import ladder, of_several, only, wall_clock
from tests.viz.runs import FOUND, view
from viz.figures import other_words
from viz.page.first_screen import first_screen
from viz.page.report import render_report
from viz.page.run_view import RunView
from viz.svg.stacked_bar import BarPart, stacked_bar


def shown(run: RunView) -> str:
    assert run.owner is not None
    places = {name: f"{name}-0" for name in ("graph", "where", "waits", "time")}
    return first_screen(run, 0, list(range(len(run.owner.rows))), places)


def test_it_says_first_whether_the_run_can_be_used_then_what_weighs_most() -> None:
    run = view()
    run.findings = FOUND
    text = text_of(shown(run))
    places = [text.index(words) for words in ("Usable", FOUND[0].sentence, FOUND[1].sentence, "queries a second")]
    assert places == sorted(places)
    assert "What changes it: another disk" in text
    assert "What changes it" not in text_of(shown(view()))


def test_figures_are_called_what_an_outsider_calls_them_with_the_published_name_once() -> None:
    text = text_of(shown(view()))
    for name in ("qps", "rx.lat", "cpuPer"):
        assert METRICS[name].title and f"{METRICS[name].title} {name}" in " ".join(text.split())
    assert all(one.title for one in METRICS.values() if one.headline)


def test_the_parts_of_the_cpu_add_up_to_it_heaviest_first_and_other_last() -> None:
    run = view()
    found = re.search(r"Where the CPU of one query goes: ([\d.]+) us.*?<ul>(.*?)</ul>", shown(run), re.DOTALL)
    assert found is not None
    values = [float(value) for value in re.findall(r"<b>([\d.]+) us</b>", found[2])]
    assert sum(values) == pytest.approx(float(found[1]), abs=0.06) and float(found[1]) == 20.0
    named = values[:-1]
    assert named == sorted(named, reverse=True)
    assert "<code>other</code>" in found[2].rsplit("<li>", 1)[1]


def test_small_parts_are_one_and_lose_nothing() -> None:
    run = view()
    assert run.owner is not None
    rows = list(run.owner.rows)
    tiny = [replace(rows[0], name=f"tiny{i}", weight=1, share=0.5) for i in range(3)]
    heavy = [replace(row, share=row.share * 0.985) for row in rows]
    run.owner = replace(run.owner, rows=[*heavy[:-1], *tiny, heavy[-1]])
    assert "3 smaller ones: tiny0, tiny1, tiny2" in text_of(shown(run))


def test_other_says_what_it_mostly_is() -> None:
    owner = view().owner
    assert owner is not None and other_words(owner) == ""
    other = owner.rows[-1].weight
    parts = [OtherPart("get", "Get down to the table: DBImpl, keys", other * 3 // 4), OtherPart("x", "", other // 4)]
    told = other_words(replace(owner, other_parts=parts))
    assert told.endswith("is mostly: Get down to the table 75 %, x 25 %")


def test_latency_is_a_bar_by_stage_and_by_state_without_a_ladder() -> None:
    assert [stage for stages in PARTS.values() for stage in stages] == list(STAGES)
    run = view()
    assert "takes:" not in text_of(shown(run))
    run.observed = only(LADDER=ladder())
    text = text_of(shown(run))
    assert "How long a query that reads once takes: " in text and "storage device and its queue" in text
    run.observed = only(LADDER=of_several(ladder()))
    text = text_of(shown(run))
    assert "How long MultiGets of several reads take: 300 us" in text and "on a CPU between two reads" in text
    run.observed = only(WALL_CLOCK=wall_clock())
    text = text_of(shown(run))
    assert "What the time of a query goes to: " in text and "on a CPU" in text


def test_watching_is_told_with_a_figure_only_where_it_cost_something() -> None:
    run = view()
    run.record.costs = [
        ObserverCost("perf", Interval(0.99, 0.97, 1.01, 8)), ObserverCost("pmp", Interval(0.9, 0.88, 0.92, 8)),
    ]  # fmt: skip
    assert "QPS while watched: pmp -10.0% (-12.0% to -8.0%); no measurable effect: perf" in text_of(shown(run))


def test_all_but_the_first_screen_and_the_graph_is_folded() -> None:
    page = render_report([view()])
    folded = re.findall(r'<details class="folded"><summary><h2 id="([a-z]+)-0"', page)
    assert folded == ["where", "waits", "time", "what", "trust"]
    assert re.findall(r'<section aria-labelledby="([a-z]+)-0">\s*<h2', page) == ["first", "graph"]


def test_a_bar_is_as_wide_as_its_parts_and_says_them_to_a_screen_reader() -> None:
    drawn = stacked_bar([BarPart("a <b>", "", 0, 3.0), BarPart("c", "", -1, 1.0)])
    widths = [float(width) for width in re.findall(r' width="([\d.]+)"', drawn)]
    assert sum(widths) == pytest.approx(1000, abs=4) and widths[0] == pytest.approx(3 * widths[1], rel=0.01)
    assert 'aria-label="a &lt;b&gt; 75.0 %; c 25.0 %"' in drawn


def test_what_writes_is_shown_by_the_view_that_knows_writes() -> None:
    owner = view().owner
    assert owner is not None
    writes = replace(owner, view="writes")
    *known, other = owner.rows
    assert telling_view(owner, None) is owner and telling_view(owner, writes) is owner
    blind = replace(owner, rows=[*known, replace(other, share=97.0)])
    assert telling_view(blind, writes) is writes and telling_view(blind, None) is blind
    assert telling_view(replace(owner, rows=[]), writes).rows == []
