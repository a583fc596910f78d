"""Tables of the terminal from records made in code: a row has what was measured, and what was not is said."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest

from ground.results.categories import Categories, Category, Operation
from ground.results.cells import CellOutcome, CellsRecord
from ground.results.differences import (
    Budget,
    BudgetRow,
    Cell,
    Decision,
    Difference,
    Outcome,
    PlanRow,
    RelativeTable,
    Variances,
)  # fmt: skip
from ground.results.fleet import FleetChange, FleetPart, Watch
from ground.results.interval import Interval
from ground.results.record import RoleCounters, Target
from ground.results.verdicts import ArmVerdict, ComparedRuns, Verdicts
from tests.records import window
from tests.viz import compared, observers
from tests.viz.experiments import VIEW
from tests.viz.runs import record
from viz.export.benchmark_tsv import HEADER, render_report_tsv
from viz.interval_bars import Change, Scale
from viz.page.rendering import section_markup
from viz.table import Table
from viz.tables.comparison import changes_of, decisions_table
from viz.tables.latency import latency_layers, latency_section
from viz.tables.operations import operations_section
from viz.tables.relative import (
    legend,
    relative_table,
    render_relative_markdown,
    render_relative_tsv,
    two_digits,
    with_interval,
)
from viz.tables.roles import roles_section
from viz.terminal.cells import cells_tsv, facts_of, render_cells
from viz.terminal.comparison import comparison_text, plan_text, runs_text
from viz.terminal.fleet import render_watch
from viz.terminal.table import section_text


def line(text: str, *start: str) -> list[str]:
    """The words of the first line that begins with these, after them."""
    found = next(words for words in map(str.split, text.splitlines()) if words[: len(start)] == list(start))
    return found[len(start) :]


# ---- cells of an experiment ------------------------------------------------------------------------------------------
# As the experiment has it: a row for each cell.
WHOLE = replace(VIEW, published={"asc.1": {}, **VIEW.published})


def cells_record() -> CellsRecord:
    runs = [
        CellOutcome("asc.1", 1, status="done"),
        CellOutcome("asc.2, old", 1, status="failed", why="the client ended with 1"),
        CellOutcome("asc.3", 1, status="left out", why="no such build"),
        CellOutcome("asc.3", 2, status="left out", why="no such build"),
        CellOutcome("asc.1", 2, status="done", amiss=["LSM tree: L7"]),
    ]
    tools = {"engine": "7.8.3", "engine_sha256": "0" * 64, "fio": "3.33"}
    return CellsRecord("streams", "2026-01-01", 2_000_000, {}, {"cpus": "2", "cpu": "Model"}, tools, runs)


def test_a_table_of_cells_has_values_quartiles_and_what_was_published() -> None:
    text = render_cells(cells_record(), WHOLE, ["what else is told"])
    assert line(text, "asc.1") == ["1.00", "inf", "1", "-"]
    assert line(text, "asc.2,", "old") == ["4.00", "-", "5", "4.200"]
    ends = [words for words in map(str.split, text.splitlines()) if words[:1] == ["25th"]]
    assert ends == [["25th", "to", "75th", "percentile", "3.50..4.50"]]
    assert "what else is told" in text and "What this cannot show: 100M rows" in text
    # Those that failed or are left out are named once each.
    text = render_cells(cells_record(), WHOLE, [])
    assert text.count("asc.3: no such build") == 1
    assert "Cells that failed\n  asc.2, old, run 1: the client ended with 1" in text
    assert "Checks that failed\n  asc.1, run 2: LSM tree: L7" in text
    assert "  failed: two streams: 5 to 6 (asc.2 4)" in text and "  not judged: 64 streams" in text
    # Of the facts hashes are left out.
    facts = facts_of(cells_record()).split("; ")
    assert facts[0] == "2026-01-01" and facts[-3:] == ["7.8.3", "fio: 3.33", "2,000,000 keys"]


def test_cells_for_other_programs_say_what_was_not_measured() -> None:
    rows = [row.split("\t") for row in cells_tsv(VIEW.headings, VIEW.values, VIEW.spread.columns).splitlines()]
    assert rows[0] == ["cell", "w_amp", "w_amp.q1", "w_amp.q3", "ops/sec", "ops/sec.q1", "ops/sec.q3"]
    assert rows[1] == ["asc.1", "1.00", "NA", "NA", "inf", "NA", "NA"]
    assert rows[2] == ["asc.2, old", "4.00", "3.50", "4.50", "NA", "NA", "NA"]


# ---- relative tables -------------------------------------------------------------------------------------------------
def relative() -> RelativeTable:
    ((_, found),) = VIEW.relative
    return replace(found, mean={"8.0": Cell(1.1, "+")}, family="reads", marked=2, chance=0.125)


def test_relative_cells_are_empty_where_nothing_was_measured() -> None:
    head, readww, overwrite, mean = relative_table(relative(), "", with_interval).cells("page")
    assert head == ["test", "7.8", "8.0", "9.0"] and mean == ["geometric mean of reads", "1.00", "1.10 +", ""]
    assert readww == ["readww", "1.00", "1.10 [1.05, 1.15] +", "1.20 [0.10, 9.00] ?"]
    assert overwrite == ["overwrite", "1.00", "", "0.90 [0.88, 0.92] -"]
    assert relative_table(relative(), "", two_digits).cells("page")[2] == ["overwrite", "1.00", "", "0.90"]
    assert "[]" not in legend(relative())
    sure = replace(relative(), cells={"readww": {"8.0": Cell(1.1, "+", 1.0, 1.2, confidence=0.99)}})
    assert "[]: 99 % interval" in legend(sure)


def test_relative_tables_for_other_programs_keep_every_digit() -> None:
    rows = [row.split("\t") for row in render_relative_tsv(relative()).splitlines()]
    assert rows[0][:6] == ["metric", "host", "base", "test", "version", "ratio"]
    assert rows[1] == ["qps", "host", "7.8", "readww", "7.8", "1.0", "NA", "NA", "NA", "base"]
    assert rows[3][5:] == ["1.2", "0.1", "9", "NA", "?"] and rows[-1][3:6] == ["mean:reads", "8.0", "1.1"]
    named = replace(relative(), rows=("a|b",), cells={"a|b": {"8.0": Cell(1.1, "+")}}, mean={})
    assert "| a\\|b |  | 1.10 + |  |" in render_relative_markdown(named)


# ---- a comparison ----------------------------------------------------------------------------------------------------
def difference(ratio: float, low: float, high: float) -> Difference:
    spread = Variances(0.001, 0.02, 0.03)
    return Difference(ratio, low, high, low, high, math.log(ratio), 0.01, 5, 0.01, None, 6, 24, 0.95, spread)


def decision(metric: str, outcome: Outcome, of: Difference | None, **more: object) -> Decision:
    made = Decision(metric, "A", "B", outcome, of, 0.02, 1, 2, base_value=100.0, arm_value=90.0)
    return replace(made, **more)  # type: ignore[arg-type]


def verdicts() -> Verdicts:
    decisions = {
        "qps": decision("qps", Outcome.REGRESSED, difference(0.9, 0.88, 0.92)),
        "io.lat": decision("io.lat", Outcome.NOT_COMPARABLE, None, why=("another disk",), base_value=None),
    }
    rows = (
        BudgetRow("latency", "latency", 100, 110, 10, 8, 12),
        BudgetRow("on CPU", "cpu", 5, 5, 0, -1, 1),
        BudgetRow("LRU", "category", 5, 5, 0, -1, 1),
        BudgetRow("unaccounted", "unaccounted", -1, 3, 4, 3, 5),
    )
    arm = ArmVerdict(
        "A", "B", decisions, {"qps": decision("qps", Outcome.SAME, None)}, {}, Budget(rows, False, 6, 200, 1)
    )
    differing = {"tool engine": ["7.8.3", "7.9.0"], "tool library libz": ["1", "2"], "engine_sha256": ["a", "b"]}
    disturbed = [f"{number}: steal 7 %" for number in range(5)]
    return Verdicts("B is slower", 0.02, 6, 24, [4, 6], 7, "t", 600.0, [arm], differing, [], disturbed)


def test_a_page_has_the_ratio_of_a_figure_where_the_screen_has_its_change() -> None:
    (arm,) = verdicts().arms
    table = decisions_table("B against A", "A", "B", arm.decisions)
    heads, of_qps, of_latency = table.cells("page")
    assert [re.sub("<.*?>", "", head) for head in heads] == [
        "figure", "A", "B", "ratio", "interval", "-9.0 % 0 +9.0 % ", "verdict",
    ]  # fmt: skip
    assert of_qps[:5] == ["- qps", "100.00", "90.00", "0.900", "[0.880, 0.920]"] and of_latency[3] == "-"
    assert table.cells("screen")[1][3] == "-10.0 % [-12.0, -8.0]"


@pytest.mark.parametrize(
    ("change", "drawn"),
    [
        # Beyond the threshold; within it; on either side of zero; across all; and beyond the scale.
        ((-5.0, -4.0, -2.1), " ━━●━━┊  │  ┊      "),
        ((0.01, 0.02, 1.99), "      ┊  │●━┊      "),
        ((-0.01, 0.01, 0.02), "      ┊ ━┿● ┊      "),
        ((-3.0, 1.0, 5.0), "     ━━━━┿━●━━━━━━ "),
        ((-50.0, -3.0, 2.0), "<━━━━●━━━┿━━━      "),
        ((10.0, 20.0, 30.0), "      ┊  │  ┊     >"),
    ],
)
def test_a_bar_is_on_the_side_of_zero_and_of_the_threshold_that_its_interval_is(
    change: tuple[float, float, float], drawn: str
) -> None:
    assert Scale(6.0, 2.0).text(Change(*change)) == drawn


def test_the_intervals_of_a_table_are_on_one_scale() -> None:
    decisions = {
        "qps": decision("qps", Outcome.UNDECIDED, difference(1.002, 0.99, 1.01)),
        "rx.lat": decision("rx.lat", Outcome.REGRESSED, difference(1.5, 1.06, 1.9)),
        "io.lat": decision("io.lat", Outcome.NOT_COMPARABLE, None),
    }
    text = section_text([decisions_table("B against A", "A", "B", decisions)], 80)
    rows = [row for row in text.splitlines() if row[2:3] in "-?f" and "undecided" not in row]
    head, qps, latency = (row[rows[0].index("-9.0 %") :] for row in rows[:3])
    assert head == "-9.0 %   0   +9.0 %" and qps.index("●") - 1 == latency.index("│") == head.index("0", 5)
    assert [at for at, char in enumerate(latency) if char == "┊"] == [7, 11] and latency.endswith(">")
    assert "dots are delta (2 %)" in text
    page = section_markup([decisions_table("B against A", "A", "B", decisions)])
    assert page.count('<svg class="interval-bar"') == 2 and page.count('class="change bad"') == 0
    # Rows of another unit have no bar, and the largest change a third of the scale at least.
    rows_of = [
        BudgetRow("latency", "latency", 100, 110, 10, 8, 12), BudgetRow("get", "category", 5, 6, 1, -99, 90),
        BudgetRow("background", "background", 1, 2, 1, 0, 2, "cores"),
    ]  # fmt: skip
    arm = ArmVerdict("A", "B", {}, {}, {}, Budget(tuple(rows_of), True, 6, 200, 1))
    (budget,) = changes_of(arm)
    assert isinstance(budget, Table)
    wide = section_text([budget], 100)
    assert "-30      0      +30" in wide and wide.count("\u2502") == 1 and "<━━━━━━━━┿●━━━━━━━>" in wide
    assert "\u2502" not in section_text([budget], 60)


def test_a_comparison_has_its_figures_its_twin_and_its_budget() -> None:
    text = comparison_text(compared.record(), verdicts())
    assert text.startswith("readrandom, engine build: A, B, A2; 6 sessions, 24 blocks of windows of 5 s, ")
    assert line(text, "-", "qps")[:5] == ["100.00", "90.00", "-10.0", "%", "[-12.0,"]
    assert line(text, "?", "disk", "latency") == ["-", "90.00"] and "not comparable (another disk)" in text
    assert "qps varies: sessions 0.1 %, blocks 2 %, windows 3 %" in text
    assert "A/A control: A against itself" in text
    assert line(text, "block", "cache")[-2:] == ["not", "significant"]
    # What is no part of the latency is not shown as one, and what is left is no row.
    assert "they leave -1.00 of 100.00 us and +3.00 of 110.00 us: none is a part of it; what a" in " ".join(
        text.split()
    )
    assert "\n  on CPU " in text and not re.search("^ *unaccounted", text, re.MULTILINE)
    (arm,) = (closing := verdicts()).arms
    assert arm.budget is not None
    closing.arms[0] = replace(arm, budget=replace(arm.budget, closes=True))
    text = comparison_text(compared.record(), closing)
    assert "\n    on CPU " in text and line(text, "unaccounted")[:2] == ["-1.00", "3.00"] and "they leave" not in text
    # What differs leaves hashes out, and disturbed blocks beyond three.
    assert "engine build: engine: 7.8.3 | 7.9.0" in text and "1 library: libz" in text and "sha256" not in text
    assert text.count("\nblock ") == 3 and text.endswith("and 2 more disturbed blocks, in verdict.json")
    assert all(len(line) <= 60 for line in comparison_text(compared.record(), verdicts(), 60).splitlines())


def test_a_plan_says_which_of_its_rows_take_longer_than_asked() -> None:
    made = compared.record()
    made = replace(made, plan=replace(made.plan, time_limit=600.0))
    rows = [PlanRow(0.05, (4,), 4, 8, 8, 0.9, 0.8), PlanRow(0.02, (6,), 4, 20, 15, 0.8, 0.8),
            PlanRow(0.001, (6,), 4, 20, 20, 0.1, 0.1, reached=False)]  # fmt: skip
    text = plan_text(made, [("qps", Variances(0.001, 0.02, 0.03), False, rows)])
    assert line(text, "5", "%") == ["4", "4", "8", "8", "90%", "80%"]
    assert line(text, "2", "%")[-3:] == ["longer", "than", "--time"]
    assert line(text, "0.1", "%")[-4:] == ["not", "within", "these", "bounds"]
    assert "blocks vary by 2 %, sessions by 0.1 % (assumed;" in text


def test_runs_that_were_made_before_are_arms_in_the_order_given() -> None:
    found = ComparedRuns(
        [[0, 2], [1]], [("tool perf", ["6.1", "6.2"])], "dwarf | fp", [], [dict(verdicts().arms[0].decisions)]
    )
    text = runs_text(["a", "b", "c"], found)
    assert text.startswith(
        "arm 1: a, c\narm 2: b\n  differs: perf: 6.1 | 6.2\n  dwarf | fp: their profiles are shown separately"
    )
    assert "arm 2 against arm 1" in text and line(text, "-", "qps")


# ---- what steps wrote ------------------------------------------------------------------------------------------------
def test_scripts_for_benchmark_sh_read_our_columns() -> None:
    measured = replace(record(), engine_result={}, threads=2)
    text = render_report_tsv(cells_record(), [], {"readrandom-1": measured})
    head, row = (one.split("\t") for one in text.splitlines())
    assert head == HEADER and len(row) == len(head)
    told = dict(zip(head, row, strict=True))
    assert (told["test"], told["job_id"]) == (f"{measured.workload}.t2", "readrandom-1")
    # What benchmark.sh knows and was not measured is NA.
    assert (told["lsm_sz"], told["blob_sz"], told["p99.9"]) == ("NA", "NA", "NA")


# ---- a fleet ---------------------------------------------------------------------------------------------------------
def test_parts_of_a_release_have_what_they_cost_and_the_total_is_no_part() -> None:
    def change(estimate: float) -> FleetChange:
        of = Interval(estimate, estimate - 0.1, estimate + 0.1, 9)
        return FleetChange(20.0, 20.0 + estimate, of, Interval(0.01, 0, 0.02, 9), 0.001)

    parts = [
        FleetPart("total", "total", change(1.0), "regressed", 3.5),
        FleetPart("category", "LRU", change(0.5), "regressed", None),
    ]
    text = render_watch(Watch("us/query", (12, 10), 4, 7, 1234, parts), "7.8", "7.9")
    assert text.startswith("12 hosts of 7.8, 10 of 7.9, 7 days on which both ran, 4 strata")
    words = "+1.000 [+0.900, +1.100] +0.010 +3.50 total (total)"
    assert line(text, "-", "20.000", "21.000") == words.split()
    assert text.splitlines()[-1].startswith("7.9: 1 regressed; among 1,234 functions and categories")


# ---- one run ---------------------------------------------------------------------------------------------------------
def test_latencies_go_from_the_engine_down_to_the_device() -> None:
    metrics = {"rx.lat": 104.0, "io.lat": 65.0}
    layers = [layer.name for layer in latency_layers(metrics, observers.ladder(), observers.io_latency())]
    assert layers == ["rx.lat", "query", "read call", "block total", "device", "io.lat"]
    text = section_text(latency_section(metrics, observers.ladder(), None))
    assert "39.00 us above the device's" in text
    # 100 us less 2 in the queue and 58 in the device, of which the run queue has 14.
    assert "is 40.00 us in the ladder" in text and "run-queue wait, 14.00 us (35 %)" in text
    assert latency_layers(metrics, None, None) == [] and section_text(latency_section(metrics, None, None)) == ""


def test_operations_are_told_with_what_one_of_them_costs() -> None:
    rows = [Category("LRU", "the block cache", 30, 75.0, 30, None, 1.5), Category("other", "", 10, 25.0, 10, None, 0.5)]
    get = Operation(
        "get", "Get", 40.0, 40, 0.8, Interval(40, 38, 42, 9), 400_000, 2.0, Categories("owner", [], 40, rows, [])
    )
    scan = Operation("scan", "Scan", 10.0, None, 0.2)
    text = section_text(operations_section([get, scan, Operation("merge", "Merge", 0.0, 0, 0.0)]))
    # 2 us times 38/40 and 42/40
    assert line(text, "get") == ["40.00", "38.0..42.0", "0.800", "400,000", "2.00", "1.90..2.10", "40"]
    assert line(text, "scan") == ["10.00", "-", "0.200", "-", "-", "-", "-"]
    assert (
        "merge" not in text and "Where the CPU of one get goes" in text and section_text(operations_section([])) == ""
    )


def test_whose_cpu_it_is_stands_beside_what_was_written() -> None:
    roles = {
        "reader": RoleCounters(3_000_000, 2_000_000, 1_000_000, 0),
        "writer": RoleCounters(1_000_000, 10**6, 0, 400),
    }
    plain = window("plain", 2.0, queries=1000, cpu_ns=4_000_000, storage_write_bytes=4 << 20, roles=roles)
    plain = replace(plain, engine={"flushed_gb": 1 / 512, "stall_seconds": 0.5})
    made = record(windows=[plain], roles={"reader": [1, 2], "writer": [3]})
    text = section_text(roles_section(made))
    assert line(text, "reader") == ["2", "3.00", "0.0015", "75.0", "0"]
    assert line(text, "writer") == ["1", "1.00", "0.0005", "25.0", "200"]
    assert line(text, "baseline") == ["2.0", "1.0", "-", "2.0", "0.50"]
    assert not roles_section(record())
    # Threads of a target that used next to nothing are counted and not listed.
    groups = {"server": RoleCounters(10**9, 10**9, 0, 0), "idle": RoleCounters(10, 10, 0, 0)}
    plain = window("plain", 2.0, cpu_ns=10**9, groups=groups)
    target = Target("--pid 42", "/server", [42], groups={"server": [42, 43], "idle": [44]})
    text = section_text(roles_section(record(windows=[plain], target=target)))
    assert line(text, "server") == ["2", "-", "0.5000", "100.0"]
    assert text.endswith("1 others used less than 0.1 %.")
