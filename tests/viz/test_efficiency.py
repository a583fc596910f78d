"""The experiment's tables from records made in code: what they claim, and what they must not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from ground.results.categories import Categories, Category
from ground.results.cells import Baseline, CellOutcome, CellsRecord, CellsRun, Judged
from ground.results.checks import Check, Verdict
from ground.results.database_facts import DatabaseFacts
from ground.results.interval import Interval
from ground.results.record import Unobserved, Window
from ground.results.run import Run
from ground.text.progress import Reporter
from ground.text.titles import title_of
from ioflame.analysis.bootstrap import Draws
from ioflame.analysis.cell_draws import CellRuns, MeasuredRun
from ioflame.analysis.cells import PROOFS
from ioflame.commands import experiment as command
from ioflame.present.experiment_page import cells_text, cells_view
from ioflame.stages.cells import seconds_of_cells
from tests.records import profile_facts, run_record, window
from tests.viz.runs import record
from viz.experiment_view import ExperimentView
from workloads.cells import Cells
from workloads.engines.rocksdb.engine import RocksDB
from workloads.experiment import read_cells

HOST = {"cpus": "2", "cpu": "Model", "kernel": "6.1", "distribution": "Debian", "hypervisor": "yes"}
NAMES = ("libc+k", "bloom", "other")


def fio(iops: float) -> Baseline:
    return Baseline(iops, 10_000, 1.4, 9.6, 100.0, 90.0, 8.0)


def seconds(qps: int, cpu_us: float, reads_per_query: float = 1.0) -> list[Window]:
    """Ten seconds around `qps`, none like the next: about 1 % apart."""
    made = []
    for i in range(10):
        queries = qps * (1 + (i % 5 - 2) / 200)
        reads = round(queries * reads_per_query)
        cpu_ns = int(queries * cpu_us * 1e3)
        made.append(
            window(
                "plain", 1.0, "", queries=queries, storage_reads=reads, storage_read_bytes=reads * 8192,
                process_read_bytes=reads * 8192, storage_read_ms=reads * 9 // 100, cpu_ns=cpu_ns,
                user_ns=cpu_ns // 2, system_ns=cpu_ns // 2,
            )
        )  # fmt: skip
    return made


def shares(*weights: int) -> Categories:
    """A view whose ten seconds differ by a tenth of each weight, the sum over them being ten times `weights`."""
    slices = [
        [w + (1 if i % 2 else -1) * (w // 10) * (1 if j else -1) for j, w in enumerate(weights)] for i in range(10)
    ]
    totals = [sum(one[j] for one in slices) for j in range(len(weights))]
    made = [Category(n, "", w, 100 * w / sum(totals), w) for n, w in zip(NAMES, totals, strict=True)]
    return Categories("owner", ["7.8.3"], sum(totals), made, [], slices)


def measured(qps: int, cpu_us: float, weights: Sequence[int] = (40, 20, 40), reads: float = 1.0) -> MeasuredRun:
    made = run_record(
        profile=profile_facts(samples=1000, weight=10, coverage=0.9),
        checks=[Check("LSM tree", Verdict.OK, "L7")],
        database=DatabaseFacts(levels="L7 2 files", description="10 keys; L7"),
    )
    view = shares(*weights)
    return MeasuredRun(made, {"owner": view, "leaf": replace(view, view="leaf")}, seconds(qps, cpu_us, reads))


def cell(*runs: MeasuredRun, fio_iops: Sequence[float] = ()) -> CellRuns:
    return CellRuns(1, {"readrandom": runs}, [fio(iops) for iops in fio_iops])


def experiment(*names: str) -> Cells:
    """Of these cells of io-efficiency, with one user."""
    whole = read_cells("io-efficiency", RocksDB(), tuple(PROOFS)).of_users([1])
    cells = [one for one in whole.cells if one.once or one.name in [f"{name}, 1 user" for name in names]]
    known = {one.name for one in cells}
    return msgspec.structs.replace(whole, cells=cells, holds=[h for h in whole.holds if known.issuperset(h.cells)])


def shown(directory: Path, **cells: CellRuns) -> ExperimentView:
    """What is shown of cells by name, each of them done; the directory is that of the experiment."""
    runs = {f"{name}, 1 user": one for name, one in cells.items()}
    done = [
        CellOutcome(name, turn, status="done", figures={"last.qps": 1.0}, baselines=list(one.baselines))
        for name, one in runs.items()
        for turn in range(1, len(one.steps["readrandom"]) + 1)
    ]
    record = CellsRecord("io-efficiency", "now", 10, {}, HOST, {"engine": "RocksDB 7.8.3"}, done)
    return cells_view(experiment(*cells), CellsRun(directory, record), runs)


def columns(one: CellRuns) -> Mapping[str, Draws]:
    return seconds_of_cells(experiment("readrandom"), {"readrandom, 1 user": one}).columns["readrandom, 1 user"]


def table(view: ExperimentView, caption: str) -> dict[str, list[str]]:
    """A table beside that of the cells, by the first column."""
    found = next(one for one in view.breakdowns if one.title.startswith(caption))
    return {row[0]: list(row[1:]) for row in found.rows}


STEADY = (9990.0, 10_000.0, 10_010.0, 10_005.0, 9995.0)


def changes(view: ExperimentView) -> dict[str, str]:
    found = next(one for one in view.breakdowns if one.title.startswith("Differences"))
    return dict(zip(found.cells("page")[0][2:], found.rows[0][2:], strict=True))


def test_cells_differ_in_nothing_where_their_difference_holds_zero(tmp_path: Path) -> None:
    first = cell(measured(8000, 20.0), fio_iops=STEADY)
    same = shown(tmp_path, readrandom=first, readrandom2=cell(measured(8001, 20.0), fio_iops=STEADY))
    assert set(changes(same).values()) == {"not significant"}
    faster = changes(shown(tmp_path, readrandom=first, readrandom2=cell(measured(8400, 18.0), fio_iops=STEADY)))
    # fio's own was the same in every run.
    assert (faster["qps"], faster["cpuPer"], faster["io.lat"]) == ("+5.0", "-10.0", "not significant")
    # A device that drifts as much is named beside the difference.
    view = shown(
        tmp_path,
        readrandom=cell(measured(8000, 20.0), fio_iops=(9000, 10_000)),
        readrandom2=cell(measured(8400, 18.0), fio_iops=(9500, 9800)),
    )
    assert changes(view)["qps"] == "+5.0 ?"
    fio_table = next(one for one in view.breakdowns if one.title.startswith("fio, random reads"))
    assert "in order: 9000, 10000, 9500, 9800" in fio_table.legend
    assert table(view, "fio, random reads")["1 user, median"][0] == "9650"


def test_repeats_or_runs_of_fio_that_differ_widen_the_interval() -> None:
    """Each repeat alone is certain to 1 %; three that differ by 10 % are not."""

    def interval(metric: str, one: CellRuns) -> Interval:
        found = columns(one)[metric].interval()
        assert found is not None and found.low <= found.estimate <= found.high
        return found

    one = interval("qps", cell(measured(8000, 20.0)))
    three = interval("qps", cell(*(measured(qps, 20.0) for qps in (8000, 8800, 8400))))
    assert one.high - one.low < 100
    assert three.estimate == pytest.approx(8400) and three.low < 8100 and three.high > 8700
    steady, varying = (
        interval("io.eff", cell(measured(8000, 20.0), fio_iops=iops))
        for iops in (STEADY, (8000, 10_000, 12_000, 9000, 11_000))
    )
    assert varying.high - varying.low > 5 * (steady.high - steady.low)


def test_a_cell_is_told_against_its_own_runs_of_fio(tmp_path: Path) -> None:
    """A device that gives a tenth while the first cell runs: it is as efficient as the others."""
    view = shown(
        tmp_path,
        readrandom=cell(measured(800, 20.0), fio_iops=(990, 1010)),
        readrandom2=cell(measured(8000, 20.0), fio_iops=(1010, 10_000)),
        readrandom3=cell(measured(8000, 20.0), fio_iops=(10_000, 10_000)),
    )
    values = {name.partition(",")[0]: row["io.eff"] for name, row in view.values.items()}
    found = {name: value.median for name, value in values.items() if value is not None}
    assert found["readrandom"] == found["readrandom3"] == pytest.approx(0.8, rel=0.01)
    assert found["readrandom2"] == pytest.approx(8000 / ((1010 + 10_000) / 2), rel=0.01)


def test_a_model_is_told_by_the_iops_it_says_and_by_what_it_is_off() -> None:
    found = columns(cell(measured(8000, 20.0), fio_iops=STEADY))
    # A read takes 90 us of the device and 20 us of CPU; of fio 100 us and 9 us beyond its own 11.
    assert found["io+cpu"].estimate == pytest.approx(1e6 / 110, rel=0.01)
    assert found["fio+inc"].estimate == pytest.approx(1e6 / 109, rel=0.01)
    for name in ("io+cpu", "fio+inc"):
        off = found[f"{name} off %"].interval()
        assert off is not None and off.low <= off.estimate <= off.high
        assert off.estimate == pytest.approx(100 * (found[name].estimate / found["iops"].estimate - 1), abs=0.1)


def test_the_shares_of_all_repeats_are_pooled_and_add_up_to_the_cpu_of_a_query(tmp_path: Path) -> None:
    both = cell(measured(8000, 20.0, (40, 20, 40)), measured(8000, 20.0, (10, 10, 80)))
    categories = table(shown(tmp_path, readrandom=both), "Categories, owner view, 1 user")
    found = columns(both)
    assert [categories[title_of(name)][0] for name in NAMES] == ["25.00", "15.00", "60.00"]
    assert sum(float(categories[title_of(name)][2]) for name in NAMES) == pytest.approx(found["cpu/query"].estimate)
    assert categories["all"][:3] == ["100.00", "", "20.00"]
    assert found["bloom %"].estimate == pytest.approx(15.0)


@pytest.mark.parametrize(
    ("last", "outcomes", "moves"),
    [
        ((60, 0, 40), (True, True), ("falls", "rises")),
        ((40, 20, 40), (None, None), ("not significant", "not significant")),
        ((10, 50, 40), (False, False), ("rises", "falls")),
    ],
)
def test_the_published_orders_are_claimed_only_where_they_are_seen(
    tmp_path: Path, last: Sequence[int], outcomes: tuple[bool | None, ...], moves: tuple[str, ...]
) -> None:
    view = shown(tmp_path, readrandom=cell(measured(8000, 20.0)), readrandom3=cell(measured(8000, 20.0, last)))
    found: dict[str, Judged] = dict(view.judged)
    bloom, libc = found["1 user: the share of bloom falls"], found["1 user: the share of libc+k rises"]
    assert (bloom.holds, libc.holds) == outcomes, (bloom.why, libc.why)
    categories = table(view, "Categories, owner view")
    assert (categories["bloom filter"][-1], categories["read syscall"][-1]) == moves


def test_a_database_that_reads_nothing_has_no_figures_per_read_and_without_fio_none_against_it(tmp_path: Path) -> None:
    view = shown(
        tmp_path, readrandom=cell(measured(8000, 20.0, reads=0.0), fio_iops=STEADY),
        readrandom2=cell(measured(8000, 20.0)),
    )  # fmt: skip
    absent = {name for name, value in view.values["readrandom, 1 user"].items() if value is None}
    per_read = {"reqsz", "usPer", "syPer", "cpuPer", "io.lat", "us.inc", "cpu.inc"}
    assert per_read <= absent and "qps" not in absent
    text = cells_text(view, CellsRun(tmp_path, CellsRecord("x", "now", 10, {}, HOST, {})), None)
    line = next(line for line in text.splitlines() if line.startswith("  readrandom, 1 user"))
    assert re.split(r"  +", line.strip())[1:7] == ["8,000", "0", "-", "-", "-", "-"]

    row = view.values["readrandom2, 1 user"]
    assert [row[name] for name in ("io.eff", "us.inc", "cpu.inc", "fio+inc")] == [None] * 4
    assert row["io+cpu"] is not None
    view = shown(tmp_path, readrandom=cell(measured(8000, 20.0)))
    assert not any(one.title.startswith("fio") for one in view.breakdowns)


def test_reads_of_others_are_named_beside_the_figures_they_spoil(tmp_path: Path) -> None:
    one = cell(measured(8000, 20.0), fio_iops=STEADY)
    one.steps["readrandom"][0].record.checks.append(
        Check("others' reads", Verdict.WARN, "24.9%", "IOPS and reqsz count them too")
    )
    one.baselines[1].others = 0.468
    view = shown(tmp_path, readrandom=one)
    fio_table = next(one for one in view.breakdowns if one.title.startswith("fio"))
    assert "9990, 10000 (47 % of the bytes were read by others), 10010" in fio_table.legend
    assert list(table(view, "What is not ok")) == ["1 warn: others' reads: 24.9%; IOPS and reqsz count them too"]


def test_every_check_of_every_run_is_told_beside_its_tree(tmp_path: Path) -> None:
    bad = measured(8000, 20.0)
    bad.record.checks = [Check("LSM tree", Verdict.FAILED, "L7", "two levels"), Check("drift", Verdict.OK, "1 %")]
    last = cell(measured(8000, 20.0, (10, 50, 40)), fio_iops=STEADY)
    view = shown(tmp_path, readrandom=cell(bad, fio_iops=STEADY), readrandom3=last)
    assert table(view, "Proofs and checks") == {"LSM tree": ["failed", "ok"], "drift": ["ok", "-"]}
    proofs = next(one for one in view.breakdowns if one.title.startswith("Proofs"))
    assert proofs.legend.startswith("1: readrandom, 1 user, run 1: L7 2 files; 2: readrandom3")
    assert list(table(view, "What is not ok")) == ["1 failed: LSM tree: L7; two levels"]
    # The two shares are judged.
    assert set(view.charted) == {"iops", "cpu/query", "io.eff", "cpu.inc", "bloom %", "libc+k %"}
    values = [row[name] for row in view.values.values() for name in view.charted]
    assert all(value is not None and value.low is not None for value in values)


def test_what_did_not_watch_a_cell_is_the_first_line_and_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = [Unobserved("offcpu", "its programs are refused", "ioflame doctor", asked) for asked in (True, False)]
    made = [Run.create(tmp_path, record(unobserved=lost)).directory.name for _ in range(2)]
    name, step = "readrandom, 1 user", "readrandom"
    outcomes = [CellOutcome(name, turn, status="done", runs={step: directory}) for turn, directory in enumerate(made)]
    going = CellsRun(tmp_path, CellsRecord("io-efficiency", "now", 10, {}, HOST, {}, outcomes))
    view = shown(tmp_path, readrandom=cell(measured(8000, 20.0)))
    monkeypatch.setattr(command, "conduct_cells", lambda *_: None)
    monkeypatch.setattr(command, "cells_view", lambda *_: replace(view, judged=[]))
    job: Any = SimpleNamespace(cells=experiment("readrandom"), shares=False)

    def printed() -> tuple[int, list[str]]:
        return command._conduct(job, going, Reporter(quiet=True), None), capsys.readouterr().out.splitlines()

    code, lines = printed()
    first = f"{name}, {step}: offcpu was asked for and did not watch: its programs are refused -> ioflame doctor"
    assert code == 1 and lines[0] == first and sum("did not watch" in line for line in lines) == 1
    outcomes[:] = []
    code, lines = printed()
    assert code == 0 and not any("did not watch" in line for line in lines)
