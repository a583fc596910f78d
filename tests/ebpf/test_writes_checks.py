"""What watching writes costs, parts that do not add up, files that make no sense, and what is shown of writes."""

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


def longer(ladder: WriteLadder, part_of: str, ns: int) -> WriteLadder:
    """The first part of its leaders is longer by so many ns."""
    leader, *others = ladder.roles
    first, *rest = leader.stages if part_of == "stages" else leader.join
    parts = [replace(first, sum_ns=first.sum_ns + ns), *rest]
    changed = replace(leader, stages=parts) if part_of == "stages" else replace(leader, join=parts)
    return replace(ladder, roles=[changed, *others])


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


@pytest.mark.parametrize(("part_of", "name"), [("stages", "writes sum"), ("join", "writes queue")])
def test_parts_that_do_not_add_up_fail(part_of: str, name: str) -> None:
    ladder = write_ladder()
    whole = ladder.total_ns if part_of == "stages" else sum(one.sum_ns for r in ladder.roles for one in r.join)
    for ns, verdict in ((whole // 110, Verdict.OK), (whole // 90, Verdict.FAILED)):
        found = {check.name: check.verdict for check in write_checks(longer(ladder, part_of, ns))}
        assert found[name] is verdict


def test_a_file_is_read_as_it_was_written_and_what_cannot_be_is_refused(tmp_path: Path) -> None:
    path, ladder = tmp_path / "writes.json", write_ladder()
    write_json(path, ladder)
    assert read_write_ladder(path) == ladder
    leader, *others = ladder.roles
    odd = replace(leader, stages=[replace(leader.stages[0], name="nap"), *leader.stages[1:]])
    for wrong, says in (
        (longer(ladder, "join", -(10**9)), r"Expected `int` >= 0 - at `\$.roles\[0\].join"),
        (replace(ladder, end_ns=10**9 + 1000), "a leader write of 400000 ns in a window of 1000 ns"),
        (replace(ladder, roles=[odd, *others]), "a stage of writes called nap"),
    ):
        write_json(path, wrong)
        with pytest.raises(MeasurementError, match=says):
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
