"""Writes of RocksDB itself, by a program (writer.c) that writes as often as it is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ebpf.writes import WritesRequest, writes_observer
from ground.results.write_ladder import WriteLadder, WriteStage, read_write_ladder, stage_sum
from ground.system.observer import attached
from ground.system.process import Children
from ground.text.progress import Reporter
from tests.ebpf.ordered import OrderedProgram

__all__ = ("Load", "Writer", "Written", "counts_of", "follow")

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
    """What was followed, ns by the engine's own clocks, ns of all naps, and of stalls by the engine's statistics."""

    ladder: WriteLadder
    wal_ns: int
    memtable_ns: int
    delay_ns: int
    napped_ns: int
    stalled_ns: int

    def ns(self, *stages: str) -> int:
        """Of all writes, without their waits."""
        return sum(stage_sum(self.ladder.roles, name).sum_ns for name in stages)


class Writer(OrderedProgram):
    """The program, once its database is open."""

    def __init__(self, program: Path, directory: Path, options: str) -> None:
        super().__init__(program, directory, options)

    def write(self, load: Load) -> Sequence[int]:
        self.order(str(load))
        return [int(word) for word in self.answer().split()]


def follow(writer: Writer, load: Load, out: Path, stages: str = "full") -> Written:
    """What is followed of a window in which the writer carries out one order and nothing else."""
    with Children() as children:
        observer = writes_observer(WritesRequest(writer.pid, stages, force=True), children, out)
        with attached(observer, Reporter(quiet=True)):
            observer.open()
            measured = writer.write(load)
            observer.close()
    return Written(read_write_ladder(out), *measured)


def counts_of(stages: Sequence[WriteStage]) -> dict[str, int]:
    return {one.name: one.count for one in stages}
