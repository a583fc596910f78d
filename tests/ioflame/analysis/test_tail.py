"""Slow queries beside median ones: a planted cause is the row that grows, and everything adds up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ground.errors import MeasurementError
from ground.results.checks import Verdict
from ground.results.query_records import PARTS, QueryRecord, RecordFile
from ground.results.tail import KINDS, Tail, Threshold
from ioflame.analysis.checks.tail import notes_of, tail_checks
from ioflame.analysis.tail import row_of, tail_of, used_records
from ioflame.analysis.tail_detail import Undisturbed, folded_time, worst_queries
from tests.tails import PLACES, STATE_NAMES, naps, query, recorded, sample, wait


@pytest.fixture(scope="module")
def found() -> Tail:
    return tail_of(*naps(), PLACES).tail


def tail_with(records: list[QueryRecord], count: int) -> Tail:
    return tail_of(recorded(records, count), RecordFile(records, STATE_NAMES, (1, 2)), PLACES).tail


def fast(step: int = 1, count: int = 1000) -> list[QueryRecord]:
    return [query(step * number, 100 + number % 7) for number in range(count)]


def test_a_planted_nap_is_the_surplus_and_rows_add_up(found: Tail) -> None:
    rows = {row.name: row for row in found.rows}
    nap, device = rows["sleep in planted_nap"], rows["device"]
    assert nap.share is not None and nap.share > 0.95 and (nap.tail_us, nap.median_us) == (5000.0, 0.0)
    assert nap.gap is not None and nap.gap.leaves_zero
    assert (nap.gap.low, nap.gap.high) == pytest.approx((5000.0, 5000.0))
    assert device.gap is not None and abs(device.gap.estimate) < 10
    # Rows add up to the mean of their group.
    assert sum(row.tail_us for row in found.rows) == pytest.approx(found.tail.mean_us, abs=0.01)
    assert sum(row.median_us for row in found.rows) == pytest.approx(found.median.mean_us, abs=0.01)
    assert found.gap is not None
    assert sum(row.gap.estimate for row in found.rows if row.gap) == pytest.approx(found.gap.estimate, abs=0.01)
    assert sum(row.share or 0 for row in found.rows) == pytest.approx(1.0)
    assert [row.kind for row in found.rows] == sorted((row.kind for row in found.rows), key=list(KINDS).index)


def test_the_threshold_is_the_99th_percentile_with_an_interval_by_ranks(found: Tail) -> None:
    _, file = naps()
    longest = sorted((one.ns for one in file.records), reverse=True)
    # Of 20,000 queries the 200th from above, and 1.96 x sqrt(198) ranks to either side.
    assert found.threshold.ns == longest[200]
    assert (found.threshold.low_ns, found.threshold.high_ns) == (longest[227], longest[172])
    assert found.tail.queries == pytest.approx(201, abs=1) and not found.threshold.asked


def test_kept_records_stand_for_all(found: Tail) -> None:
    given, file = naps()
    used = used_records(given, file, PLACES)
    assert sum(one.weight for one in used) == pytest.approx(given.histogram.count)
    assert found.weighted_us == pytest.approx(found.mean_us, rel=0.001)
    assert found.median.queries == pytest.approx(0.2 * 20_000, rel=0.15)
    assert {check.verdict for check in tail_checks(found)} == {Verdict.OK}
    assert [check.verdict for check in tail_checks(replace(found, weighted_us=2 * found.mean_us, gap=None))] == [
        Verdict.WARN, Verdict.WARN,
    ]  # fmt: skip


def test_a_lost_slow_record_makes_the_others_stand_for_it() -> None:
    given, file = naps()
    without = RecordFile(file.records[::2], file.states, file.clocks)
    losses = {"lost_slow": given.slow - sum(one.slow for one in without.records)}
    found = tail_of(replace(given, losses=losses), without, PLACES).tail
    assert found.tail.queries == pytest.approx(200, abs=20) and found.lost_slow == losses["lost_slow"]
    assert "slow queries were lost" in found.notes[0]


def test_a_threshold_that_was_asked_for_is_no_percentile() -> None:
    given, file = naps()
    found = tail_of(replace(given, threshold_ns=4_000_000), file, PLACES).tail
    assert (found.threshold.ns, found.threshold.low_ns, found.threshold.asked) == (4_000_000, 4_000_000, True)
    assert found.tail.records == given.slow and found.threshold.quantile == pytest.approx(0.97, abs=0.005)
    within = tail_of(replace(given, threshold_ns=95_000), file, PLACES).tail
    assert within.gap is None and "lies within the median queries" in within.notes[0]


def test_where_the_percentile_is_below_what_was_kept_it_is_not_called_so() -> None:
    found = tail_with(fast() + [query(number, 900, slow=True) for number in range(0, 900, 15)], 20_000)
    assert found.threshold.ns == 900_000 and found.threshold.quantile == pytest.approx(1 - 60 / 20_000)
    assert any("99th percentile is shorter" in note for note in found.notes)


def test_few_slow_queries_have_no_difference() -> None:
    found = tail_with(fast() + [query(3, 900, slow=True)] * 20, 1020)
    assert found.gap is None and all(row.gap is None and row.share is None for row in found.rows)
    assert found.mix_us is None and "below 50 no difference is printed" in " ".join(found.notes)


def test_no_record_is_an_error_that_says_what_there_was() -> None:
    with pytest.raises(MeasurementError, match=r"no query of process 42 was recorded in 10\.0 s"):
        tail_of(recorded([], 0), RecordFile([], STATE_NAMES, (1, 2)), {})


def test_a_lock_has_its_place_and_who_held_it_and_small_places_of_a_kind_are_one_row() -> None:
    held = wait(10, 2010, 2012, "lock", 2, who=99)
    found = tail_with(fast(10, 2000) + [query(10 * n, 2100, held, slow=True) for n in range(0, 4000, 40)], 5000)
    (lock,) = [row for row in found.rows if row.kind == "lock"]
    assert (lock.name, lock.waker) == ("lock in Cache::Lookup", (99, 1.0))
    spans = [wait(10, 11, 12, "sleep", 1), wait(20, 1020, 1021, "lock", 2)]
    found = tail_with(fast() + [query(number, 2000, *spans, slow=True) for number in range(60)], 5000)
    waits = [row.name for row in found.rows if row.kind in ("lock", "sleep")]
    assert waits == ["lock in Cache::Lookup", "other sleeps"]


def test_another_mix_is_told_from_what_is_within() -> None:
    records = [query(number, 100 + number % 7, reads=1) for number in range(1000)]
    records += [query(number, 1000, reads=1 + 4 * (number % 2), slow=True) for number in range(60)]
    found = tail_with(records, 5000)
    assert [(row.name, row.tail_share, row.median_share) for row in found.mix] == [("1", 0.5, 1.0), ("3+", 0.5, 0.0)]
    assert found.mix_us is not None and found.within_us is not None and found.gap is not None
    assert found.mix_us + found.within_us == pytest.approx(found.gap.estimate)
    # Half of the slow ones are of a class that the median lacks.
    assert found.within_us == pytest.approx(0.75 * (1000 - found.median.mean_us))


def test_what_limits_the_figures_is_said() -> None:
    given, _ = naps(2000)
    sound = Threshold(1, 1, 1, 0.99, False)
    assert notes_of(given, sound, 600, told=True, apart=True) == []
    limited = replace(given, sample=4, still_open=3, linger_ns=2 * 10**9, waits_beyond=5, requests_beyond=1)
    said = " ".join(notes_of(limited, sound, 300, told=True, apart=True))
    words = ("below 500 intervals are rough", "3 queries had not ended 2.0 s after", "1/4", "6 waits and requests")
    assert all(one in said for one in words)
    (short,) = notes_of(given, sound, 300, told=False, apart=True)
    assert "too short for an interval" in short


def test_the_longest_are_told_from_their_begin() -> None:
    one = query(50, 300, wait(10, 110, 120, "lock", 2, who=9), wait(130, 230, 240, "preempted", 0))
    (found,) = worst_queries([one], PLACES, STATE_NAMES)
    assert found.parts == {"on-CPU": 80_000, "run queue": 120_000, "lock": 100_000}
    assert [(wait.left, wait.woken, wait.runs, wait.part, wait.where, wait.waker) for wait in found.waits] == [
        (10_000, 110_000, 120_000, "lock", "Cache::Lookup", 9), (130_000, 230_000, 240_000, "run queue", "", 0),
    ]  # fmt: skip


def test_stacks_of_a_group_are_in_ns_a_query() -> None:
    given, file = naps()
    used = used_records(given, file, PLACES)

    def stacks(ran: list[QueryRecord], *bounds: int | None) -> dict[str, int]:
        text = folded_time(used, ran, Undisturbed(0.0, 0), PLACES, file.states, *bounds)  # type: ignore[arg-type]
        return {stack: int(ns) for stack, ns in (line.rsplit(" ", 1) for line in text.splitlines())}

    slow = stacks([], 4_000_000, None)
    assert slow["start;Get;planted_nap;clock_nanosleep;hrtimer_[k];waits: sleep"] == 5_000_000
    assert slow["start;Get;planted_nap;clock_nanosleep;hrtimer_[k];run queue"] == 5000
    median = stacks([], 0, 1_000_000)
    assert (
        not any("planted_nap" in stack for stack in median) and "start;Get;pread64;io_schedule_[k];waits: io" in median
    )
    # Without samples the time on the CPU has no stack; with them it is spread over theirs.
    assert slow["on-CPU"] == pytest.approx(35_500, abs=100)
    ran = [query(0, 5200, *[sample(at, 4 + at % 2) for at in range(1, 5)]), query(0, 100, sample(9, 5))]
    spread = stacks(ran, 4_000_000, None)
    assert "on-CPU" not in spread
    of_cpu = [spread["start;Get;crc32c;on-CPU"], spread["start;Get;pread64;vfs_read_[k];on-CPU"]]
    assert of_cpu == pytest.approx([slow["on-CPU"] / 2] * 2, abs=1)


def test_a_wait_beyond_the_record_and_one_without_a_stack_have_rows() -> None:
    blocked = PARTS.index("blocked")
    one = query(0, 100, wait(10, 30, 30, "sleep", 77))
    parts = list(one.parts)
    parts[0], parts[blocked] = parts[0] - 40_000, parts[blocked] + 40_000
    beyond = one._replace(parts=tuple(parts), waits_beyond=5)
    (used,) = used_records(recorded([beyond], 1), RecordFile([beyond], STATE_NAMES, (1, 2)), PLACES)
    assert used.rows[row_of(beyond.spans[0], PLACES, STATE_NAMES)] == 20_000
    assert sum(used.rows.values()) == 100_000 and len(used.rows) == 3


def test_what_is_sampled_stands_for_no_query_of_the_budget() -> None:
    given, file = naps()
    drawn = next(one for one in file.records if not one.slow)
    more = [drawn._replace(weight=0, sampled=1, spans=(sample(drawn.begin_ns, 4),)) for _ in range(5)]
    with_them = tail_of(given, RecordFile([*file.records, *more], file.states, file.clocks), PLACES).tail
    without = tail_of(given, file, PLACES).tail
    assert (with_them.rows, with_them.weighted_us, with_them.median) == (
        without.rows, without.weighted_us, without.median
    )  # fmt: skip
    with pytest.raises(MeasurementError, match="no query"):
        tail_of(given, RecordFile(more, file.states, file.clocks), PLACES)
