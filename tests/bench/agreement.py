"""Our client against db_bench on one RocksDB, one database, the same flags: reads and CPU of the engine for a query.

Both run at the same time, each on a copy and a CPU of its own, which they change from pair to pair: what disturbs one
disturbs the other. The ratio is the median of the pairs, its interval by bootstrap over them; they agree where all of
the interval is within the bound. The stacks of a recording of each separate the client's CPU from the engine's: a
sample is the client's where no frame of RocksDB follows the client's last frame towards the leaf. Where there is
valgrind, it counts the instructions of a Get as well: that figure is the same on a busy machine.
"""

from __future__ import annotations

import math
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.common import STACKFOLD, Look, options_of, row
from workloads.engine import Engine
from workloads.registry import engine_named
from workloads.scales import DatabaseShape, Sizing
from workloads.steps import StepParameters

READS, CPU, INSTRUCTIONS = 0.01, 0.03, 0.01
# Opening and the first two seconds are left out, and a second at the end.
SECONDS = 5
_CLIENT = re.compile(r"\[db_bench\]|<?ioflame_client::")
# Its C interface, which db_bench does not go through, is not the engine: it allocates a handle for each value.
_ENGINE = re.compile(r"rocksdb::|\[librocksdb")
_GET = "rocksdb::DBImpl::GetImpl*"


@dataclass(frozen=True)
class Window:
    """Per query: CPU of the process in us, and reads of the device."""

    cpu: float
    reads: float
    found: bool


def parameters_of(
    place: Path, engine: Engine, shape: DatabaseShape, seed: int, configuration: str, **flags: object
) -> StepParameters:
    cached = configuration == "byrx"
    return StepParameters(
        Sizing(shape, shape.data_bytes * 2 if cached else shape.data_bytes // 25), place / engine.about.client, 1, seed,
        duration=SECONDS, report_file=place / f"{engine.about.client}.csv",
        flags={**engine.configurations()[configuration].flags, **flags},
    )  # fmt: skip


class Running:
    """A running client, pinned to one CPU: its window lasts from the end of second 2 to that of its last but one."""

    def __init__(
        self, engine: Engine, place: Path, shape: DatabaseShape, seed: int, configuration: str, cpu: int
    ) -> None:
        self.engine, self._shape = engine, shape
        self.report, self._log = place / f"{engine.about.client}.csv", place / f"{engine.about.client}.log"
        self.report.unlink(missing_ok=True)
        parameters = parameters_of(place, engine, shape, seed, configuration)
        build = engine.inspect(engine.find_binary(None))
        argv = ["taskset", "-c", str(cpu), *engine.command(build, "readrandom", parameters)]
        with self._log.open("w") as out:
            self.child = subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT)
        self._edges: list[Look] = []

    def look(self) -> bool:
        """Takes an edge that is due; True once it has both."""
        if len(self._edges) < 2:
            # A header, and a line a second.
            lines = self.report.read_text().count("\n") if self.report.exists() else 0
            if lines >= (3, SECONDS)[len(self._edges)]:
                self._edges.append(Look.at(self.child.pid))
        return len(self._edges) == 2

    def window(self) -> Window:
        self.child.wait()
        queries = sum(self.engine.parse_report(self.report.read_text())[2 : SECONDS - 1])
        result = self.engine.parse_result(self._log.read_text(), "readrandom")
        assert result is not None
        first, last = self._edges
        reads = (last.read_bytes - first.read_bytes) / queries / self._shape.block_size
        return Window((last.cpu_ns - first.cpu_ns) / queries / 1e3, reads, result.found == result.reads)


def together(running: Sequence[Running], record: Path | None = None) -> list[Window]:
    """The windows of clients that run at the same time: what disturbs one disturbs the other. record: for perf.data"""
    recording = None
    while sum(one.look() for one in running) < len(running):
        if record is not None and recording is None and running[0].report.exists():
            options = ["-e", "cpu-clock", "-F", "999", "-g", "-p", str(running[0].child.pid), "-o", str(record)]
            recording = subprocess.Popen(["perf", "record", "-q", *options, "--", "sleep", "3"])
        time.sleep(0.002)
    if recording is not None:
        recording.wait()
    return [one.window() for one in running]


def own_share(place: Path) -> float:
    """The share of weight that is the client's own."""
    argv = [str(STACKFOLD), "-q", "--kernel", str(place / "perf.data")]
    folded = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    own = whole = 0
    for line in folded.splitlines():
        stack, _, weight = line.rpartition(" ")
        frames = stack.split(";")
        whole += int(weight)
        last = max((n for n, frame in enumerate(frames) if _CLIENT.match(frame)), default=None)
        if last is not None and not any(_ENGINE.match(frame) for frame in frames[last + 1 :]):
            own += int(weight)
    return own / whole


def instructions(place: Path, engine: Engine, shape: DatabaseShape, configuration: str) -> float:
    """Of a Get, from its entry into the engine to its return: what twice the Gets take more."""
    counted = []
    for reads in (20_000, 40_000):
        parameters = parameters_of(place, engine, shape, 1, configuration, duration=0, reads=reads)
        build = engine.inspect(engine.find_binary(None))
        argv = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", f"--toggle-collect={_GET}",
                *engine.command(build, "readrandom", parameters)]  # fmt: skip
        said = subprocess.run(argv, check=True, capture_output=True, text=True).stderr
        counted.append(int(re.findall(r"Collected : (\d+)", said)[0]))
    return (counted[1] - counted[0]) / 20_000


def interval(ratios: Sequence[float]) -> tuple[float, float, float]:
    """Median, and the 95 % interval of it."""
    draw = random.Random(1).choices
    draws = sorted(statistics.median(draw(ratios, k=len(ratios))) for _ in range(4_000))
    low, high = draws[100], draws[3_899]
    return statistics.median(ratios), low, high


def main() -> int:
    # pairs: an even number; place: where the database is to be
    options = options_of(__doc__, pairs=12, configurations="iodir byrx", keys=200_000, place=None)
    theirs, ours = engine_named("rocksdb"), engine_named("rocksdb", client="ioflame")
    shape = DatabaseShape(options.keys)
    with tempfile.TemporaryDirectory(dir=options.place or Path.cwd()) as name:
        place = Path(name)
        parameters = StepParameters(Sizing(shape, 16 << 20), place / theirs.about.client, 1, 1)
        for step in ("load", "settle"):
            argv = theirs.command(theirs.inspect(theirs.find_binary(None)), step, parameters)
            subprocess.run(argv, check=True, capture_output=True)
        shutil.copytree(place / theirs.about.client, place / ours.about.client)
        seed = 100
        for configuration in options.configurations.split():
            shares = []
            for engine in (theirs, ours):
                together([Running(engine, place, shape, seed := seed + 1, configuration, 0)], place / "perf.data")
                shares.append(own_share(place))
            cpu, reads, found = [], [], True
            for pair in range(options.pairs):
                other, mine = together([
                    Running(engine, place, shape, seed := seed + 1, configuration, (pair + number) % 2)
                    for number, engine in enumerate((theirs, ours))
                ])  # fmt: skip
                found = found and other.found and mine.found
                cpu.append(mine.cpu * (1 - shares[1]) / (other.cpu * (1 - shares[0])))
                reads.append((mine.reads, other.reads))
            # One CPU may be busier than the other: two pairs, with the CPUs changed, are one ratio.
            middle, low, high = interval([math.sqrt(a * b) for a, b in zip(cpu[::2], cpu[1::2], strict=True)])
            figure = f"own frames {shares[0]:.2%} and {shares[1]:.2%}; ratio {low:.3f} to {high:.3f}"
            row(f"{configuration}: CPU of the engine for a query, db_bench and ours", figure, f"{middle:.3f}x",
                f"within {CPU:.0%}", max(high - 1, 1 - low) <= CPU)  # fmt: skip
            own, theirs_reads = (statistics.median(side) for side in zip(*reads, strict=True))
            # Where everything is cached there is next to none.
            same = abs(own - theirs_reads) <= READS * max(theirs_reads, 0.1)
            figure = f"{theirs_reads:.4f} and {own:.4f}"
            row(f"{configuration}: reads for a query", figure, "", f"within {READS:.0%}", same)
            if shutil.which("valgrind"):
                counts = [instructions(place, engine, shape, configuration) for engine in (theirs, ours)]
                change = counts[1] / counts[0] - 1
                row(f"{configuration}: instructions of a Get, db_bench and ours", "{:,.0f} and {:,.0f}".format(*counts),
                    f"{change:+.1%}", f"within {INSTRUCTIONS:.0%}", abs(change) <= INSTRUCTIONS)  # fmt: skip
            row(f"{configuration}: every key found by both", str(found), "", "", found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
