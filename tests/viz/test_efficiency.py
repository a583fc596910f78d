"""The experiment's tables from records made in code: what they claim, and what they must not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

import pytest

from ground.results.categories import Categories, Category
from ground.results.checks import Check, Verdict
from ground.results.efficiency import MeasuredStep
from ground.results.experiment import Baseline, ExperimentRecord, StepRecord
from ground.results.record import Window
from ioflame.analysis.io_efficiency import Row, efficiency, rows
from tests.records import profile_facts, run_record, window
from viz.terminal.experiment import render_efficiency

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
                storage_read_ms=reads * 9 // 100, cpu_ns=cpu_ns, user_ns=cpu_ns // 2, system_ns=cpu_ns // 2,
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


def measured(step: str, qps: int, cpu_us: float, weights: Sequence[int] = (40, 20, 40), repeat: int = 1,
             reads: float = 1.0, failed: bool = False) -> MeasuredStep:  # fmt: skip
    record = run_record()
    record.profile = profile_facts(samples=1000, weight=10, coverage=0.9)
    record.checks = [Check("LSM tree", Verdict.FAILED if failed else Verdict.OK, "L7", "two levels" if failed else "")]
    record.database = {"levels": "L7 2 files", "description": "10 keys; L7"}
    view = shares(*weights)
    made = StepRecord(f"{repeat:02}-{step}-u1-r{repeat}", "measure", step, 1, repeat, "any", "done")
    return MeasuredStep(made, record, view, replace(view, view="leaf"), seconds(qps, cpu_us, reads))


def experiment(found: Sequence[MeasuredStep], *of_fio: float) -> ExperimentRecord:
    """A run of fio before each step, and the rest of them after the last."""
    runs = [
        StepRecord(f"{i}-fio", "baseline", "fio", 1, 1, "any", "done", baseline=fio(iops))
        for i, iops in enumerate(of_fio)
    ]
    steps = [step for run, one in zip_longest(runs, found) for step in (run, one and one.step) if step]
    orders = {"bloom": "falls", "libc+k": "rises"}
    return ExperimentRecord("io-efficiency", "about", "now", {}, HOST, {"engine": "7.8.3"}, steps, orders=orders)


def rendered(found: Sequence[MeasuredStep], *of_fio: float) -> str:
    made = experiment(found, *of_fio)
    return render_efficiency(made, efficiency(made, found))


def rows_of(found: Sequence[MeasuredStep], *of_fio: float) -> list[Row]:
    return list(rows(experiment(found, *of_fio), found))


STEADY = (9990.0, 10_000.0, 10_010.0, 10_005.0, 9995.0)


def cells(text: str, *start: str) -> list[str]:
    """The first line that starts with these words, as its cells after them."""
    found = next(line for line in text.splitlines() if line.split()[: len(start)] == list(start))
    return re.split(r"  +", found.strip())[len(start) :]


def test_rows_differ_in_nothing_where_their_difference_holds_zero() -> None:
    same = [measured("readrandom", 8000, 20.0), measured("readrandom2", 8001, 20.0)]
    text = rendered(same, *STEADY)
    assert set(cells(text, "readrandom", "readrandom2", "1")) == {"none seen"}
    faster = [measured("readrandom", 8000, 20.0), measured("readrandom2", 8400, 18.0)]
    differences = cells(rendered(faster, *STEADY), "readrandom", "readrandom2", "1")
    assert differences[0] == "+5.0"  # qps
    assert differences[4] == "-10.0"  # cpuPer; fio's own was the same in every run
    assert differences[6] == "none seen"  # io.lat


def test_a_device_that_drifts_as_much_is_named_beside_the_difference() -> None:
    faster = [measured("readrandom", 8000, 20.0), measured("readrandom2", 8400, 18.0)]
    text = rendered(faster, 9000, 10_000, 9500, 9800, 9900)
    assert cells(text, "readrandom", "readrandom2", "1")[0] == "+5.0 ?"
    assert "in order: 9000, 10000, 9500, 9800, 9900" in text


def test_repeats_that_differ_widen_the_interval() -> None:
    """Each repeat alone is certain to 1 %; three that differ by 10 % are not."""
    (single,) = rows_of([measured("readrandom", 8000, 20.0)], *STEADY)
    one = single.figures["qps"].interval()
    repeats = [measured("readrandom", qps, 20.0, repeat=i) for i, qps in enumerate((8000, 8800, 8400), 1)]
    (row,) = rows_of(repeats, *STEADY)
    three = row.figures["qps"].interval()
    assert one is not None
    assert three is not None
    assert one.high - one.low < 100
    assert three.estimate == pytest.approx(8400)
    assert three.low < 8100
    assert three.high > 8700
    assert row.samples() == 3000


def test_fio_that_varies_makes_the_efficiency_as_uncertain() -> None:
    def interval(*of_fio: float) -> tuple[float, float]:
        (row,) = rows_of([measured("readrandom", 8000, 20.0)], *of_fio)
        found = row.figures["io.eff"].interval()
        assert found is not None
        assert found.low <= found.estimate <= found.high
        return found.low, found.high

    steady, varying = interval(*STEADY), interval(8000, 10_000, 12_000, 9000, 11_000)
    assert varying[1] - varying[0] > 5 * (steady[1] - steady[0])


def test_a_step_is_told_against_the_runs_of_fio_beside_it() -> None:
    """A device that gives a tenth while the first step runs: the step is as efficient as the others."""
    found = [
        measured("readrandom", 800, 20.0),
        measured("readrandom2", 8000, 20.0),
        measured("readrandom3", 8000, 20.0),
    ]
    slow, fast, last = rows_of(found, 990, 1010, 10_000, 10_000, 9000)
    assert slow.figures["io.eff"].estimate == pytest.approx(0.8, rel=0.01)
    assert fast.figures["io.eff"].estimate == pytest.approx(8000 / ((1010 + 10_000) / 2), rel=0.01)
    assert last.figures["io.eff"].estimate == pytest.approx(0.8, rel=0.01)  # the fifth run is not beside it


def test_the_shares_of_all_repeats_are_pooled_and_add_up_to_the_cpu_of_a_query() -> None:
    repeats = [measured("readrandom", 8000, 20.0, (40, 20, 40), 1), measured("readrandom", 8000, 20.0, (10, 10, 80), 2)]
    (row,) = rows_of(repeats, *STEADY)
    found = row.categories("owner")
    assert [round(c.share, 6) for c in found] == [25.0, 15.0, 60.0]
    assert sum(c.us_per_query for c in found) == pytest.approx(row.figures["cpu/query"].estimate)
    text = rendered(repeats, *STEADY)
    assert cells(text, "all")[:2] == ["100.00", "20.00"]


@pytest.mark.parametrize(
    ("last", "says"),
    [
        ((60, 0, 40), ["bloom falls: 20.00 -> 0.00 %: holds", "libc+k rises: 40.00 -> 60.00 %: holds"]),
        ((40, 20, 40), ["bloom falls: 20.00 -> 20.00 %: no difference seen", "libc+k rises: 40.00 -> 40.00 %: no"]),
        ((10, 50, 40), ["bloom falls: 20.00 -> 50.00 %: DOES NOT HOLD: it rises",
                        "libc+k rises: 40.00 -> 10.00 %: DOES NOT HOLD: it falls"]),
    ],
)  # fmt: skip
def test_the_published_orders_are_claimed_only_where_they_are_seen(last: Sequence[int], says: list[str]) -> None:
    steps = [measured("readrandom", 8000, 20.0), measured("readrandom3", 8000, 20.0, last)]
    text = rendered(steps, *STEADY)
    for sentence in says:
        assert sentence in text


def test_a_database_that_reads_nothing_has_no_figures_per_read() -> None:
    text = rendered([measured("readrandom", 8000, 20.0, reads=0.0)], *STEADY)
    row = cells(text, "readrandom", "1")
    assert row[0] == "8000"
    assert row[2:6] == ["-"] * 4  # reqsz, usPer, syPer, cpuPer
    assert row[8:11] == ["-"] * 3  # io.eff, us.inc, cpu.inc


def test_an_experiment_without_fio_has_no_figures_against_it() -> None:
    text = rendered([measured("readrandom", 8000, 20.0)])
    assert "fio, random reads" not in text
    assert cells(text, "readrandom", "1")[8:11] == ["-"] * 3


def test_reads_of_others_are_named_beside_the_figures_they_spoil() -> None:
    step = measured("readrandom", 8000, 20.0)
    step.record.checks.append(Check("others' reads", Verdict.WARN, "24.9%", "IOPS and reqsz count them too"))
    made = experiment([step], *STEADY)
    spoilt = made.steps[2].baseline
    assert spoilt is not None
    spoilt.others = 0.468
    text = render_efficiency(made, efficiency(made, [step]))
    assert cells(text, "readrandom", "1")[-1] == "hold, others"
    assert "9990, 10000 (47 % of the bytes were read by others), 10010" in text


def test_a_proof_that_fails_marks_its_row_and_is_named() -> None:
    steps = [measured("readrandom", 8000, 20.0, failed=True), measured("readrandom3", 8000, 20.0)]
    text = rendered(steps, *STEADY)
    assert cells(text, "readrandom", "1")[-1] == "FAILED"
    assert cells(text, "readrandom3", "1")[-1] == "hold"
    assert "01 failed: LSM tree: L7; two levels" in text
