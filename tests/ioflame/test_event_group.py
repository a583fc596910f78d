"""Events of a group, read with each sample of its leader: a real recording, and perf report as the judge."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from collectors.perf import plan_recording, record_for, recorded_events
from folding.stackfold import fold
from ground.errors import HostError
from ground.results.checks import Verdict
from ground.results.event_group import EventGroup, GroupRow, Member, read_event_group
from ground.results.files import Files
from ground.results.run import Run
from ground.system.process import Children
from ioflame.analysis.categories import categories_of, category_file
from ioflame.stages.event_group import analyse_group, group_checks
from tests.folding.recordings import ends_where_it_should
from tests.records import profile_facts, run_record
from viz.table import Table
from viz.tables.event_group import group_legend, group_section
from viz.terminal.table import section_text

# The last counts nothing on x86, and has no sample.
GROUP = "{cpu-clock,page-faults,context-switches,alignment-faults}"
# Maps new memory, and sleeps: pages and switches between the samples.
PROGRAM = """
import mmap, time
while True:
    with mmap.mmap(-1, 1 << 20) as memory:
        for at in range(0, 1 << 20, 4096):
            memory[at] = 1
    sum(range(20000))
    time.sleep(0.0002)
"""


@pytest.mark.long
@pytest.mark.needs("perf")
def test_each_event_has_the_total_of_perf_report_and_is_spread_over_the_rows(tmp_path: Path) -> None:
    run = Run.create(tmp_path, run_record())
    plan = replace(plan_recording(GROUP, 499, "fp"), scope="process")
    assert (plan.event, plan.beside) == ("cpu-clock", ("page-faults", "context-switches", "alignment-faults"))
    busy = subprocess.Popen([shutil.which("python3") or "python3", "-c", PROGRAM])
    try:
        with Children() as children:
            record_for(children, plan, busy.pid, run.path(Files.PERF_DATA), 1.0)
    finally:
        busy.kill()
        busy.wait()
    ends_where_it_should(run.path(Files.PERF_DATA))
    run.record.pid = busy.pid
    names = recorded_events(run.path(Files.PERF_DATA))
    folded = fold(run.path(Files.PERF_DATA), run.directory, [busy.pid], rules="rocksdb", event=names[0])
    stats = folded.statistics
    facts = profile_facts(event="cpu-clock", scope=plan.scope, weight=stats.weight, report_weight=stats.weight)
    facts.beside = list(plan.beside)
    owner = categories_of(category_file(folded, "owner"))
    (check,) = analyse_group(run, facts, stats, owner)
    assert check.verdict is Verdict.OK, check
    group = read_event_group(run.path(Files.EVENT_GROUP))
    assert [one.event.partition(":")[0] for one in group.members] == [plan.event, *plan.beside]
    for at, member in enumerate(group.members):
        assert sum(row.weights[at] for row in group.rows) == member.weight == (member.reported or 0)
    faults, switches, never = (one.weight for one in group.members[1:])
    assert faults > switches > 0 == never


@pytest.mark.long
@pytest.mark.needs("perf")
def test_a_group_that_perf_cannot_record_is_refused_with_its_words() -> None:
    with pytest.raises(HostError, match=r"perf cannot record \{cpu-clock,no-such-event\}:S: ") as refused:
        plan_recording("{cpu-clock,no-such-event}", 499, "fp")
    assert refused.value.mend.startswith("perf stat -e '{cpu-clock,no-such-event}' -- true")


def test_a_total_that_is_not_perf_reports_fails_the_run() -> None:
    good, unread, bad = Member("a", "a", 10, 10), Member("b", "b", 10, None), Member("c", "c", 10, 9)
    assert [one.verdict for one in group_checks([good, unread])] == [Verdict.OK]
    (check,) = group_checks([good, bad])
    assert (check.verdict, check.value) == (Verdict.FAILED, "c 10 for 9")


def group(queries: float | None = 1000.0, scope: str = "process") -> EventGroup:
    members = [Member("cycles:P", "cycles", 3_000_000), Member("instructions", "instructions", 4_500_000)]
    rows = [GroupRow("LRU", "block cache", [1_000_000, 2_500_000]), GroupRow("File", "files", [0, 0]),
            GroupRow("other", "else", [2_000_000, 2_000_000])]  # fmt: skip
    return EventGroup("owner", scope, members, rows, queries)


def cells(of: EventGroup) -> list[list[str]]:
    (table,) = group_section(of)
    assert isinstance(table, Table)
    return table.cells("screen")


def test_of_cycles_and_instructions_there_is_how_many_a_cycle() -> None:
    assert cells(group()) == [
        ["category", "cycles", "instructions", "instr/cycle"],
        ["block cache", "1,000", "2,500", "2.50"],
        ["other", "2,000", "2,000", "1.00"],
        ["all", "3,000", "4,500", "1.50"],
    ]


def test_without_queries_counts_are_whole_and_system_wide_ones_say_whose_they_are() -> None:
    assert cells(group(None))[-1] == ["all", "3,000,000", "4,500,000", "1.50"]
    assert group_legend(group(None)).startswith("of the whole perf window: no queries were counted")
    assert "others' as well" in group_legend(group(scope="system"))
    assert "others' as well" not in group_legend(group())
    assert "instr/cycle" in section_text(group_section(group()))
