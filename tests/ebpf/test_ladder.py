"""The ladder on queries that are counted by who made them: a stand-in engine of known shape, and db_bench itself."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.counters import ProcessProbe, delta, device_of
from ebpf.ladder import LadderRequest, ladder_checks, ladder_observer
from ebpf.observer import loader_binary
from ground.errors import HostError, UsageError
from ground.results.checks import Check, Verdict
from ground.results.ladder import PLACES, STAGES, Ladder, read_ladder
from ground.system.observer import attached
from ground.system.process import Children
from ground.text.progress import Reporter
from tests.ebpf.conftest import Build
from tests.ebpf.ordered import OrderedProgram
from viz.terminal.ladder import ladder_text

pytestmark = pytest.mark.needs("co-re")

# Primes: a count that is short by a round number is no accident.
_FEW, _MANY, _LARGE = 211, 1009, 53
# Sleeps that are not of a query: waiting for orders and the like.
_ORDERS = 20


class Standin(OrderedProgram):
    """The stand-in engine as a process: orders in, counts out. prefix: a command that runs it."""

    # How often it slept while it carried out the orders of a window.
    slept = 0

    def __init__(self, binary: Path, data: Path, *prefix: str) -> None:
        super().__init__(*prefix, binary, data)
        self.data = data

    def query(self, words: str) -> int:
        self.order(words)
        return int(self.answer())


def follow(
    engine: Standin, tmp_path: Path, *orders: str, start: str = "auto", sample: int = 1, kind: str | None = None
) -> Ladder:
    """The ladder of a window in which the engine carries out `orders`; queries run while the probes are attached."""
    out = tmp_path / "ladder.json"
    probe = ProcessProbe(engine.pid, device_of(engine.data))
    engine.order("go")
    with Children() as children:
        observer = ladder_observer(LadderRequest(engine.pid, sample, start, kind=kind), children, out)
        with attached(observer, Reporter(quiet=True)):
            engine.query("stop")
            observer.open()
            before = probe.snapshot()
            for order in orders:
                engine.query(order)
            engine.slept = delta(before, probe.snapshot(), None).voluntary_switches
            observer.close()
    return read_ladder(out)


@pytest.fixture
def engine(request: pytest.FixtureRequest, build: Build, data: Path) -> Iterator[Standin]:
    """`@pytest.mark.parametrize("engine", [(shape, *flags)], indirect=True)`."""
    engine = Standin(build(*request.param), data)
    yield engine
    engine.kill()


def maps_of(out: Path) -> set[int]:
    """Ids of the BPF maps of the program that writes this file."""
    owner = subprocess.run(["pgrep", "-f", str(out)], capture_output=True, check=True, text=True).stdout.strip()
    descriptors = "".join(file.read_text() for file in Path(f"/proc/{owner}/fdinfo").iterdir())
    return {int(number) for number in re.findall(r"map_id:\s*(\d+)", descriptors)}


def check(ladder: Ladder, name: str) -> Check:
    return next(check for check in ladder_checks(ladder) if check.name == name)


def on_device(ladder: Ladder) -> int:
    """Queries with one read: some of these never sleep, few or most of them as it pleases the host of a VM."""
    return sum(ladder.of_class(name).count for name in ("one_read", "awake", "disorder"))


@pytest.mark.alone
@pytest.mark.parametrize("engine", [(1,), (1, "-static"), (1, "-no-pie")], indirect=True)
def test_each_query_is_counted_by_what_it_did(engine: Standin, tmp_path: Path) -> None:
    ladder = follow(engine, tmp_path, f"1 {_MANY}", f"0 {_FEW}", f"2 {_FEW}")
    assert (ladder.start, ladder.notes) == ("query", [])
    assert ladder.queries == ladder.followed == _MANY + 2 * _FEW
    assert ladder.of_class("no_read").count == _FEW
    assert ladder.of_class("several").count == _FEW
    assert on_device(ladder) == _MANY
    # Those with stages slept, each once, and the others did not. Two reads may sleep twice, and so does an order.
    one_read = ladder.of_class("one_read").count
    assert one_read <= engine.slept
    assert engine.slept <= one_read + ladder.of_class("disorder").count + 2 * _FEW + _ORDERS
    assert ladder.incomplete == 0
    assert ladder.threads == 1
    assert {name for name, n in ladder.losses.items() if n} <= {"missed_in"}


@pytest.mark.needs("bpftool")
@pytest.mark.parametrize("engine", [(1,)], indirect=True)
def test_a_lost_request_is_no_answer_to_whether_its_thread_slept(engine: Standin, tmp_path: Path) -> None:
    out, orders = tmp_path / "ladder.json", tmp_path / "orders"
    engine.order("go")
    with Children() as children:
        observer = ladder_observer(LadderRequest(engine.pid, 1), children, out)
        with attached(observer, Reporter(quiet=True)):
            engine.query("stop")
            listed = subprocess.run(["bpftool", "map", "list", "-j"], capture_output=True, check=True).stdout
            (flights,) = [
                one for one in json.loads(listed) if one.get("name") == "flights" and one["id"] in maps_of(out)
            ]
            update = f"map update id {flights['id']} key hex {{}} value hex {bytes(flights['bytes_value']).hex(' ')}"
            keys = (key.to_bytes(flights["bytes_key"], "big").hex(" ") for key in range(flights["max_entries"]))
            orders.write_text("\n".join(map(update.format, keys)) + "\n", encoding="ascii")
            subprocess.run(["bpftool", "batch", "file", orders], capture_output=True, check=True)
            observer.open()
            engine.query(f"1 {_FEW}")
            observer.close()
    ladder = read_ladder(out)
    assert ladder.losses["lost_request"] == ladder.of_class("disorder").count == _FEW
    assert ladder.of_class("awake").count == 0


@pytest.mark.parametrize("engine", [(1,)], indirect=True)
def test_the_parts_add_up_and_each_is_of_every_query(engine: Standin, tmp_path: Path) -> None:
    ladder = follow(engine, tmp_path, f"1 {_MANY}")
    assert [rung.name for rung in ladder.stages] == list(STAGES)
    assert {rung.count for rung in ladder.stages} == {ladder.total.count}
    assert sum(rung.sum_ns for rung in ladder.stages) == ladder.total.sum_ns
    assert sum(count for _, _, count in ladder.total.buckets) == ladder.total.count
    # The device takes longer than the engine, which does nothing here but read.
    assert ladder.stage("device").sum_ns > ladder.stage("get_post").sum_ns
    assert 0 < ladder.probe_ns < ladder.total.mean_ns
    assert ladder.device is not None
    assert ladder.device.reads >= on_device(ladder)
    assert check(ladder, "ladder sum").verdict is Verdict.OK


@pytest.mark.parametrize("engine", [(2,), (3,)], indirect=True)
def test_the_function_that_is_really_called_is_found(
    engine: Standin, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    ladder = follow(engine, tmp_path, f"1 {_MANY}")
    (watched,) = ladder.query
    shape = request.node.callspec.params["engine"][0]
    if shape == 2:  # of two overloads the outer one, and not the one it calls
        assert watched.name.startswith("rocksdb::DBImpl::Get(") and "std::" not in watched.name
    else:
        assert watched.name.startswith("rocksdb::DBImpl::GetImpl(")
    assert watched.calls > 0
    assert ladder.queries == _MANY
    assert on_device(ladder) == _MANY
    assert ladder.losses["nested"] == 0


@pytest.mark.parametrize("engine", [(4,)], indirect=True)
def test_without_the_queries_that_are_asked_for_it_starts_at_the_read_call(engine: Standin, tmp_path: Path) -> None:
    ladder = follow(engine, tmp_path, f"1 {_MANY}", kind="get")
    assert ladder.kind == "read"
    assert ladder.start == "syscall"
    assert "but MultiGet was" in ladder.notes[0]
    assert ladder.queries == _MANY
    assert [rung.name for rung in ladder.stages] == list(STAGES)[2:8]
    assert sum(rung.sum_ns for rung in ladder.stages) == ladder.total.sum_ns
    assert check(ladder, "ladder start").verdict is Verdict.NOTE
    assert "the read call" in ladder_text(ladder)


@pytest.mark.parametrize("engine", [(4,)], indirect=True)
def test_where_no_get_is_called_what_is_called_is_followed(engine: Standin, tmp_path: Path) -> None:
    ladder = follow(engine, tmp_path, f"10 {_FEW}", f"1 {_FEW}")
    assert ladder.start == "query" and ladder.kind == "multiget"
    assert "Get was not called within 1 s: MultiGet is followed" in ladder.notes
    # Of two overloads the outer one.
    (watched,) = ladder.query
    assert watched.name.startswith("rocksdb::DBImpl::MultiGet(") and "bool" not in watched.name
    assert ladder.queries == ladder.finished == 2 * _FEW and ladder.losses["nested"] == 0
    assert ladder.of_class("several").count == _FEW and on_device(ladder) == _FEW
    assert "ladder of MultiGets" in ladder_text(ladder)


def test_a_kind_that_the_engine_does_not_have_is_refused(burner: subprocess.Popen[str], tmp_path: Path) -> None:
    with Children() as children:
        observer = ladder_observer(LadderRequest(burner.pid, kind="select"), children, tmp_path / "ladder.json")
        with pytest.raises(UsageError, match="--kind select") as refused:
            observer.attach()
        observer.detach()
    assert "get, multiget, seek" in str(refused.value.mend)


@pytest.mark.parametrize("engine", [(1,)], indirect=True)
def test_the_parts_of_several_reads_add_up_to_the_query(engine: Standin, tmp_path: Path) -> None:
    ladder = follow(engine, tmp_path, f"7 {_MANY}", f"2 {_FEW}")
    several, parts = ladder.of_class("several"), ladder.several
    assert parts is not None
    assert [part.name for part in parts.parts] == list(PLACES)
    assert {part.count for part in parts.parts} == {several.count} == {_MANY + _FEW}
    assert sum(part.sum_ns for part in parts.parts) == several.sum_ns
    assert parts.reads == parts.requests == 7 * _MANY + 2 * _FEW
    # One after the other: not one is done while another is waited for, and few before their thread sleeps.
    ns = {part.name: part.sum_ns for part in parts.parts}
    assert all(0 <= part.most_ns <= several.most_ns for part in parts.parts)
    assert ns["device"] > ns["between"] > 0 and ns["before"] > 0 and ns["after"] > 0 and ns["reader"] > 0
    assert parts.not_waited < parts.requests / 2
    assert check(ladder, "ladder sum of several").verdict is Verdict.OK
    assert check(ladder, "ladder queries").verdict is Verdict.OK
    assert not [one for one in ladder_checks(ladder) if one.name == "ladder several"]
    assert f"several: {_MANY + _FEW:,} with {parts.reads / several.count:.2f} read calls" in ladder_text(ladder)


@pytest.mark.parametrize("engine", [(1,)], indirect=True)
def test_a_read_that_another_thread_answers_is_a_sleep(engine: Standin, tmp_path: Path) -> None:
    ladder = follow(engine, tmp_path, f"-2 {_FEW}")
    foreign, parts = ladder.of_class("foreign"), ladder.foreign
    assert parts is not None and foreign.count == parts.reads == _FEW and not parts.requests
    ns = {part.name: part.sum_ns for part in parts.parts}
    assert sum(ns.values()) == foreign.sum_ns
    assert ns["queue"] == ns["device"] == 0 and ns["sleep"] >= _FEW * 150_000
    assert check(ladder, "ladder sum of foreign").verdict is Verdict.OK
    assert f"foreign: {_FEW} with 1.00 read calls, no request of their own" in ladder_text(ladder)


@pytest.mark.parametrize("engine", [(1,)], indirect=True)
def test_a_mapped_page_is_waited_for_without_a_read_call(engine: Standin, tmp_path: Path) -> None:
    ladder = follow(engine, tmp_path, f"-3 {_MANY}")
    several, parts = ladder.of_class("several"), ladder.several
    assert parts is not None and several.count + ladder.of_class("no_read").count == _MANY
    # What the file system reads to find a page is a request as well.
    assert 0.9 * _MANY < several.count <= parts.requests and parts.reads == 0
    ns = {part.name: part.sum_ns for part in parts.parts}
    assert sum(ns.values()) == several.sum_ns
    assert ns["device"] > 0 and not any(ns[name] for name in ("reader", "call", "between", "after"))


@pytest.mark.parametrize("engine", [(1,)], indirect=True)
def test_of_requests_that_overlap_the_last_one_is_waited_for(engine: Standin, tmp_path: Path) -> None:
    """16 MiB in one read call: more than a request may hold."""
    ladder = follow(engine, tmp_path, f"-1 {_LARGE}")
    several, parts = ladder.of_class("several"), ladder.several
    assert parts is not None and several.count == _LARGE == parts.reads
    assert parts.requests >= 4 * _LARGE
    assert sum(part.sum_ns for part in parts.parts) == several.sum_ns
    # Of each read most requests end before the last of them.
    assert parts.not_waited > parts.requests / 2
    assert 0 < sum(part.sum_ns for part in parts.parts if part.name in ("queue", "device")) <= several.sum_ns


@pytest.mark.parametrize("engine", [(1, "-s")], indirect=True)
def test_a_binary_without_symbols_is_named(engine: Standin, tmp_path: Path) -> None:
    ladder = follow(engine, tmp_path, f"1 {_FEW}")
    assert ladder.start == "syscall"
    assert "standin1" in ladder.notes[0]
    assert ladder.queries == _FEW


@pytest.mark.parametrize("engine", [(4,)], indirect=True)
def test_asked_to_start_at_the_query_it_refuses_to_start_elsewhere(engine: Standin, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="not called within 1 s"):
        follow(engine, tmp_path, start="query", kind="get")


@pytest.mark.parametrize("engine", [(1,)], indirect=True)
def test_threads_that_come_and_go_lose_nothing(engine: Standin, tmp_path: Path) -> None:
    ladder = follow(engine, tmp_path, "churn 64 23")
    assert ladder.queries == ladder.finished == 64 * 23
    assert ladder.threads == 64
    assert on_device(ladder) == 64 * 23
    # A disk that others keep busy may put a request back into its queue.
    assert {name for name, n in ladder.losses.items() if n} <= {"requeued", "missed_in"}


@pytest.mark.parametrize("engine", [(1,)], indirect=True)
def test_one_in_eight_is_one_in_eight(engine: Standin, tmp_path: Path) -> None:
    ladder = follow(engine, tmp_path, "0 80000", sample=8)
    assert ladder.queries == 80000
    # Gaps of 1 to 15, evenly drawn: their mean is known within 4 of its standard errors.
    assert abs(ladder.followed - 10000) < 4 * 10000**0.5 * 4.32 / 8


@pytest.mark.parametrize("engine", [(1,)], indirect=True)
def test_a_process_that_dies_leaves_what_was_counted(engine: Standin, tmp_path: Path) -> None:
    out = tmp_path / "ladder.json"
    engine.order("go")
    with Children() as children:
        observer = ladder_observer(LadderRequest(engine.pid, 1), children, out)
        observer.attach()
        engine.query("stop")
        observer.open()
        assert engine.query(f"1 {_FEW}") == _FEW
        engine.kill()
        observer.close()
        observer.detach()
    ladder = read_ladder(out)
    assert ladder.process_ended
    assert ladder.finished == _FEW
    assert check(ladder, "ladder window").verdict is Verdict.WARN


@pytest.mark.parametrize("engine", [(1,)], indirect=True)
def test_an_empty_window_is_an_error(engine: Standin, tmp_path: Path) -> None:
    assert check(follow(engine, tmp_path), "ladder queries").verdict is Verdict.FAILED


def test_a_process_that_is_not_there_is_refused(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    with Children() as children:
        observer = ladder_observer(LadderRequest(gone.pid), children, tmp_path / "ladder.json")
        with pytest.raises(UsageError, match="there is no process"):
            observer.attach()
        observer.detach()


def test_a_sample_of_nothing_is_refused(tmp_path: Path) -> None:
    with Children() as children, pytest.raises(UsageError, match="LADDER_SAMPLE=0"):
        ladder_observer(LadderRequest(1, 0), children, tmp_path / "ladder.json")


def test_without_root_it_says_what_it_needs(burner: subprocess.Popen[str]) -> None:
    binary = loader_binary()
    assert binary is not None
    # Where anybody can execute it, whatever the mode of our own directories.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        Path(place).chmod(0o755)
        with_all = shutil.copy(binary, place)
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", with_all, "ladder"]
        done = subprocess.run([*command, "--pid", str(burner.pid)], capture_output=True, text=True, check=False)
    assert done.returncode == HostError.exit_code
    assert "run it as root" in done.stderr
