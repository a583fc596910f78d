"""Writes of RocksDB itself, by a program (writer.c) that does a given number of writes."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ebpf.writes import WritesRequest, write_checks, writes_observer
from ground.results.write_ladder import WriteLadder, WriteStage, read_write_ladder, stage_sum
from ground.system.binaries import built_binary
from tests.ebpf.windows import Load as Carry
from tests.ebpf.windows import OrderedProgram, failed, observed
from tests.until import until

# A prime: a count that is short by a round number is no accident.
_WRITES = 211


@dataclass(frozen=True)
class Load:
    """An order to the writer: so many threads write `_WRITES` batches of `keys` each."""

    threads: int = 1
    sync: bool = False
    no_log: bool = False
    keys: int = 1
    nap_us: int = 0
    writes: int = _WRITES

    def __str__(self) -> str:
        return f"{self.threads} {self.writes} {self.sync:d} {self.no_log:d} {self.keys} {self.nap_us}"

    @property
    def count(self) -> int:
        return self.threads * self.writes


@dataclass(frozen=True)
class Written:
    """What was followed, ns by the engine's own clocks, and ns of all naps."""

    ladder: WriteLadder
    wal_ns: int
    memtable_ns: int
    delay_ns: int
    napped_ns: int

    def ns(self, *stages: str) -> int:
        """Of all writes, without their waits."""
        return sum(stage_sum(self.ladder.roles, name).sum_ns for name in stages)


class Writer(OrderedProgram):
    """The program, once its database is open."""

    def write(self, load: Load) -> Sequence[int]:
        self.order(str(load))
        return [int(word) for word in self.answer().split()]


def follow(writer: Writer, load: Load, out: Path, stages: str = "full", *, exact_wake_ups: bool = False) -> Written:
    """What is followed of a window in which the writer carries out one order and nothing else."""
    measured: list[int] = []
    request = WritesRequest(writer.pid, stages, force=True, exact_wake_ups=exact_wake_ups)
    ladder = followed(request, out, lambda: measured.extend(writer.write(load)))
    return Written(ladder, *measured)


def followed(request: WritesRequest, out: Path, load: Carry) -> WriteLadder:
    """The writes of a window in which the load was carried out: the stages of each role add up to it, and of its queue,
    and each write is counted once wherever it is."""
    observed(lambda children: writes_observer(request, children, out), load)
    ladder = read_write_ladder(out)
    for role in ladder.roles:
        assert sum(one.sum_ns for one in role.stages) == role.sum_ns
        assert sum(one.sum_ns for one in role.join) == sum(one.sum_ns for one in role.stages if one.name == "join")
    assert sum(role.sum_ns for role in ladder.roles) == ladder.total_ns
    assert ladder.finished == ladder.joins == ladder.queued
    assert not failed(write_checks(ladder))
    return ladder


@contextlib.contextmanager
def _client(argv: Sequence[str], name: str, number: int) -> Iterator[int]:
    """The pid of a client, once it has made so many read calls (syscr) or write calls (syscw)."""
    client = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: calls_of(client.pid, name) > number, client)
        yield client.pid
    finally:
        client.kill()
        client.wait()


def writing_client(engine: str, directory: Path, threads: int) -> contextlib.AbstractContextManager[int]:
    """Our client, which syncs each of its writes; its pid, once it writes."""
    argv = [str(built_binary("ioflame-client")), f"--engine={engine}", f"--db={directory}", "--benchmarks=fillrandom"]
    return _client([*argv, "--num=1000000000", f"--threads={threads}", "--sync=true", "--duration=600"], "syscw", 500)


def writing_db_bench(database: Path, *flags: str) -> contextlib.AbstractContextManager[int]:
    """db_bench, which syncs each of its writes."""
    argv = ["db_bench", "--benchmarks=fillrandom", f"--db={database}", "--num=10000000", "--sync=1", "--duration=600"]
    return _client([*argv, *flags], "syscw", 500)


def reading_db_bench(
    database: Path, benchmark: str, *flags: str, number: int = 1000
) -> contextlib.AbstractContextManager[int]:
    """db_bench, once it has made so many read calls."""
    argv = ["db_bench", f"--benchmarks={benchmark}", f"--db={database}", "--use_existing_db=1", "--duration=600"]
    return _client([*argv, *flags], "syscr", number)


def calls_of(pid: int, name: str) -> int:
    """Read calls (syscr) or write calls (syscw) of a process."""
    return int(Path(f"/proc/{pid}/io").read_text("ascii").partition(f"{name}: ")[2].split()[0])


def calls(pid: int, name: str, number: int) -> Carry:
    """Lets the process make so many of them."""

    def wait() -> None:
        before = calls_of(pid, name)
        until(lambda: calls_of(pid, name) >= before + number)

    return wait


def counts_of(stages: Sequence[WriteStage]) -> dict[str, int]:
    return {one.name: one.count for one in stages}
