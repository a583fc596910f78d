"""What is said of writes before anybody believes them, and files and requests that make no sense."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from ebpf.writes import write_checks
from ground.errors import MeasurementError
from ground.results.checks import Verdict
from ground.results.probes import Trap
from ground.results.write_ladder import WriteHalf, WriteLadder, WriteTurn, read_write_ladder
from ground.system.atomic_files import write_json
from ioflame.analysis.writes import write_cost, write_cost_checks
from tests.viz.observers import write_ladder
from viz.page.writes import writes_panel
from viz.tables.writes import first_sentence, write_groups, write_rows, writes_section
from viz.terminal.table import section_text


def verdicts(ladder: WriteLadder) -> dict[str, Verdict]:
    return {check.name: check.verdict for check in [*write_checks(ladder), *write_cost_checks(ladder)]}


def longer(ladder: WriteLadder, part_of: str, ns: int) -> WriteLadder:
    """The first part of its leaders is longer by so many ns."""
    leader, *others = ladder.roles
    first, *rest = leader.stages if part_of == "stages" else leader.join
    parts = [replace(first, sum_ns=first.sum_ns + ns), *rest]
    changed = replace(leader, stages=parts) if part_of == "stages" else replace(leader, join=parts)
    return replace(ladder, roles=[changed, *others])


def test_a_sound_window_has_nothing_to_complain_of() -> None:
    assert set(verdicts(write_ladder()).values()) == {Verdict.OK}


def turn(unwatched_us: float, watched_us: float, count: int = 1000) -> WriteTurn:
    return WriteTurn(*(WriteHalf(count, int(us * count * 1000)) for us in (unwatched_us, watched_us)))


def test_what_watching_costs_is_measured_by_turns() -> None:
    """By hand: 20, 30 and 40 us longer, with a deviation of 10 us / sqrt(3), and t of 2 degrees of freedom."""
    ladder = replace(write_ladder(), turns=[turn(50, 70), turn(50, 80), turn(50, 90)])
    own, cost = ladder.write_traps_ns, write_cost(ladder)
    assert cost is not None and own > 0
    half = 4.302653 * 10_000 / math.sqrt(3)
    assert (cost.estimate, cost.low, cost.high) == pytest.approx((30e3 + own, 30e3 + own - half, 30e3 + own + half))
    (check,) = write_cost_checks(ladder)
    assert check.verdict is Verdict.WARN and "by 3 turns" in check.value and "watched writes" in check.means
    # A turn without any write tells nothing, and one alone is no interval.
    assert write_cost(replace(ladder, turns=[turn(50, 70), turn(50, 70, 0)])) is None
    cheap = replace(ladder, turns=[turn(50, 51), turn(50, 51)], trap=Trap(100, 1000, 100))
    assert [one.verdict for one in write_cost_checks(cheap)] == [Verdict.OK]


def test_without_turns_the_second_before_the_window_is_beside_it() -> None:
    ladder = write_ladder()
    slower = replace(ladder, pilot=replace(ladder.pilot, mean_ns=ladder.total_ns / ladder.finished / 2))
    (check,) = write_cost_checks(slower)
    assert check.verdict is Verdict.WARN and "in the second before the window" in check.value


@pytest.mark.parametrize(
    ("instead", "name", "verdict"),
    [
        ({"roles": []}, "writes followed", Verdict.FAILED),
        ({"end_ns": 10**9 + 10**6}, "writes window", Verdict.FAILED),
        ({"process_ended": True}, "writes window", Verdict.WARN),
        ({"grouped": 200}, "writes groups", Verdict.WARN),
        ({"notes": ["few stages: ..."]}, "writes stages", Verdict.NOTE),
        ({"missing": ["launch"]}, "writes stages", Verdict.NOTE),
        ({"wake_ups": False}, "writes wake-ups", Verdict.NOTE),
        ({"losses": {"lost_wait": 1}}, "writes losses", Verdict.FAILED),
        ({"losses": {"nested": 1}}, "writes oddities", Verdict.NOTE),
    ],
)
def test_what_is_wrong_is_said(instead: dict[str, object], name: str, verdict: Verdict) -> None:
    assert verdicts(replace(write_ladder(), **instead))[name] is verdict  # type: ignore[arg-type]


@pytest.mark.parametrize(("part_of", "name"), [("stages", "writes sum"), ("join", "writes queue")])
def test_parts_that_do_not_add_up_fail(part_of: str, name: str) -> None:
    ladder = write_ladder()
    whole = ladder.total_ns if part_of == "stages" else sum(one.sum_ns for r in ladder.roles for one in r.join)
    assert verdicts(longer(ladder, part_of, whole // 110))[name] is Verdict.OK
    assert verdicts(longer(ladder, part_of, whole // 90))[name] is Verdict.FAILED


def test_dear_probes_and_unknown_roles_are_said() -> None:
    ladder = write_ladder()
    dear = [replace(role, own_ns=100_000 * role.count) for role in ladder.roles]
    assert verdicts(replace(ladder, roles=dear))["writes cost"] is Verdict.WARN
    leader, follower = ladder.roles
    found = verdicts(replace(ladder, roles=[leader, replace(follower, name="role_unknown")]))
    assert found["writes roles"] is Verdict.WARN


def test_a_file_is_read_as_it_was_written_and_a_negative_time_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "writes.json"
    write_json(path, write_ladder())
    assert read_write_ladder(path) == write_ladder()
    write_json(path, longer(write_ladder(), "join", -(10**9)))
    with pytest.raises(MeasurementError, match=r"Expected `int` >= 0 - at `\$.roles\[0\].join"):
        read_write_ladder(path)


def test_a_write_longer_than_the_window_and_an_unknown_stage_are_refused(tmp_path: Path) -> None:
    path, ladder = tmp_path / "writes.json", write_ladder()
    write_json(path, replace(ladder, end_ns=10**9 + 1000))
    with pytest.raises(MeasurementError, match="a leader write of 400000 ns in a window of 1000 ns"):
        read_write_ladder(path)
    leader, *others = ladder.roles
    odd = replace(leader, stages=[replace(leader.stages[0], name="nap"), *leader.stages[1:]])
    write_json(path, replace(ladder, roles=[odd, *others]))
    with pytest.raises(MeasurementError, match="a stage of writes called nap"):
        read_write_ladder(path)


def test_columns_add_up_and_the_sentence_names_the_sync() -> None:
    ladder = write_ladder()
    groups = write_groups(ladder)
    assert [(group.label, group.count) for group in groups] == [("leaders", 100), ("followers", 200), ("all", 300)]
    rows = write_rows(groups)
    for place, group in enumerate(groups):
        whole = sum(row.ns[place] for row in rows if not row.within_queue)
        assert whole == pytest.approx(group.sum_ns / group.count)
        (queue,) = [row for row in rows if row.name == "join"]
        assert sum(row.ns[place] for row in rows if row.within_queue) == pytest.approx(queue.ns[place])
    # 290 of a leader's and 30 of its wait, 300 of each follower's wait: 92,000 of 114,000 us.
    assert first_sentence(ladder).startswith("a write takes 380.0 us on average: log sync: file system 80.7 %")
    text, page = section_text(writes_section(ladder)), str(writes_panel(ladder))
    told = ("100 leaders were delayed: 0.02 ms", "3.00 writes a group on average", "leader: log sync: file system")
    assert all(words in text and words in page for words in told)
    nothing = replace(ladder, roles=[])
    for words in (section_text(writes_section(nothing)), writes_panel(nothing)):
        assert "no write was followed" in words
