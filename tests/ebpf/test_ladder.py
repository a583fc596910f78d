"""The ladder on queries that are counted by who made them: a stand-in engine of known shape."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from collectors.counters import ProcessProbe, delta, device_of
from ebpf.ladder import LadderRequest, ladder_checks, ladder_observer
from ground.errors import MeasurementError, UsageError
from ground.results.checks import Verdict
from ground.results.ladder import PLACES, STAGES, Ladder
from ground.system.process import Children
from tests.ebpf.windows import (
    FEW,
    Standin,
    checked,
    failed,
    in_turns,
    ladder_of,
    nothing_at_all,
    on_device,
    watched,
    whole_ladder,
)
from viz.tables.ladder import ladder_section
from viz.terminal.table import section_text

pytestmark = [pytest.mark.long, pytest.mark.needs("co-re")]

_MANY, _LARGE = 1009, 53
# Sleeps that are not of a query: waiting for orders and the like.
_ORDERS = 20


def printed(ladder: Ladder) -> str:
    """However it is folded."""
    return " ".join(section_text(ladder_section(ladder)).split())


def follow(engine: Standin, directory: Path, *orders: str, sample: int = 1, kind: str | None = None) -> Ladder:
    """The ladder of a window in which the engine carries out the orders."""
    return ladder_of(LadderRequest(engine.pid, sample, kind=kind), directory, engine.orders(*orders), engine)


@pytest.mark.parametrize("engine", [(1,), (1, "-static")], indirect=True)
@pytest.mark.usefixtures("kernels")
def test_each_query_is_counted_by_what_it_did(engine: Standin, tmp_path: Path) -> None:
    probe = ProcessProbe(engine.pid, device_of(engine.data))
    slept = device_ms = 0

    def load() -> None:
        nonlocal slept, device_ms
        before = probe.snapshot()
        engine.orders(f"1 {_MANY}", f"0 {FEW}", f"2 {FEW}")()
        counted = delta(before, probe.snapshot(), None)
        slept, device_ms = counted.voluntary_switches, counted.storage_read_ms

    ladder = ladder_of(LadderRequest(engine.pid, 1), tmp_path, load, engine)
    assert (ladder.start, ladder.notes, ladder.threads, ladder.incomplete) == ("query", [], 1, 0)
    assert ladder.queries == ladder.followed == _MANY + 2 * FEW
    assert ladder.of_class("no_read").count == ladder.of_class("several").count == FEW
    assert on_device(ladder) == _MANY
    # Those with stages slept, each once, and the others did not. Two reads may sleep twice, and so does an order.
    one_read = ladder.of_class("one_read").count
    assert one_read <= slept <= one_read + ladder.of_class("disorder").count + 2 * FEW + _ORDERS
    assert {name for name, n in ladder.losses.items() if n} <= {"missed_in", "requeued"}
    assert [rung.name for rung in ladder.stages] == list(STAGES)
    # The kernel's account of reads holds these, from before they were given to the device; in whole ms.
    assert 0 < ladder.stage("device").sum_ns < (device_ms + 1) * 10**6
    assert 0 < ladder.probe_ns < ladder.total.mean_ns
    assert ladder.device is not None and ladder.device.reads >= on_device(ladder)
    assert checked(ladder, "queries").verdict is Verdict.OK
    for rung in (*ladder.stages, *ladder.classes, ladder.outside):
        if rung.count:
            # Least and most are kept beside the buckets, by programs that those of other threads may preempt.
            (low, high, _), (last, end, _) = rung.buckets[0], rung.buckets[-1]
            assert low <= rung.least_ns < high, rung.name
            assert last <= rung.most_ns and (rung.most_ns < end or end > 1 << 37), rung.name
    assert "memtable or block cache" in printed(ladder)


def test_queries_of_all_turns_are_one_ladder(engine: Standin, tmp_path: Path) -> None:
    out, orders = tmp_path / "ladder.json", [f"1 {FEW}", f"0 {FEW}", f"2 {FEW}"]
    disk, read = ProcessProbe(engine.pid, device_of(engine.data)), list[int]()

    def load() -> None:
        before = disk.snapshot()
        engine.orders(*orders)()
        read.append(delta(before, disk.snapshot(), None).process_read_bytes)

    request = LadderRequest(engine.pid, 1, turns=True)
    in_turns(lambda children: ladder_observer(request, children, out), load, engine)
    ladder = whole_ladder(out)
    assert len(ladder.turns) == 3 and len(set(read)) == 1
    assert (ladder.start, ladder.threads, ladder.incomplete) == ("query", 1, 0)
    assert ladder.queries == ladder.followed == 3 * 3 * FEW
    assert ladder.of_class("no_read").count == ladder.of_class("several").count == on_device(ladder) == 3 * FEW
    # From one query to the next one of the same turn: in all but the last of each.
    assert ladder.outside.count == ladder.queries - 3
    assert ladder.outside.sum_ns + sum(rung.sum_ns for rung in ladder.classes) < ladder.seconds * 1e9
    assert {name for name, n in ladder.losses.items() if n} <= {"missed_in", "requeued"}


@pytest.mark.needs("bpftool")
def test_a_lost_request_is_no_answer_to_whether_its_thread_slept(engine: Standin, tmp_path: Path) -> None:
    out, orders = tmp_path / "ladder.json", tmp_path / "orders"
    with Children() as children:
        observer = ladder_observer(LadderRequest(engine.pid, 1), children, out)
        with watched(observer, engine):
            (child,) = children
            listed = subprocess.run(["bpftool", "map", "list", "-j"], capture_output=True, check=True).stdout
            (flights,) = [
                one for one in json.loads(listed) if one.get("name") == "flights" and one["id"] in maps_of(child.pid)
            ]
            update = f"map update id {flights['id']} key hex {{}} value hex {bytes(flights['bytes_value']).hex(' ')}"
            keys = (key.to_bytes(flights["bytes_key"], "big").hex(" ") for key in range(flights["max_entries"]))
            orders.write_text("\n".join(map(update.format, keys)) + "\n", encoding="ascii")
            subprocess.run(["bpftool", "batch", "file", orders], capture_output=True, check=True)
            engine.query(f"1 {FEW}")
    ladder = whole_ladder(out)
    # A request of another process that a limit holds back finds no place, either.
    assert ladder.losses["lost_request"] >= FEW == ladder.of_class("disorder").count
    assert ladder.of_class("awake").count == 0


def maps_of(pid: int) -> set[int]:
    """Ids of the BPF maps of a process."""
    descriptors = "".join(file.read_text() for file in Path(f"/proc/{pid}/fdinfo").iterdir())
    return {int(number) for number in re.findall(r"map_id:\s*(\d+)", descriptors)}


@pytest.mark.parametrize(("engine", "name"), [((2,), "Get("), ((3,), "GetImpl(")], indirect=["engine"])
def test_the_function_that_is_really_called_is_found(engine: Standin, tmp_path: Path, name: str) -> None:
    ladder = follow(engine, tmp_path, f"1 {_MANY}")
    (watched,) = ladder.query
    # Of two overloads the outer one, and not the one it calls.
    assert watched.name.startswith(f"rocksdb::DBImpl::{name}") and "std::" not in watched.name
    assert watched.calls > 0 and ladder.losses["nested"] == 0
    assert ladder.queries == on_device(ladder) == _MANY


@pytest.mark.parametrize("engine", [(4,)], indirect=True)
def test_what_is_not_called_is_not_waited_for(engine: Standin, tmp_path: Path) -> None:
    """Asked for Gets it starts at the read call, or refuses to; asked for anything it follows what is called."""
    ladder = follow(engine, tmp_path, f"1 {_MANY}", kind="get")
    assert (ladder.kind, ladder.start, ladder.queries) == ("read", "syscall", _MANY)
    assert "but MultiGet was" in ladder.notes[0]
    assert [rung.name for rung in ladder.stages] == list(STAGES)[2:8]
    assert checked(ladder, "start").verdict is Verdict.NOTE and "the read call" in printed(ladder)
    with pytest.raises(MeasurementError, match="not called within 1 s"):
        ladder_of(LadderRequest(engine.pid, 1, "query", kind="get"), tmp_path, nothing_at_all, engine)
    assert engine.query("stop") > 0

    ladder = follow(engine, tmp_path, f"10 {FEW}", f"1 {FEW}")
    assert ladder.start == "query" and ladder.kind == "multiget"
    assert "Get was not called within 1 s: MultiGet is followed" in ladder.notes
    # Of two overloads the outer one.
    (watched,) = ladder.query
    assert watched.name.startswith("rocksdb::DBImpl::MultiGet(") and "bool" not in watched.name
    assert ladder.queries == ladder.finished == 2 * FEW and ladder.losses["nested"] == 0
    assert ladder.of_class("several").count == on_device(ladder) == FEW
    assert "ladder of MultiGets" in printed(ladder)


def test_a_kind_that_the_engine_does_not_have_is_refused(burner: subprocess.Popen[str], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--kind select") as refused:
        ladder_of(LadderRequest(burner.pid, kind="select"), tmp_path, nothing_at_all)
    assert "get, multiget, seek" in str(refused.value.mend)


def test_reads_one_after_the_other_are_parts_of_their_query(engine: Standin, tmp_path: Path) -> None:
    ladder = follow(engine, tmp_path, f"7 {_MANY}", f"2 {FEW}")
    several, parts = ladder.of_class("several"), ladder.several
    assert parts is not None and [part.name for part in parts.parts] == [name for name in PLACES if name != "throttle"]
    assert several.count == _MANY + FEW and parts.reads == parts.requests == 7 * _MANY + 2 * FEW
    # Not one is done while another is waited for; some are done before their thread sleeps.
    ns = {part.name: part.sum_ns for part in parts.parts}
    assert all(0 <= part.most_ns <= several.most_ns for part in parts.parts)
    assert ns["device"] > ns["between"] > 0 and ns["before"] > 0 and ns["after"] > 0 and ns["reader"] > 0
    assert not failed(ladder_checks(ladder))
    assert not [one for one in ladder_checks(ladder) if one.name == "ladder several"]
    told = printed(ladder)
    assert f"several: n {_MANY + FEW:,}; {parts.reads / several.count:.2f} read calls" in told


def test_a_read_that_another_thread_answers_is_a_sleep(engine: Standin, tmp_path: Path) -> None:
    ladder = follow(engine, tmp_path, f"-2 {FEW}")
    foreign, parts = ladder.of_class("foreign"), ladder.foreign
    assert parts is not None and foreign.count == parts.reads == FEW and not parts.requests
    ns = {part.name: part.sum_ns for part in parts.parts}
    assert ns["queue"] == ns["device"] == 0
    # The other thread answers once this one sleeps.
    assert ns["sleep"] >= FEW * 200_000
    assert f"foreign: n {FEW}; 1.00 read calls and 0.00 requests each" in printed(ladder)


def test_a_mapped_page_is_waited_for_without_a_read_call(engine: Standin, tmp_path: Path) -> None:
    ladder = follow(engine, tmp_path, f"-3 {_MANY}")
    several, parts = ladder.of_class("several"), ladder.several
    # What the file system reads to find a page is a request as well; a page may have been read with another one.
    assert parts is not None and 0 < several.count <= parts.requests and parts.reads == 0
    assert several.count + ladder.of_class("no_read").count == _MANY
    ns = {part.name: part.sum_ns for part in parts.parts}
    assert ns["device"] > 0 and not any(ns[name] for name in ("reader", "call", "between", "after"))


def test_of_requests_that_overlap_the_last_one_is_waited_for(engine: Standin, tmp_path: Path) -> None:
    """16 MiB in one read call: more than a request may hold."""
    ladder = follow(engine, tmp_path, f"-1 {_LARGE}")
    several, parts = ladder.of_class("several"), ladder.several
    assert parts is not None and several.count == _LARGE == parts.reads
    assert parts.requests >= 4 * _LARGE
    # Of each read most requests end before the last of them.
    assert parts.not_waited > parts.requests / 2
    assert 0 < sum(part.sum_ns for part in parts.parts if part.name in ("queue", "device")) <= several.sum_ns


@pytest.mark.parametrize("engine", [(1, "-s")], indirect=True)
def test_a_binary_without_symbols_is_named(engine: Standin, tmp_path: Path) -> None:
    ladder = follow(engine, tmp_path, f"1 {FEW}")
    assert ladder.start == "syscall" and ladder.queries == FEW
    assert "standin" in ladder.notes[0]


def test_threads_that_come_and_go_lose_nothing(engine: Standin, tmp_path: Path) -> None:
    ladder = follow(engine, tmp_path, "churn 64 23")
    assert ladder.queries == ladder.finished == on_device(ladder) == 64 * 23
    assert ladder.threads == 64
    # A disk that others keep busy may put a request back into its queue.
    assert {name for name, n in ladder.losses.items() if n} <= {"requeued", "missed_in"}


def test_one_in_eight_is_one_in_eight(engine: Standin, tmp_path: Path) -> None:
    ladder = follow(engine, tmp_path, "0 80000", sample=8)
    assert ladder.queries == 80000
    # Gaps of 1 to 15, evenly drawn: their mean is known within 6 of its standard errors.
    assert abs(ladder.followed - 10000) < 6 * 10000**0.5 * 4.32 / 8


def test_an_empty_window_is_an_error(engine: Standin, tmp_path: Path) -> None:
    assert checked(follow(engine, tmp_path), "queries").verdict is Verdict.FAILED
