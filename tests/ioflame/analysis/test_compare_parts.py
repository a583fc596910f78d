"""Parts of a comparison: what bars a verdict, whose reads a device's are, least squares, runs made before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ground.results.differences import Outcome, PositionEffect
from ground.results.record import RunRecord
from ioflame.analysis.compare.figures import of_the_process
from ioflame.analysis.compare.nested import solve
from ioflame.analysis.compare.runs import comparability, compare_runs
from ioflame.analysis.compare.verdict import of_position
from tests.records import window
from tests.viz.runs import record


def test_a_place_that_differs_by_less_than_matters_bars_nothing() -> None:
    assert of_position(PositionEffect(1.009, 1.008, 1.0099, 6), 0.02) == []
    assert of_position(PositionEffect(1.02, 1.011, 1.03, 6), 0.02) != []


def test_reads_of_a_device_are_those_of_the_process_by_bytes() -> None:
    shared = window(
        "plain", storage_reads=1000, storage_read_bytes=8_000_000, storage_read_ms=80, process_read_bytes=6_000_000
    )
    own = of_the_process(shared).counters
    assert (own.storage_reads, own.storage_read_bytes, own.storage_read_ms) == (750, 6_000_000, 60)
    # Latency and size of a request stay those of all.
    assert own.storage_read_ms / own.storage_reads == 80 / 1000
    # What came from the page cache is no read of the device.
    cached = replace(shared, counters=replace(shared.counters, process_read_bytes=9_000_000))
    assert of_the_process(cached).counters.storage_reads == 1000
    nothing = window("plain", queries=5)
    assert of_the_process(nothing) is nothing


def test_least_squares_find_the_line_and_leave_out_what_others_explain() -> None:
    xs = [(1.0, 2.0), (2.0, 1.0), (-1.0, 0.5), (-2.0, -3.5)]
    ys = [3 * a - 2 * b for a, b in xs]
    products = [[sum(x[i] * x[j] for x in xs) for j in range(2)] for i in range(2)]
    cross = [sum(x[i] * y for x, y in zip(xs, ys, strict=True)) for i in range(2)]
    coefficients, inverse, rank = solve(products, cross)
    assert coefficients == pytest.approx([3, -2]) and rank == 2
    for i in range(2):
        row = [sum(products[i][k] * inverse[k][j] for k in range(2)) for j in range(2)]
        assert row == pytest.approx([float(i == j) for j in range(2)])
    # The second column is twice the first: it says nothing of its own.
    doubled = [[products[0][0] * a * b for b in (1, 2)] for a in (1, 2)]
    coefficients, inverse, rank = solve(doubled, [cross[0], 2 * cross[0]])
    assert rank == 1 and coefficients == pytest.approx([cross[0] / products[0][0], 0]) and inverse[1] == [0, 0]


def test_runs_that_are_alike_are_repeats_of_one_arm_and_a_setting_that_is_meant_to_differ_bars_nothing() -> None:
    """What is said of runs: test_compare_command.py."""

    def run(build: str, slower: float) -> RunRecord:
        made = record(tools={"engine": "7.8.3", "engine_artifact": build})
        made.metrics["cpuPer"] *= slower
        return made

    found = compare_runs([run("a", 1), run("b", 1.2), run("a", 1.001), run("b", 1.2)], 0.02)
    assert found.arms == [[0, 2], [1, 3]] and found.bars == []
    base, arm = found.decisions[0]["cpuPer"].base_value, found.decisions[0]["cpuPer"].arm_value
    assert base and arm and arm / base == pytest.approx(1.2, rel=0.01)
    assert found.decisions[0]["qps"].outcome in (Outcome.SAME, Outcome.UNDECIDED)
    of_threads = [run("a", 1), replace(run("a", 1), threads=4)]
    barred = compare_runs(of_threads, 0.02)
    assert {one.outcome for one in barred.decisions[0].values()} == {Outcome.NOT_COMPARABLE}
    assert compare_runs(of_threads, 0.02, factor="threads").bars == []


# ---- what may be compared between runs that were not measured alike --------------------------------------------------
ONE = record()


def other(of: str = "", **changes: Any) -> Any:
    if of == "profile":
        assert ONE.profile is not None
        return record(profile=replace(ONE.profile, **changes))
    return record(host={**ONE.host, **changes}) if of == "host" else record(**changes)


def test_one_instrument_compares_everything_and_two_leave_owner_categories() -> None:
    found = comparability([ONE, other()])
    assert (found.heading, found.leaf, found.frames) == ("", (), ())
    for changes, words in (
        ({"event": "cycles"}, "event cpu-clock, cycles"), ({"unit": "cycles"}, "unit ns, cycles"),
        ({"scope": "process"}, "scope system, process"), ({"callgraph": "dwarf"}, "call graphs fp, dwarf"),
    ):  # fmt: skip
        found = comparability([ONE, other("profile", **changes)])
        assert found.heading == f"two instruments: {words}"
        assert found.leaf == found.frames == (words,)


def test_another_host_leaves_categories_and_no_frame_and_another_ioflame_folds_anew() -> None:
    for changes in ({"host_id": "b"}, {"cpu": "Other"}, {"kernel": "6.18"}):
        found = comparability([ONE, other("host", **changes)])
        assert (found.heading, found.leaf) == ("", ()) and len(found.frames) == 1
        assert str(next(iter(changes.values()))) in found.frames[0]
    newer = other(ioflame="0.2.0")
    found = comparability([ONE, newer])
    assert found.frames == ("ioflame 0.1.0, 0.2.0; ioflame analyse RUN folds each anew from perf.data",)
    assert comparability([ONE, newer], folded_alike=True).frames == ()
