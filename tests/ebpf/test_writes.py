"""Writes of RocksDB itself, by a program that does a given number of writes: what is exact is compared exactly."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ebpf.writes import WritesRequest
from ground.errors import IoflameError, MeasurementError
from ground.results.write_ladder import FOLLOWERS, WriteLadder, WriteRole, stage_sum
from ioflame.analysis.writes import write_cost
from tests.ebpf.conftest import StartWriter, mounted_file
from tests.ebpf.windows import nothing_at_all
from tests.ebpf.writers import Load, calls, counts_of, follow, followed, writing_client
from tests.figures import Report
from viz.tables.writes import writes_section
from viz.terminal.table import section_text
from workloads.registry import engine_named

pytestmark = pytest.mark.needs("co-re", "db_bench")

_NAP_US = 3000
_PIPELINED, _UNORDERED, _TWO_QUEUES = "enable_pipelined_write=true", "unordered_write=true", "two_write_queues=true"
_CALL = ("sync_call", "sync_device", "sync_meta", "sync_flush", "sync_journal", "sync_wake")

# With and without exact wake-ups, which are those of waiting writers.
_PLAIN = [
    (Load(), False), (Load(sync=True), False), (Load(no_log=True), False), (Load(4), False),
    (Load(4, no_log=True), False), (Load(4, sync=True, keys=5), False), (Load(4), True), (Load(4, sync=True), True),
]  # fmt: skip


def leaders_of_whole(ladder: WriteLadder, load: Load) -> WriteRole:
    """The leaders, of a window that holds each write of the load once, and all of its parts."""
    assert ladder.full and (ladder.notes, ladder.missing) == ([], [])
    assert ladder.writes == ladder.finished == load.count
    assert ladder.threads == load.threads
    assert (ladder.synced, ladder.no_log) == (load.count * load.sync, load.count * load.no_log)
    (leaders,) = ladder.of(["leader"])
    followers = sum(role.count for role in ladder.of(FOLLOWERS))
    assert leaders.count + followers == load.count and (load.threads > 1 or not followers)
    # Each group has one leader, and each write is in one group.
    assert ladder.groups == leaders.count == sum(groups for _, groups in ladder.group_sizes)
    assert ladder.grouped == load.count == sum(size * groups for size, groups in ladder.group_sizes)
    assert {name: n for name, n in ladder.losses.items() if n} == {}
    # The log is synced after it was written, of a group by its leader.
    stages = counts_of(leaders.stages)
    assert stages.get("wal", 0) == leaders.count * (not load.no_log)
    assert stages.get("sync", 0) == stages.get("sync_call", 0) == leaders.count * load.sync
    return leaders


@pytest.mark.long
@pytest.mark.parametrize("pipelined", [False, True], ids=["plain", "pipelined"])
@pytest.mark.parametrize(("load", "exact_wake_ups"), _PLAIN, ids=str)
def test_each_write_is_counted_once_and_its_stages_add_up_to_it(
    start_writer: StartWriter, tmp_path: Path, load: Load, pipelined: bool, exact_wake_ups: bool
) -> None:
    writer, out = start_writer(_PIPELINED * pipelined), tmp_path / "writes.json"
    ladder = follow(writer, load, out, exact_wake_ups=exact_wake_ups).ladder
    leaders = leaders_of_whole(ladder, load)
    # Debian's function that sets a writer's state can be watched; only where that was asked for it is.
    assert ladder.wake_ups is exact_wake_ups
    stages = counts_of(leaders.stages).keys()
    assert stages >= {"enter", "join", "preprocess", "memtable", "rest"} and ("memtable_wait" in stages) == pipelined
    # The last of a group to insert leaves for all.
    assert stage_sum(ladder.roles, "exit").count == ladder.groups
    # Each write is inserted once, by itself or by its leader.
    inserted = stage_sum(ladder.roles, "memtable").count
    assert leaders.count <= inserted <= load.count
    assert "a write takes" in section_text(writes_section(ladder))


@pytest.mark.long
@pytest.mark.parametrize("options", [_UNORDERED, _TWO_QUEUES, f"{_UNORDERED};{_TWO_QUEUES}"])
@pytest.mark.parametrize("load", [Load(4, sync=True), Load(4, no_log=True)], ids=str)
def test_other_forms_of_a_write_add_up_as_well(
    start_writer: StartWriter, tmp_path: Path, load: Load, options: str
) -> None:
    ladder = follow(start_writer(options), load, tmp_path / "writes.json").ladder
    leaders = leaders_of_whole(ladder, load)
    inserted = stage_sum(ladder.roles, "memtable").count
    assert inserted == load.count if _UNORDERED in options else leaders.count <= inserted <= load.count


@pytest.mark.long
def test_few_stages_are_the_queue_and_the_logs_calls(start_writer: StartWriter, tmp_path: Path) -> None:
    load = Load(4, sync=True)
    ladder = follow(start_writer(), load, tmp_path / "writes.json", "few").ladder
    assert not ladder.full and ladder.finished == load.count
    (leaders,) = ladder.of(["leader"])
    stages = counts_of(leaders.stages)
    assert {"enter", "join", "wal_write", "sync_call", "rest"} <= stages.keys()
    assert not stages.keys() & {"preprocess", "wal", "sync", "memtable", "exit"}
    assert stages["wal_write"] == stages["sync_call"] == leaders.count


@pytest.mark.long
def test_what_follows_each_sync_is_in_the_rest_of_the_sync_and_in_the_followers_wait(
    start_writer: StartWriter, tmp_path: Path
) -> None:
    """The nap is outside of the call. A follower that came during another nap waited for the end of that one, too."""
    written = follow(start_writer(), Load(4, sync=True, nap_us=_NAP_US), tmp_path / "writes.json")
    (leaders,) = written.ladder.of(["leader"])
    slept = stage_sum([leaders], "sync")
    assert slept.count == leaders.count and slept.sum_ns >= written.napped_ns >= leaders.count * _NAP_US * 1000
    followers = written.ladder.of(FOLLOWERS)
    waited = stage_sum(followers, "sync", waits=True)
    assert waited.count == sum(role.count for role in followers) > 0
    assert waited.sum_ns >= 0.95 * waited.count * _NAP_US * 1000


@pytest.mark.long
@pytest.mark.parametrize("stages", ["full", "few"])
def test_a_stall_is_told_by_how_the_engine_sleeps(start_writer: StartWriter, tmp_path: Path, stages: str) -> None:
    """Memtables of 64 KiB: two of them fill faster than they are flushed."""
    writer, load = start_writer("write_buffer_size=65536"), Load(keys=100, writes=500)
    written = follow(writer, load, tmp_path / "writes.json", stages)
    assert stage_sum(written.ladder.roles, "stop").count > 0
    # The engine's timer is around the function that is followed.
    assert 0 < written.ns("stall", "delay", "stop") <= written.delay_ns
    assert "stopped:" in section_text(writes_section(written.ladder))


@pytest.fixture
def file_system(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    with mounted_file(tmp_path, request.param) as place:
        yield place


@pytest.mark.long
@pytest.mark.needs("loop")
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize(
    ("file_system", "journal"), [("has_journal", True), ("^has_journal", False)], indirect=["file_system"]
)
def test_a_journal_is_waited_for_where_there_is_one(
    file_system: Path, journal: bool, start_writer: StartWriter, tmp_path: Path, threads: int
) -> None:
    load = Load(threads, sync=True)
    ladder = follow(start_writer(directory=file_system), load, tmp_path / "writes.json").ladder
    sums = {name: stage_sum(ladder.roles, name) for name in (*_CALL, "sync", "exit")}
    assert ladder.finished == ladder.synced == load.count
    # Of each group one syncs: the log grows with it, so its inode is written, too.
    assert sums["sync_call"].count == sums["exit"].count
    # Somebody else may have synced what one has written before it did.
    assert 0 <= sums["sync_call"].count - sums["sync_device"].count <= 2 + sums["sync_call"].count // 50
    # A commit of the journal every five seconds may have come before it.
    if journal:
        # Its thread writes the inode, and has the device empty its cache.
        assert sums["sync_journal"].count > ladder.groups / 2 and not sums["sync_meta"].count
    else:
        assert not sums["sync_journal"].count and sums["sync_meta"].count > ladder.groups / 2
        assert sums["sync_flush"].count > ladder.groups / 2
    waited = stage_sum(ladder.of(FOLLOWERS), "sync_journal", waits=True)
    assert (waited.count > 0) == (journal and threads > 1)


@pytest.mark.long
@pytest.mark.parametrize("small_disk", ["3g"], indirect=True)
def test_what_watching_costs_is_measured_before_the_window(small_disk: Path, tmp_path: Path) -> None:
    # In memory: a disk that is held up for half a second leaves a half without a write.
    with writing_client("rocksdb", small_disk / "db", 2) as pid:
        request = WritesRequest(pid, "full", force=True, cost_turns=3)
        ladder = followed(request, tmp_path / "writes.json", calls(pid, "syscw", 300))
    assert len(ladder.turns) == 3
    assert all(half.count and half.sum_ns for turn in ladder.turns for half in (turn.unwatched, turn.watched))
    cost = write_cost(ladder)
    assert cost is not None and cost.low < cost.estimate < cost.high and cost.n == 3


@pytest.mark.by_hand
def test_stalls_and_naps_are_as_long_as_the_engine_says(
    start_writer: StartWriter, tmp_path: Path, figure: Report
) -> None:
    out = tmp_path / "writes.json"
    written = follow(start_writer("write_buffer_size=65536"), Load(keys=100, writes=2000), out)
    held = written.ns("stall", "delay", "stop")
    # The probes' own part is a few us of each.
    figure("stalls: ours of its timer's", held / written.delay_ns, expected="0.95 to 1")
    written = follow(start_writer(), Load(4, sync=True, nap_us=_NAP_US), out)
    figure("rest of a sync: ours of the naps", written.ns("sync") / written.napped_ns, expected="1 to 1.05")


@pytest.mark.by_hand
@pytest.mark.parametrize("pipelined", [False, True], ids=["plain", "pipelined"])
@pytest.mark.parametrize("load", [Load(sync=True, keys=500), Load(keys=500, writes=1000)], ids=str)
def test_the_engines_own_clocks_say_the_same(
    start_writer: StartWriter, tmp_path: Path, load: Load, pipelined: bool, figure: Report
) -> None:
    """Of large batches: their timers hold whole traps, which are 1 to 2 us of each stage."""
    written = follow(start_writer(_PIPELINED * pipelined), load, tmp_path / "writes.json")
    log = written.ns("wal", "wal_write", "sync", *_CALL)
    figure("log: ours of its timer's", log / written.wal_ns, expected="0.97 to 1.03")
    figure("memtable: ours of its timer's", written.ns("memtable") / written.memtable_ns, expected="0.97 to 1.03")


@pytest.mark.long
@pytest.mark.parametrize(("threads", "stages"), [(1, "full"), (4, "full"), (4, "few")])
def test_writes_of_leveldb_wait_for_what_their_leaders_do(tmp_path: Path, threads: int, stages: str) -> None:
    symbols = engine_named("leveldb", client="ioflame").file("symbols.toml")
    with writing_client("leveldb", tmp_path / "db", threads) as pid:
        request = WritesRequest(pid, stages, force=True, symbols=symbols)
        ladder = followed(request, tmp_path / "writes.json", calls(pid, "syscw", 300))
    roles = {role.name: role for role in ladder.roles if role.count}
    assert roles.keys() == ({"leader", "done"} if threads > 1 else {"leader"})
    assert ladder.finished == ladder.grouped > 0
    assert ladder.groups == roles["leader"].count and ladder.synced == ladder.finished
    assert (ladder.notes, ladder.missing) == ([], [])
    counted = counts_of(roles["leader"].stages)
    if ladder.full:
        assert {counted[name] for name in ("preprocess", "wal", "memtable")} == {roles["leader"].count}
    assert counted["sync_call"] == roles["leader"].count
    if threads > 1:
        # A writer that only waits waits for its leader's sync.
        assert counts_of(roles["done"].stages).keys() <= {"join", "rest"}
        assert sum(one.sum_ns for one in roles["done"].join if one.name.startswith("sync")) > 0
        assert "writes a group on average" in section_text(writes_section(ladder))


@pytest.mark.long
def test_what_has_no_queue_of_writers_is_refused(burner: subprocess.Popen[str], tmp_path: Path) -> None:
    symbols = engine_named("lmdb", client="ioflame").file("symbols.toml")
    with pytest.raises(IoflameError, match="the write path of lmdb is not known") as refused:
        followed(WritesRequest(os.getpid(), symbols=symbols), tmp_path / "writes.json", nothing_at_all)
    assert "tail --kind write" in str(refused.value.mend)
    with pytest.raises(MeasurementError, match="names rocksdb::DBImpl::WriteImpl"):
        followed(WritesRequest(burner.pid), tmp_path / "writes.json", nothing_at_all)
