"""The screen that a run ends with, and the sections of findings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ground.results.checks import Check, Verdict
from ground.results.interval import Interval
from ground.results.off_cpu import OffCpu, Thread
from ground.results.record import ObserverCost
from tests.viz.observers import off_cpu
from tests.viz.runs import FOUND, record, view
from viz.page.report import render_report
from viz.terminal.off_cpu import off_cpu_table
from viz.terminal.summary import SCREEN, render_screen


def shown(costs: list[ObserverCost], checks: list[Check]) -> str:
    made, owner = record(costs=costs, checks=checks), view().owner
    return render_screen(made, owner, FOUND, "Latency\n  row", 100, unicode=True)


def test_findings_come_before_the_table_in_their_order() -> None:
    screen = shown([], [])
    places = [
        screen.index(words) for words in ("1. 28.1 [27.0, 29.2]", "2. 7.5 [6.2, 8.7]", "Where the CPU of one query")
    ]
    assert places == sorted(places)
    assert "-> another disk" in screen


def test_a_cost_has_a_figure_only_where_its_interval_leaves_none() -> None:
    costs = [
        ObserverCost("perf", Interval(0.97, 0.95, 0.99, 12)),
        ObserverCost("pmp", Interval(0.97, 0.93, 1.01, 12)),
        ObserverCost("null", Interval(1.02, 0.99, 1.05, 12)),
    ]
    line = next(line for line in shown(costs, []).splitlines() if line.startswith("QPS while watched"))
    assert line == "QPS while watched: perf -3.0% (-5.0% to -1.0%); no measurable effect: pmp, null"
    assert "QPS while watched" not in shown([], [])


def test_checks_that_are_ok_are_a_number_and_the_others_a_line_each() -> None:
    some = [Check("a", Verdict.OK, "1"), Check("b", Verdict.WARN, "2", "so much"), Check("c", Verdict.NOTE, "3")]
    checks = shown([], some).partition("\nChecks\n")[2].splitlines()
    assert checks == ["  warn  b: 2; so much", "    ok  2 others"]
    assert shown([], some[:1]).rstrip().endswith("ok  all 1")
    failed = shown([], [Check("d", Verdict.FAILED, "4", "do not")])
    assert failed.index("Do not use this run") < failed.index("What was found")


def test_it_stays_one_screen_whatever_was_found_and_warned_of() -> None:
    made = record(
        costs=[ObserverCost("perf", Interval(0.97, 0.95, 0.99, 12))],
        checks=[Check(f"check {n}", Verdict.WARN, f"value {n}", "it means much " * 12) for n in range(9)],
    )
    layers = "Latency\n" + "  row\n" * 7
    many = [replace(FOUND[0], sentence=f"finding {n} of some length " * 6) for n in range(7)]
    for findings, least in ((FOUND, len(FOUND)), (many, 3)):
        screen = render_screen(made, view().owner, findings, layers, 100, unicode=True)
        assert screen.count("\n") <= SCREEN
        assert all(f"check {n}" in screen for n in range(9))
        assert "it means much" not in screen and "what they mean: ioflame show RUN checks" in screen
        assert f"\n{least}. " in screen
    assert "finding 2" in screen and "finding 6" not in screen and "4 more: ioflame show RUN all" in screen
    # Findings of four lines each, as those are that say what a host can do.
    long = [replace(one, do="what changes it " * 16) for one in many]
    screen = render_screen(made, view().owner, long, layers, 100, unicode=True)
    assert screen.count("\n") <= SCREEN
    assert "\n1. " in screen and "\n3. " not in screen and "more: ioflame show RUN all" in screen
    # As of a run far from here, whose commands take two lines each; on a host that every observer disturbs.
    costs = [ObserverCost(f"observer {n}", Interval(0.97, 0.95, 0.99, 12)) for n in range(9)]
    warned = [Check(f"check {n}", Verdict.WARN, "", "") for n in range(56)]
    far = replace(made, costs=costs, checks=warned)
    show = f"ioflame show {'/far' * 24}"
    screen = render_screen(far, view().owner, long, layers + "  row\n" * 4, 100, unicode=True, show=show)
    assert screen.count("\n") <= SCREEN
    assert "\n1. " in screen and "QPS while watched" not in screen


def test_the_page_lists_findings_with_the_place_that_shows_them() -> None:
    run = view()
    assert "What was found" not in render_report([run])
    run.findings = FOUND
    page = render_report([run])
    assert 'href="#graph-0">28.1 [27.0, 29.2] of 54.1 us of CPU are &lt;one&gt; function.</a>' in page
    assert 'href="#waits-0">7.5' in page
    assert page.index("What was found") < page.index("Can it be trusted?")


@pytest.fixture
def waiting() -> OffCpu:
    return off_cpu()


def test_threads_that_do_nothing_are_a_line_below_the_table(waiting: OffCpu) -> None:
    busy = Thread(1, "reader", 0, 10**9, False, False, 4 * 10**8, None, {"io": 6 * 10**8}, 9000, 5)
    idle = Thread(2, "rocksdb:low", 0, 10**9, False, False, 1000, None, {"condition": 10**9 - 1000}, 1, 0)
    table = off_cpu_table(replace(waiting, threads=[busy, *[replace(idle, tid=tid) for tid in range(2, 9)]]))
    rows = {line.split()[0]: line.split() for line in table.splitlines()[2:]}
    assert (rows["on-CPU"][2], rows["io"][2], rows["all"][2]) == ("40.00", "60.00", "100.00")
    assert "condition" not in rows
    assert "left out: 7 idle threads (next to nothing to do; 7.000 s)" in table
    # Where none works, they are all there is.
    assert "left out" not in off_cpu_table(replace(waiting, threads=[idle]))
