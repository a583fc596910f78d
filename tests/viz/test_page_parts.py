"""Parts of a page one by one, from records made in code: tables hold what was measured, and say what was not."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from markupsafe import Markup

from ground.results.categories import Category, Operation
from ground.results.checks import Check, Verdict
from ground.results.frame_differences import (
    FrameDifferences,
    FrameFigure,
    FrameRule,
    FrameSide,
    FunctionDifference,
    Level,
    Match,
    NodeColumns,
    Totals,
)  # fmt: skip
from ground.results.interval import Interval
from ground.results.record import ObserverCost, Target, Unobserved
from ground.results.verdicts import Apart, Comparability
from ground.text.titles import title_of
from tests.viz import observers
from tests.viz.experiments import RUN, VIEW
from tests.viz.markup import drawn, rows_of, text_of, titles
from tests.viz.runs import record, view
from tests.viz.samples import CATEGORIES
from viz.assets import asset
from viz.export.firefox import firefox_profile
from viz.export.speedscope import speedscope
from viz.figures import CannotBeError
from viz.flame.stacks import Stack
from viz.page.categories import further, leaf, matrix, operations, owner
from viz.page.comparison import comparison
from viz.page.document import page
from viz.page.experiment import render_experiment
from viz.page.frames import frames_compared
from viz.page.io_latency import io_panel
from viz.page.latency_plots import heat_map_figure, histograms
from viz.page.off_cpu import run_queue_panel
from viz.page.rendering import absent, banner, part, section_markup, table
from viz.page.trust import trust, verdict
from viz.page.what_ran import what_ran
from viz.svg.histogram import Named
from viz.svg.static import Key, draw_head
from viz.table import Table, tsv_tables
from viz.tables.latency import every_latency
from viz.tables.off_cpu import wall_clock_section
from viz.tables.operations import operations_section
from viz.tables.pmp import locks_section
from viz.tables.windows import windows_section
from viz.weights import percentages

HOSTILE = "<b onclick='x'>\x07"
HUES = list(range(len(CATEGORIES)))


# ---- the shell -------------------------------------------------------------------------------------------------------
def test_what_comes_from_others_is_escaped_and_what_is_ours_is_not() -> None:
    made = table(HOSTILE, ["head"], [[HOSTILE], [Markup("<i>ours</i>")]], legend=HOSTILE)
    assert "<b " not in made and "\x07" not in made and made.count("&lt;b onclick") == 3 and "<i>ours</i>" in made
    assert absent(HOSTILE).startswith('<p class="absent">&lt;b') and banner("bad", "x") == '<p class="banner bad">x</p>'


def test_a_part_whose_figures_cannot_be_says_so_and_a_fault_of_ours_is_not_hidden() -> None:
    def damaged() -> Markup:
        raise CannotBeError("an axis with steps of -1")

    assert "(CannotBeError: an axis with steps of -1)" in part(damaged)
    assert "ZeroDivisionError" in part(lambda: Markup(1 // 0))
    assert part(lambda: Markup("<i>fine</i>")) == "<i>fine</i>"
    with pytest.raises(KeyError):
        part(lambda: Markup(dict[str, str]()["fault"]))


def test_a_page_has_the_scripts_that_it_asks_for() -> None:
    plain, more = page(HOSTILE, Markup("<p>content</p>")), page("t", Markup(""), ["history.js"])
    assert "<title>&lt;b onclick" in plain and "<p>content</p>" in plain
    assert asset("history.js") in more and asset("history.js") not in plain


# ---- categories ------------------------------------------------------------------------------------------------------
def cells_of(markup: str, name: str) -> list[str]:
    """The cells of a row of a category, as text."""
    (row,) = (row for row in re.findall(r"<tr.*?</tr>", markup, re.DOTALL) if f">{name}<" in row)
    return [text_of(cell) for cell in re.findall(r"<t[dh].*?</t[dh]>", row, re.DOTALL)]


def test_the_owner_view_has_a_share_and_a_cost_for_each_category() -> None:
    run = view()
    assert run.owner is not None
    row = run.owner.rows[0]
    made = owner(run, HUES)
    cells = cells_of(made, title_of(row.name))
    (cost,) = (cell for cell in cells if cell == f"{row.weight / run.owner.total_weight * 20.0:.3f}")
    assert cost and percentages([one.weight for one in run.owner.rows])[0] in cells[2] and cells[1] == row.name
    # Bars are as long as the shares; what is in no category is the last.
    *named, other = [one.share for one in run.owner.rows]
    shares = [*sorted(filter(None, named), reverse=True), other]
    bars = [float(width) for width in re.findall(r'<svg class="share-bar".*?width="([\d.]+)"', made)]
    assert bars == pytest.approx([bars[0] * share / shares[0] for share in shares], abs=0.1)
    bare = replace(run.owner, rows=[replace(one, us_per_query=None, us_per_read=None) for one in run.owner.rows])
    assert "Costs are not shown" in owner(replace(run, owner=bare), HUES)
    assert "no categories" in owner(replace(run, owner=None), HUES)
    # Of a target that nothing counts.
    target = record(metrics={"cores": 2.0}, target=Target("--pid 42", "/server", [42]))
    told = owner(replace(view(), record=target, owner=bare), HUES)
    assert "There is no us per query" in text_of(told) and "Without weight: block cache." in text_of(told)
    assert not re.search(r">block cache</button>", told)  # it may do none of what has no weight


def test_the_leaf_view_is_the_heaviest_first_and_names_what_has_no_weight() -> None:
    run = view()
    assert run.leaf is not None
    *named, other = run.leaf.rows
    rows = [*named, Category("none", "nothing", 0, 0.0, 0), other]
    told = leaf(replace(run, leaf=replace(run.leaf, rows=rows)))
    shown = re.findall(r'data-name="([^"]*)"|>([^<>]+)</button></th>', told)
    names = [one or other for one, other in shown]
    heaviest = sorted(named, key=lambda row: -row.weight)
    assert names == [*(title_of(row.name) for row in heaviest if row.weight), "other"]
    assert "Without weight: none." in text_of(told) and "No leaf view" in leaf(replace(run, leaf=None))
    # A matrix needs both views, and some weight.
    run = view()
    assert "No matrix: it needs both views" in matrix(replace(run, leaf_of={}))
    empty = [replace(stack, weight=0) for stack in run.stacks]
    assert "No matrix: there is no weight" in matrix(replace(run, stacks=empty))


def test_further_views_and_operations_are_folded_up() -> None:
    run = view()
    assert run.leaf is not None
    assert "CPU by mine" in text_of(further(replace(run, further={"mine": run.leaf}))) and further(run) == ""
    kinds = [
        Operation("get", "Get", 50.0, 9, 1.0, None, 4000.0, 2.0, run.owner),
        Operation("scan", "Scan", 1.0, 1, 0.1),
    ]
    told = text_of(operations(replace(run, sections={"operations": operations_section(kinds)})))
    assert "CPU by one get Where the CPU of one get goes (owner view of its stacks)" in told and "one scan" not in told


# ---- latency, waits, locks -------------------------------------------------------------------------------------------
def test_latencies_stand_below_each_other_from_the_client_to_the_device() -> None:
    metrics = {"rx.lat": 104.0, "io.lat": 65.0}
    told = section_markup([every_latency(metrics, observers.ladder(), 104.5, observers.io_latency())])
    rows = {tuple(row[:2]): row[2] for row in rows_of(told, "Latency from the engine to the device")}
    # 74 ms of 507 reads; sys_pre 2, queue 2, device 58, wake 1, runq 14, sys_post 1
    assert {one: rows[one] for one in rows if one[0] in ("latency", "disk latency")} == {
        ("latency", "baseline"): "104.00", ("disk latency", "baseline"): "65.00", ("latency", "ladder"): "104.50",
        ("disk latency", "ladder"): "65.00", ("disk latency", "iolat"): f"{74_000 / 507:.2f}",
    }  # fmt: skip
    assert (rows["query", "ladder"], rows["read call", "ladder"]) == ("100.00", "78.00")
    assert rows["block total", "ladder"] == "60.00"
    assert rows["block total", "iolat"] == f"{(450 * 61 + 50 * 901) / 500:.2f}"
    assert section_markup([every_latency(metrics, None, None, None)]) == ""


def test_latency_of_requests_is_told_by_owner_and_losses_come_first() -> None:
    told = io_panel(observers.io_latency())
    rows = {tuple(row[:3]): row[3:] for row in rows_of(told, "Latency of requests")}
    assert rows["read", "process", "total"][:2] == ["500", "145.00"] and rows["read", "others", "total"][0] == "7"
    assert "could not be counted" not in told
    # Of seven reads of others there is no map.
    assert "over time, the process" in told and "over time, others" not in told
    lost = io_panel(replace(observers.io_latency(), losses={"missed": 1234}))
    assert lost.startswith('<p class="banner warn">1,234 of the window')
    # Histograms without durations have no button and no row.
    series = [
        Named("reads", "", observers.histogram((10, 5), (20, 5))),
        Named("none", "", type(observers.histogram((1, 1)))()),
    ]
    assert text_of(histograms("t", series, "reads", "a.svg")).count("none") == 0
    assert histograms("t", series[1:], "reads", "a.svg") == ""
    assert heat_map_figure("t", [], "w", "l") == ""


def test_the_wall_clock_is_in_us_a_query_or_in_ms_where_nothing_counts_queries() -> None:
    title = "Wall clock by category, on and off the CPU"
    rows = rows_of(section_markup(wall_clock_section(observers.wall_clock())), title)
    assert rows[0] == ["wall clock", "category", "us/query", "%"] and rows[1] == ["on-CPU", "all", "25.000", "25.00"]
    assert ["io", "read syscall", "65.000", "65.00"] in rows and rows[-1] == ["all", "", "100.000", "100.00"]
    uncounted = rows_of(section_markup(wall_clock_section(replace(observers.wall_clock(), queries=None))), title)
    assert uncounted[0][2] == "ms" and ["io", "read syscall", "1,300.000", "65.00"] in uncounted
    # Waits for a CPU have their switches.
    told = run_queue_panel(observers.run_queue())
    assert "1,000 voluntary, 5 involuntary (1,005/s)" in text_of(told)
    rows = rows_of(told, "By what came before")
    assert [row[:2] for row in rows[1:]] == [
        ["after a wake-up", "1,000"],
        ["after preemption", "5"],
        ["of a new thread", "0"],
    ]


def test_locks_are_shares_of_the_time_of_threads_that_work() -> None:
    told = section_markup(locks_section(observers.locks(), observers.pmp()))
    rows = {row[0]: row[1:] for row in rows_of(told, "Locks")}
    # 200 ms of a second in a second: a fifth of the time, and a fifth of a thread.
    assert rows["waiting for locks"] == ["20.00", "0.20", "20"] and "left out: 1" not in told
    assert rows["waiting for conditions"] == ["30.00", "0.30", "30"]
    (site,) = rows_of(told, "Who waits, by the first frame that is no lock primitive")[1:]
    assert site == ["rocksdb::lru_cache::LRUCacheShard::Lookup", "mutex", "block cache", "20.00", "5.00", "25"]
    bare = section_markup(locks_section(replace(observers.locks(), sites=[]), None))
    assert "no sample was in a lock" in bare and rows_of(bare, "Locks")[1][2] == "-"


# ---- what ran, and can it be trusted ---------------------------------------------------------------------------------
def test_what_ran_is_told_with_its_figures_and_their_intervals() -> None:
    run = view(intervals={"qps": Interval(10_000, 9_900, 10_100, 9)})
    told = text_of(what_ran(run))
    assert "assertions on: slower than a release build" in told and "readrandom, 1 thread" in told
    assert "cpu-clock, weights in ns" in told and "vda" in told and "no hardware counter" in told
    assert "qps10,000 [9,900, 10,100]" in told and "recorded system-wide" not in told
    assert "system-wide, folded for the process" in told
    assert "[" not in text_of(what_ran(view()))


def test_the_verdict_is_the_gravest_check_with_the_names_of_those_that_failed() -> None:
    told = text_of(verdict(view(), "trust-0"))
    assert "Usable; read the warnings first. 1 warning (observer), 1 note, 1 ok." in told
    failed = [Check("a", Verdict.FAILED, "1"), Check("b", Verdict.FAILED, "2"), Check("c", Verdict.OK, "3")]
    assert "Do not use this run" in text_of(verdict(view(checks=failed), "trust-0"))
    missing = verdict(view(missing=["the perf window"], checks=[]), "trust-0")
    assert "the perf window" in missing and "Every check passed" not in missing
    told = text_of(trust(view()))
    assert told.index("observer") < told.index("samples") < told.index("coverage")
    # Never by colour alone.
    assert all(sign in told for sign in "\u25b2\u25cb\u2713") and "not quite the same workload" in told
    assert "carries no checks" in trust(view(checks=[]))


def test_windows_have_what_observers_cost_and_why_others_did_not_watch() -> None:
    of_windows = windows_section(record())[1]
    assert isinstance(of_windows, Table)
    rows = of_windows.cells("page")
    assert [row[0] for row in rows[1:]] == ["warm-up", "baseline", "perf", "baseline"] and rows[2][1] == "8.0"
    costs = [ObserverCost("perf", Interval(0.97, 0.95, 0.99, 12))]
    made = record(costs=costs, unobserved=[Unobserved("iolat", "no <BTF>", "make setup", True)])
    more = section_markup(windows_section(made))
    title = "Observers: with them against beside them, with nothing attached"
    assert rows_of(more, title)[1] == ["perf", "-3.0 %", "-5.0 % to -1.0 %", "12"]
    assert rows_of(more, "Not observed")[1] == ["iolat", "no <BTF>", "make setup"]
    costs[0].cpu_ratio = Interval(1.02, 1.01, 1.03, 12)
    assert rows_of(section_markup(windows_section(made)), title)[1][3:5] == ["+2.0 %", "+1.0 % to +3.0 %"]
    # Of a host that changed by itself the row says why there is no figure; programs get what was measured.
    made = replace(made, host_change=ObserverCost("null", Interval(1.3, 1.1, 1.5, 9)))
    (row,) = rows_of(section_markup(windows_section(made)), title)[1:]
    assert row[:3] == ["perf", "-", "-"] and row[3] == "+2.0 %"
    assert row[-1] == "not known: the host changed"
    assert "with nothing attached QPS differed by +30.0% (+10.0% to +50.0%)" in section_markup(windows_section(made))
    assert tsv_tables(windows_section(made))["costs"][0]["qps_ratio"] == 0.97


def test_turns_of_a_kind_are_one_row() -> None:
    made = record()
    for place, one in enumerate(made.windows):
        one.round = min(place, 1)
    of_windows = windows_section(made)[1]
    assert isinstance(of_windows, Table)
    heads, *rows = of_windows.cells("page")
    assert heads[:2] == ["window", "turns"]
    assert [row[:2] for row in rows] == [["warm-up", "1"], ["baseline", "2"], ["perf", "1"]]


# ---- several runs ----------------------------------------------------------------------------------------------------
def test_runs_beside_each_other_have_differences_unless_something_bars_them() -> None:
    base = view()
    other = view(name="run-b", metrics={**base.record.metrics, "qps": 11_000.0})
    apart = Apart([("tool engine", ["7.8.3", "7.9"])], [], Comparability())
    told = comparison([base, other], apart)
    rows = {row[0]: row for row in rows_of(told, "Baseline windows")}
    assert rows["figure"][:4] == ["figure", "run-a (base)", "run-b", "\u0394"] and rows["qps"][3] == "+10.0 %"
    shares = {row[0]: row for row in rows_of(told, "CPU by category: % of weight")}
    assert shares["bloom filter"][1] == shares["bloom filter"][2] and shares["bloom filter"][3] == "+0.00"
    assert rows_of(told, "What differs")[1] == ["tool engine", "7.8.3", "7.9"]
    barred = comparison([base, other], replace(apart, barriers=["threads"]))
    assert "\u0394" not in [cell for row in rows_of(barred, "Baseline windows") for cell in row]


def figure(before: float, after: float, different: bool) -> FrameFigure:
    return FrameFigure(before, after, after - before, after - before - 0.1, after - before + 0.1, [90, 110], different)


def frame_differences() -> FrameDifferences:
    sides = [FrameSide(name, "cycles", "ns", 2, 2, 1000.0, 1000) for name in ("A", HOSTILE)]
    rule = FrameRule(0.05, 30, 3, 2, None, 0.2, 0.01, True, 0.5, 0.1)
    nodes = NodeColumns([0, 1, 2], [0, 1, 2], [0, 0, 0], [10, 10, 4], [12, 12, 6], [1, 1, 1], [9, 9, 4], [9, 9, 6], [2])
    functions = [
        FunctionDifference(2, figure(4, 6, True), figure(4, 6, False)),
        FunctionDifference(1, figure(10, 12, False), figure(0, 0, False)),
    ]
    return FrameDifferences(
        sides, rule, ["all", "main", "Get"], ["/bin/db"], nodes, functions, [], 0, [], [Match("a", "b", "alias", True)],
        [Level("main", 1, "/bin/db", "inlined", 1.0, 2.0), Level("rare", 1, "/bin/db", "inlined", 0.001, 0.002)],
        Totals(0.5, 0.25, 1, 0, 0),
    )  # fmt: skip


def test_functions_are_listed_where_they_differ_and_matches_say_by_what() -> None:
    told = frames_compared(frame_differences())
    rows = rows_of(told, "Functions that differ")
    assert rows[1:] == [["Get", "total", "4.000", "6.000", "+2.000", "[+1.900, +2.100]", "200"]]
    assert rows_of(told, "Names that were matched")[1] == ["a", "b", "alias file", "taken for the same"]
    levels = rows_of(told, "Not matched: one side has no names there, or inlined what the other did not")
    assert [row[0] for row in levels] == ["below", "main"]
    assert "1.0 % are allowed for what sessions differ by" in text_of(told) and "no frame was seen often enough" in told
    assert "<b onclick" not in told


# ---- files for other tools -------------------------------------------------------------------------------------------
def threaded() -> list[Stack]:
    one = Stack(("c", "main", "f_[k]"), 5_000_000, 1, "bloom", 1, ("", "/bin/db", "[kernel.kallsyms]"), "c/41")
    return [one, replace(one, weight=7_000_000, thread="c/42"), Stack(("d", "main"), 1_000_000)]


def test_speedscope_gets_a_profile_a_thread_with_every_weight() -> None:
    made = json.loads(speedscope(threaded(), "ours", "ns"))
    assert [(one["name"], one["endValue"], one["unit"]) for one in made["profiles"]] == [
        ("c/41", 5_000_000, "nanoseconds"), ("c/42", 7_000_000, "nanoseconds"), ("d", 1_000_000, "nanoseconds"),
    ]  # fmt: skip
    frames = made["shared"]["frames"]
    assert [frames[at] for at in made["profiles"][1]["samples"][0]] == [
        {"name": "c"}, {"name": "main", "file": "/bin/db"}, {"name": "f_[k]", "file": "[kernel.kallsyms]"},
    ]  # fmt: skip
    assert json.loads(speedscope(threaded(), "ours", "cycles"))["profiles"][0]["unit"] == "none"


def test_the_firefox_profiler_gets_threads_libraries_and_categories() -> None:
    made = json.loads(firefox_profile(threaded(), "ours", "ns"))
    assert [(one["name"], one["tid"], one["samples"]["weight"]) for one in made["threads"]] == [
        ("c", 41, [5.0]), ("c", 42, [7.0]), ("d", 3, [1.0]),
    ]  # fmt: skip
    assert [one["path"] for one in made["libs"]] == ["/bin/db", "[kernel.kallsyms]"]
    thread, names = made["threads"][0], [one["name"] for one in made["meta"]["categories"]]
    kinds = [names[kind] for kind in thread["frameTable"]["category"]]
    # The frame that decided and those below it are of the category; the thread's name is not.
    assert names == ["Other", "bloom"] and kinds == ["Other", "bloom", "bloom"]
    stack, found = thread["samples"]["stack"][0], list[str]()
    while stack is not None:
        function = thread["frameTable"]["func"][thread["stackTable"]["frame"][stack]]
        found.insert(0, thread["stringArray"][thread["funcTable"]["name"][function]])
        stack = thread["stackTable"]["prefix"][stack]
    assert found == ["c", "main", "f_[k]"] and thread["samples"]["time"] == sorted(thread["samples"]["time"])
    for column in ("samples", "stackTable", "frameTable", "funcTable", "resourceTable"):
        assert {len(one) for one in thread[column].values() if isinstance(one, list)} == {thread[column]["length"]}
    assert json.loads(firefox_profile(threaded(), "o", "cycles"))["threads"][0]["samples"]["weightType"] == "samples"


# ---- experiments -----------------------------------------------------------------------------------------------------
def test_the_page_of_an_experiment_has_every_value_and_leads_to_its_runs() -> None:
    told = render_experiment(VIEW)
    assert "streams: not as expected: two streams: 5 to 6; 1 not judged" in text_of(told)
    assert rows_of(told, "Every cell")[2] == ["asc.2, old", "4.00", "-", "5", "4.200"]
    assert f'href="{RUN.replace(" ", "%20").replace(",", "%2C")}/report.html"' in told
    assert rows_of(told, "What differs between them")[1:] == [["version", "7.8", "9.0"]]
    sections = {
        found[1]: found[0] for found in re.finditer(r'<section aria-labelledby="(\w+)">.*?</section>', told, re.S)
    }
    # A bar a cell; a whisker and a published mark where there is one.
    (charts,) = re.findall(r"<svg.*?</svg>", sections["charts"], re.S)
    assert len(drawn(charts, "rect", "segment")) == 2
    assert len(drawn(charts, "path", "whisker")) == len(drawn(charts, "path", "over")) == 1
    # A line a test with the band of its interval; a version that a test was not run with is a gap. Of what was
    # published the tests that were measured: one mark, and the scale is not that of others.
    (ratios,) = re.findall(r"<svg.*?</svg>", sections["relative"], re.S)
    assert len(drawn(ratios, "path", "band")) == 2 and len(drawn(ratios, "circle", "segment")) == 5
    assert [one for one in titles(ratios) if "published" in one] == ["readww, 8.0: 1.30 published"]
    # A part has one colour in all pictures.
    _, last = re.findall(r"<svg class=\"plot.*?</svg>", sections["stacked"], re.S)
    assert [bar.get("class", "").split()[-1] for bar in drawn(last, "rect", "segment")] == ["h5"]  # bloom's
    same = replace(VIEW, builds={"a": {"lto": "no"}, "b": {"lto": "no"}}, failed=["it failed"], judged=VIEW.judged[:1])
    assert "The same build under several names" in render_experiment(same)
    assert "streams: 1 failed" in text_of(render_experiment(same))
    assert "streams: 1 of 1 hold" in text_of(render_experiment(replace(VIEW, judged=VIEW.judged[:1])))


def test_a_heading_is_broken_where_it_is_wider_than_the_drawing() -> None:
    keys = [Key(f"category{number}", "what it is", "10.00") for number in range(10)]
    wide, high = draw_head("title", "subtitle", [], keys, 1200)
    narrow, higher = draw_head("title " * 10, "x" * 300, ["a warning"], keys, 400)
    assert higher > high and sum("swatch" in one or "<g>" in one for one in wide) == 10
    at = [float(x) for line in narrow for x in re.findall(r'<rect[^>]* x="([\d.]+)"', line)]
    assert max(at) < 400 and "x" * 300 in "".join(re.findall(r">(x+)<", "".join(narrow)))
