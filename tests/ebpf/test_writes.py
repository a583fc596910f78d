"""Writes of RocksDB itself, by a program that does a given number of writes: what is exact is compared exactly."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from ebpf.observer import CoreObserver
from ebpf.writes import WritesRequest, write_checks, writes_observer
from ground.errors import IoflameError, MeasurementError
from ground.results.checks import Verdict
from ground.results.write_ladder import FOLLOWERS, WriteLadder, WriteRole, read_write_ladder, stage_sum
from ground.system.observer import attached
from ground.system.process import Children
from ground.text.progress import Reporter
from tests.ebpf.conftest import StartWriter
from tests.ebpf.writers import Load, counts_of, follow, writing_client
from viz.terminal.writes import writes_text
from workloads.registry import engine_named

pytestmark = [pytest.mark.slow, pytest.mark.needs("co-re", "db_bench")]

_NAP_US = 3000
_SECONDS = 3.0
_PIPELINED, _UNORDERED, _TWO_QUEUES = "enable_pipelined_write=true", "unordered_write=true", "two_write_queues=true"
_CALL = ("sync_call", "sync_device", "sync_meta", "sync_flush", "sync_journal", "sync_wake")

_PLAIN = [
    Load(), Load(sync=True), Load(no_log=True), Load(keys=5), Load(4), Load(4, sync=True), Load(4, no_log=True),
    Load(4, sync=True, keys=5),
]  # fmt: skip


def leaders_of_whole(ladder: WriteLadder, load: Load) -> WriteRole:
    """The leaders, of a window that holds each write of the load once, and all of its parts."""
    assert ladder.full and (ladder.notes, ladder.missing) == ([], [])
    assert ladder.writes == ladder.finished == ladder.joins == ladder.queued == load.count
    assert ladder.threads == load.threads
    assert (ladder.synced, ladder.no_log) == (load.count * load.sync, load.count * load.no_log)
    (leaders,) = ladder.of(["leader"])
    followers = sum(role.count for role in ladder.of(FOLLOWERS))
    assert leaders.count + followers == load.count and (load.threads > 1 or not followers)
    # Each group has one leader, and each write is in one group.
    assert ladder.groups == leaders.count == sum(groups for _, groups in ladder.group_sizes)
    assert ladder.grouped == load.count == sum(size * groups for size, groups in ladder.group_sizes)
    for role in ladder.roles:
        assert sum(one.sum_ns for one in role.stages) == role.sum_ns
        assert sum(one.sum_ns for one in role.join) == sum(one.sum_ns for one in role.stages if one.name == "join")
    assert {name: n for name, n in ladder.losses.items() if n} == {}
    assert not [check for check in write_checks(ladder) if check.verdict is Verdict.FAILED]
    return leaders


@pytest.mark.parametrize("exact_wake_ups", [False, True], ids=["", "exact"])
@pytest.mark.parametrize("pipelined", [False, True], ids=["plain", "pipelined"])
@pytest.mark.parametrize("load", _PLAIN, ids=str)
def test_each_write_is_counted_once_and_its_stages_add_up_to_it(
    start_writer: StartWriter, tmp_path: Path, load: Load, pipelined: bool, exact_wake_ups: bool
) -> None:
    writer, out = start_writer(_PIPELINED * pipelined), tmp_path / "writes.json"
    ladder = follow(writer, load, out, exact_wake_ups=exact_wake_ups).ladder
    leaders = leaders_of_whole(ladder, load)
    # Debian's function that sets a writer's state can be watched; only where that was asked for it is.
    assert ladder.wake_ups is exact_wake_ups
    stages = counts_of(leaders.stages)
    logged = {"wal"} | ({"sync", "sync_call"} if load.sync else set())
    assert {"enter", "join", "preprocess", "memtable", "rest"} <= stages.keys()
    # The last of a group to insert leaves for all.
    assert stage_sum(ladder.roles, "exit").count == ladder.groups
    assert load.no_log or all(stages[name] == leaders.count for name in logged)
    assert load.no_log == ("wal" not in stages) and load.sync == ("sync" in stages)
    assert ("memtable_wait" in stages) == pipelined
    # Each write is inserted once, by itself or by its leader.
    inserted = stage_sum(ladder.roles, "memtable").count
    assert leaders.count <= inserted <= load.count
    assert "a write takes" in writes_text(ladder)


@pytest.mark.parametrize("options", [_UNORDERED, _TWO_QUEUES, f"{_UNORDERED};{_TWO_QUEUES}"])
@pytest.mark.parametrize("load", [Load(4, sync=True), Load(4), Load(4, no_log=True)], ids=str)
def test_other_forms_of_a_write_add_up_as_well(
    start_writer: StartWriter, tmp_path: Path, load: Load, options: str
) -> None:
    ladder = follow(start_writer(options), load, tmp_path / "writes.json").ladder
    leaders = leaders_of_whole(ladder, load)
    stages = counts_of(leaders.stages)
    # The log is synced after it was written, of a group by its leader.
    assert stages.get("wal", 0) == leaders.count * (not load.no_log)
    assert stages.get("sync", 0) == stages.get("sync_call", 0) == leaders.count * load.sync
    inserted = stage_sum(ladder.roles, "memtable").count
    assert inserted == load.count if _UNORDERED in options else leaders.count <= inserted <= load.count


def test_a_kernel_without_sessions_counts_the_same(start_writer: StartWriter, tmp_path: Path) -> None:
    """Each return is trapped there, also those of functions that begin no stage where they are called."""
    writer, load, out = start_writer(_PIPELINED), Load(4, sync=True), tmp_path / "writes.json"
    with Children() as children:
        arguments = ["--pid", str(writer.pid), "--stages", "full", "--force", "--uprobes", "pair", "--exact-wake-ups"]
        observer = CoreObserver("writes", "writes", children, arguments, out)
        with attached(observer, Reporter(quiet=True)):
            observer.open()
            writer.write(load)
            observer.close()
    ladder = read_write_ladder(out)
    assert ladder.uprobes == "pair" and ladder.finished == ladder.joins == ladder.queued == ladder.grouped == load.count
    assert not [check for check in write_checks(ladder) if check.verdict is not Verdict.OK]


def test_few_stages_are_the_queue_and_the_logs_calls(start_writer: StartWriter, tmp_path: Path) -> None:
    load = Load(4, sync=True)
    ladder = follow(start_writer(), load, tmp_path / "writes.json", "few").ladder
    assert not ladder.full and ladder.finished == ladder.joins == ladder.queued == load.count
    (leaders,) = ladder.of(["leader"])
    stages = counts_of(leaders.stages)
    assert {"enter", "join", "wal_write", "sync_call", "rest"} <= stages.keys()
    assert not stages.keys() & {"preprocess", "wal", "sync", "memtable", "exit"}
    assert stages["wal_write"] == stages["sync_call"] == leaders.count
    assert sum(one.sum_ns for role in ladder.roles for one in role.stages) == ladder.total_ns


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


@pytest.mark.parametrize("stages", ["full", "few"])
def test_a_stall_is_told_by_how_the_engine_sleeps(start_writer: StartWriter, tmp_path: Path, stages: str) -> None:
    """Memtables of 64 KiB: two of them fill faster than they are flushed."""
    written = follow(
        start_writer("write_buffer_size=65536"), Load(keys=100, writes=2000), tmp_path / "writes.json", stages
    )
    held = written.ns("stall", "delay", "stop")
    assert stage_sum(written.ladder.roles, "stop").count > 0
    assert held == pytest.approx(written.delay_ns, rel=0.05)
    # What the engine's statistics call a stall, to their millisecond; the probes' own part is a few us of each.
    assert held == pytest.approx(written.stalled_ns, rel=0.02, abs=2e6)
    assert "stopped:" in writes_text(written.ladder)


@pytest.mark.by_hand
def test_a_nap_after_each_sync_is_all_that_its_rest_is_longer_by(start_writer: StartWriter, tmp_path: Path) -> None:
    written = follow(start_writer(), Load(4, sync=True, nap_us=_NAP_US), tmp_path / "writes.json")
    assert written.ns("sync") == pytest.approx(written.napped_ns, rel=0.05)


@pytest.mark.by_hand
@pytest.mark.parametrize("pipelined", [False, True], ids=["plain", "pipelined"])
@pytest.mark.parametrize("load", [Load(sync=True, keys=500), Load(keys=500, writes=1000)], ids=str)
def test_the_engines_own_clocks_say_the_same(
    start_writer: StartWriter, tmp_path: Path, load: Load, pipelined: bool
) -> None:
    """Of large batches: their timers hold whole traps, which are 1 to 2 us of each stage."""
    written = follow(start_writer(_PIPELINED * pipelined), load, tmp_path / "writes.json")
    assert written.ns("wal", "wal_write", "sync", *_CALL) == pytest.approx(written.wal_ns, rel=0.03)
    assert written.ns("memtable") == pytest.approx(written.memtable_ns, rel=0.03)


@pytest.mark.parametrize(("threads", "stages"), [(1, "full"), (4, "full"), (4, "few")])
def test_writes_of_leveldb_wait_for_what_their_leaders_do(tmp_path: Path, threads: int, stages: str) -> None:
    symbols = engine_named("leveldb", client="ioflame").file("symbols.toml")
    out = tmp_path / "writes.json"
    with writing_client("leveldb", tmp_path / "db", threads) as pid, Children() as children:
        observer = writes_observer(WritesRequest(pid, stages, force=True, symbols=symbols), children, out)
        with attached(observer, Reporter(quiet=True)):
            observer.open()
            time.sleep(_SECONDS)  # the window itself
            observer.close()
    ladder = read_write_ladder(out)
    roles = {role.name: role for role in ladder.roles if role.count}
    assert roles.keys() == ({"leader", "done"} if threads > 1 else {"leader"})
    assert ladder.finished == ladder.joins == ladder.grouped == ladder.queued > 100
    assert ladder.groups == roles["leader"].count and ladder.synced == ladder.finished
    for role in ladder.roles:
        assert sum(one.sum_ns for one in role.stages) == role.sum_ns
        assert sum(one.sum_ns for one in role.join) == sum(one.sum_ns for one in role.stages if one.name == "join")
    assert (ladder.notes, ladder.missing) == ([], [])
    assert not [check for check in write_checks(ladder) if check.verdict is Verdict.FAILED]
    counted = counts_of(roles["leader"].stages)
    if ladder.full:
        assert {counted[name] for name in ("preprocess", "wal", "memtable")} == {roles["leader"].count}
    assert counted["sync_call"] == roles["leader"].count
    if threads > 1:
        # A writer that only waits waits for its leader's sync.
        assert counts_of(roles["done"].stages).keys() <= {"join", "rest"}
        waited = {one.name: one.sum_ns for one in roles["done"].join}
        synced = sum(ns for name, ns in waited.items() if name.startswith("sync"))
        assert synced > sum(waited.values()) / 2, waited
        assert "writes a group on average" in writes_text(ladder)


def test_an_engine_without_a_queue_of_writers_is_refused(tmp_path: Path) -> None:
    symbols = engine_named("lmdb", client="ioflame").file("symbols.toml")
    request = WritesRequest(os.getpid(), symbols=symbols)
    with (
        Children() as children,
        pytest.raises(IoflameError, match="the write path of lmdb is not known") as refused,
        attached(writes_observer(request, children, tmp_path / "writes.json"), Reporter(quiet=True)),
    ):
        pass
    assert "tail --kind write" in str(refused.value.mend)


def test_a_process_without_such_functions_is_refused(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            with (
                Children() as children,
                pytest.raises(MeasurementError, match="names rocksdb::DBImpl::WriteImpl"),
                attached(
                    writes_observer(WritesRequest(other.pid), children, tmp_path / "writes.json"), Reporter(quiet=True)
                ),
            ):
                pass
        finally:
            other.kill()
