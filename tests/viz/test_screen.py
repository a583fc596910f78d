"""The first screen of a run, in the terminal and on the page, and the sections of findings."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ground.results.categories import OtherPart, telling_view
from ground.results.checks import Check, Verdict
from ground.results.interval import Interval
from ground.results.ladder import PARTS, STAGES
from ground.results.metrics import METRICS
from ground.results.record import ObserverCost, Unobserved
from ioflame.analysis.wall_clock import wall_clock as clock_of
from tests.records import window
from tests.viz.markup import text_of
from tests.viz.observers import ladder, of_several, off_cpu, only, thread, wall_clock
from tests.viz.runs import FOUND, record, view
from viz.figures import other_words
from viz.page.first_screen import first_screen
from viz.page.report import render_report
from viz.page.run_view import RunView
from viz.svg.stacked_bar import BarPart, stacked_bar
from viz.tables.off_cpu import off_cpu_section
from viz.terminal.summary import SCREEN, render_screen, render_summary
from viz.terminal.table import section_text


# ---- on the page -----------------------------------------------------------------------------------------------------
def first_screen_of(run: RunView) -> str:
    assert run.owner is not None
    places = {name: f"{name}-0" for name in ("graph", "where", "waits", "time")}
    return first_screen(run, 0, list(range(len(run.owner.rows))), places)


def test_it_says_first_whether_the_run_can_be_used_then_what_weighs_most() -> None:
    run = view(findings=FOUND)
    text = text_of(first_screen_of(run))
    places = [text.index(words) for words in ("Usable", FOUND[0].sentence, FOUND[1].sentence, "queries a second")]
    assert places == sorted(places)
    assert "What changes it: another disk" in text
    run.record.costs = [ObserverCost("pmp", Interval(0.9, 0.88, 0.92, 8))]
    assert "QPS while watched: pmp -10.0% (-12.0% to -8.0%)" in text_of(first_screen_of(run))
    assert "What changes it" not in text_of(first_screen_of(view()))


def test_figures_are_called_what_an_outsider_calls_them_with_the_published_name_once() -> None:
    text = text_of(first_screen_of(view()))
    for name in ("qps", "rx.lat", "cpuPer"):
        assert METRICS[name].title and f"{METRICS[name].title} {name}" in " ".join(text.split())
    assert all(one.title for one in METRICS.values() if one.headline)


def test_the_parts_of_the_cpu_add_up_to_it_heaviest_first_and_other_last() -> None:
    run = view()
    found = re.search(r"Where the CPU of one query goes: ([\d.]+) us.*?<ul>(.*?)</ul>", first_screen_of(run), re.DOTALL)
    assert found is not None
    values = [float(value) for value in re.findall(r"<b>([\d.]+) us</b>", found[2])]
    assert sum(values) == pytest.approx(float(found[1]), abs=0.06) and float(found[1]) == 20.0
    named = values[:-1]
    assert named == sorted(named, reverse=True)
    assert "<code>other</code>" in found[2].rsplit("<li>", 1)[1]
    # Small parts are one and lose nothing.
    run = view()
    assert run.owner is not None
    rows = list(run.owner.rows)
    tiny = [replace(rows[0], name=f"tiny{i}", weight=1, share=0.5, us_per_query=0.1) for i in range(3)]
    heavy = [replace(row, share=row.share * 0.985) for row in rows]
    run.owner = replace(run.owner, rows=[*heavy[:-1], *tiny, heavy[-1]])
    assert "3 smaller ones: tiny0, tiny1, tiny2" in text_of(first_screen_of(run))


def test_other_says_what_it_mostly_is_and_writes_are_shown_by_the_view_that_knows_them() -> None:
    owner = view().owner
    assert owner is not None and other_words(owner) == ""
    other = owner.rows[-1].weight
    parts = [OtherPart("get", "Get down to the table: DBImpl, keys", other * 3 // 4), OtherPart("x", "", other // 4)]
    told = other_words(replace(owner, other_parts=parts))
    assert told.endswith("is mostly: Get down to the table 75 %, x 25 %")
    writes = replace(owner, view="writes")
    *known, last = owner.rows
    assert telling_view(owner, None) is owner and telling_view(owner, writes) is owner
    blind = replace(owner, rows=[*known, replace(last, share=97.0)])
    assert telling_view(blind, writes) is writes and telling_view(blind, None) is blind
    assert telling_view(replace(owner, rows=[]), writes).rows == []


def test_latency_is_a_bar_by_stage_and_by_state_without_a_ladder() -> None:
    assert [stage for stages in PARTS.values() for stage in stages] == list(STAGES)
    assert "takes:" not in text_of(first_screen_of(view()))
    text = text_of(first_screen_of(view(observed=only(LADDER=ladder()))))
    assert "How long a query that reads once takes: " in text and "storage device and its queue" in text
    text = text_of(first_screen_of(view(observed=only(LADDER=of_several(ladder())))))
    assert "How long MultiGets of several reads take: 300 us" in text and "on a CPU between two reads" in text
    text = text_of(first_screen_of(view(observed=only(WALL_CLOCK=wall_clock()))))
    assert "What the time of a query goes to: " in text and "on a CPU" in text


@pytest.mark.parametrize(("kind", "seen"), [("ladder", "LADDER"), ("offcpu", "WALL_CLOCK")])
def test_a_bar_of_a_disturbed_window_says_so(kind: str, seen: str) -> None:
    """Its figures are the window's own; findings, four lines above, are worded by undisturbed ones."""
    run = view(observed=only(**{seen: ladder() if seen == "LADDER" else wall_clock()}))
    plain = [one for one in run.record.windows if one.kind == "plain"]
    qps = sum(one.counters.queries or 0.0 for one in plain) / sum(one.seconds for one in plain)
    run.record.metrics["rx.lat"] = 141.8
    for share, said in ((0.36, True), (0.95, False)):
        run.record.windows.append(window(kind, 10, "", 600, queries=10 * qps * share))
        text = text_of(first_screen_of(run))
        words = (
            "That window was disturbed: it ran at 36 % of the baseline windows' rate. "
            "In the baseline windows a query took"
        )
        assert (f"{words} 142 us." in " ".join(text.split())) is said
        assert "us.." not in text
        run.record.windows.pop()


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


# ---- in the terminal -------------------------------------------------------------------------------------------------
def shown(costs: list[ObserverCost], checks: list[Check], host: ObserverCost | None = None) -> str:
    made, owner = record(costs=costs, checks=checks, host_change=host), view().owner
    return render_screen(made, owner, FOUND, "Latency\n  row", 100)


def watched(screen: str) -> str:
    """The sentence about the observers' cost, in one line."""
    return " ".join(screen.partition("QPS while watched: ")[2].partition("\n\n")[0].split())


def test_findings_come_first_and_a_cost_has_a_figure_only_where_its_interval_leaves_none() -> None:
    screen = shown([], [])
    places = [
        screen.index(words) for words in ("1. 28.1 [27.0, 29.2]", "2. 7.5 [6.2, 8.7]", "Where the CPU of one query")
    ]
    assert places == sorted(places)
    assert "-> another disk" in screen
    costs = [
        ObserverCost("perf", Interval(0.97, 0.95, 0.99, 12)),
        ObserverCost("pmp", Interval(0.97, 0.93, 1.01, 12)),
        ObserverCost("null", Interval(1.02, 0.99, 1.05, 12)),
        ObserverCost("iolat", Interval(0.75, 0.5, 1.11, 3)),
    ]
    told = "perf -3.0% (-5.0% to -1.0%); no measurable effect: pmp, empty; cannot be told: iolat (-50.0% to +11.0%)"
    assert watched(shown(costs, [])) == told
    assert "QPS while watched" not in shown([], [])
    assert watched(shown(costs, [], costs[2])) == told, "the interval of nothing attached holds nothing"


def test_of_a_host_that_changed_by_itself_no_cost_is_told() -> None:
    costs = [ObserverCost("perf", Interval(0.97, 0.95, 0.99, 12)), ObserverCost("pmp", Interval(0.8, 0.7, 0.9, 12))]
    for estimate, words in ((1.3, "more than any observer"), (1.1, "by itself")):
        host = ObserverCost("null", Interval(estimate, 1.05, 1.4, 9))
        assert watched(shown([*costs, host], [], host)) == (
            f"this host changed {words}: with nothing attached QPS differed by {100 * estimate - 100:+.1f}% "
            "(+5.0% to +40.0%); what observers cost is not known"
        )


def test_checks_that_are_ok_are_a_number_and_the_others_a_line_each() -> None:
    some = [Check("a", Verdict.OK, "1"), Check("b", Verdict.WARN, "2", "so much"), Check("c", Verdict.NOTE, "3")]
    checks = shown([], some).partition("\nChecks\n")[2].splitlines()
    assert checks == ["  warn  b: 2; so much", "    ok  1 others, and 1 note"]
    assert shown([], some[:1]).rstrip().endswith("ok  all 1")
    failed = shown([], [Check("d", Verdict.FAILED, "4", "do not")])
    assert failed.index("Do not use this run") < failed.index("What was found")


def test_what_was_asked_for_and_did_not_watch_is_the_first_line_and_does_not_condemn_the_rest() -> None:
    lost = [Unobserved("tail", "its programs are refused", "ioflame doctor", asked) for asked in (True, False)]
    checks = [Check("tail", Verdict.FAILED, "did not watch: its programs are refused")]
    made = record(checks=checks, unobserved=lost[:1])
    for text in (render_screen(made, view().owner, FOUND, "", 100), render_summary(made, view().owner)):
        first = "tail was asked for and did not watch: its programs are refused -> ioflame doctor"
        assert text.splitlines()[0] == first and "Do not use this run" not in text
    # A scale's default.
    assert "did not watch" not in render_screen(record(unobserved=lost[1:]), view().owner, FOUND, "", 100)


def test_it_stays_one_screen_whatever_was_found_and_warned_of() -> None:
    made = record(
        costs=[ObserverCost("perf", Interval(0.97, 0.95, 0.99, 12))],
        checks=[Check(f"check {n}", Verdict.WARN, f"value {n}", "it means much " * 12) for n in range(9)],
    )
    layers = "Latency\n" + "  row\n" * 7
    many = [replace(FOUND[0], sentence=f"finding {n} of some length " * 6) for n in range(7)]
    for findings, least in ((FOUND, len(FOUND)), (many, 3)):
        screen = render_screen(made, view().owner, findings, layers, 100)
        assert screen.count("\n") <= SCREEN
        assert all(f"check {n}" in screen for n in range(9))
        assert "it means much" not in screen and "what they mean: ioflame show RUN checks" in screen
        assert f"\n{least}. " in screen
    assert "finding 2" in screen and "finding 6" not in screen and "4 more: ioflame show RUN all" in screen
    # Findings of four lines each, as those are that say what a host can do.
    long = [replace(one, do="what changes it " * 16) for one in many]
    screen = render_screen(made, view().owner, long, layers, 100)
    assert screen.count("\n") <= SCREEN
    assert "\n1. " in screen and "\n3. " not in screen and "more: ioflame show RUN all" in screen
    # As of a run far from here, whose commands take two lines each; on a host that every observer disturbs.
    costs = [ObserverCost(f"observer {n}", Interval(0.97, 0.95, 0.99, 12)) for n in range(9)]
    warned = [Check(f"check {n}", Verdict.WARN, "", "") for n in range(56)]
    far = replace(made, costs=costs, checks=warned)
    show = f"ioflame show {'/far' * 24}"
    screen = render_screen(far, view().owner, long, layers + "  row\n" * 4, 100, show=show)
    assert screen.count("\n") <= SCREEN
    assert "\n1. " in screen and "QPS while watched" not in screen


def test_the_page_lists_findings_with_the_place_that_shows_them() -> None:
    assert "What was found" not in render_report([view()])
    page = render_report([view(findings=FOUND)])
    assert 'href="#graph-0">28.1 [27.0, 29.2] of 54.1 us of CPU are &lt;one&gt; function.</a>' in page
    assert 'href="#waits-0">7.5' in page
    assert page.index("What was found") < page.index("Can it be trusted?")


@pytest.mark.parametrize(
    ("off", "left_out"),
    [
        ({"condition": 1000}, True),
        ({"sleep": 600, "futex": 394}, True),
        ({"join": 998, "woken": 2}, True),
        ({"preempted": 999}, False),
        ({"woken": 300, "condition": 695}, False),
        ({"io": 980, "sleep": 20}, False),
        ({"lock": 1000}, False),
        ({"uninterruptible": 1000}, False),
        ({"stopped": 1000}, False),
    ],
)
def test_idle_is_who_has_no_work_never_who_waits_for_a_cpu_a_lock_or_a_disk(
    off: dict[str, int], left_out: bool
) -> None:
    """Threads that hardly ran and seldom moved."""
    busy = thread(1, "reader", 400, sleep=600)
    of_two = replace(off_cpu(), threads=[busy, thread(2, "other", 0, **off)])
    clock = clock_of(of_two, [], None, None)
    assert (clock.threads, clock.idle_threads) == ((1, 1) if left_out else (2, 0))
    assert ("left out: 1 idle" in section_text(off_cpu_section(of_two))) is left_out
