"""What `ioflame attach` costs a server that uses every CPU: windows with it and without in turns.

db_bench reads from its cache, and PostgreSQL answers `pgbench -S`, each with more threads than there are CPUs. A window
with it begins when `ioflame attach` is started and lasts until its page is written, so that Python's start, perf's
trials and the folding are all in it; one without is as long. Blocks are on, off, off, on and the reverse in turns, so
that what drifts cancels. The operations are the client's own count. A block is one figure, ln(on / off); the interval
is Student's t over blocks. `off / off` holds the two windows of each block without it against each
other.

The budget is of what the server uses in --period, in which there is one such run: what a run costs is spread over it.
"""

from __future__ import annotations

import contextlib
import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ground.results.interval import Interval
from ground.results.run import open_run
from ioflame.analysis.quantiles import t_quantile
from tests.bench.common import machine, options_of, say
from tests.e2e.commands import service
from tests.e2e.test_services import POSTGRESQL, postgresql_in

_CPUS = os.cpu_count() or 1
_WARM_UP_SECONDS = 5.0
_POLL_SECONDS = 0.005
_LAST_LOOK_SECONDS = 1.0
_DB_FLAGS = ["--num=200000", "--key_size=20", "--value_size=100", "--compression_type=none", "--disable_wal=1"]


@dataclass(frozen=True)
class Moment:
    """When the client last told its count, s, and what it had counted by then."""

    at: float
    operations: float


@dataclass(frozen=True)
class Served:
    """A server under load. told: all that its client has told so far, a moment a second"""

    name: str
    pid: int
    told: Callable[[], Sequence[Moment]]

    def next_moment(self) -> Moment:
        """The next one that it tells: the edge of a window."""
        known = len(self.told())
        while len(moments := self.told()) == known:
            time.sleep(_POLL_SECONDS)
        return moments[-1]


@contextlib.contextmanager
def running(argv: Sequence[str], out: Path) -> Iterator[int]:
    with out.open("wb") as file, service(argv, stdout=file, stderr=file) as process:
        yield process.pid


@contextlib.contextmanager
def db_bench(place: Path) -> Iterator[Served]:
    """All of the data is in its block cache."""
    db, report = place / "db", place / "report.csv"
    fill = ["db_bench", "--benchmarks=fillseq,compact", f"--db={db}", *_DB_FLAGS]
    subprocess.run(fill, capture_output=True, check=True)
    reads = ["db_bench", "--benchmarks=readrandom", "--use_existing_db=1", f"--db={db}", *_DB_FLAGS]
    reads += ["--duration=86400", f"--threads={_CPUS}", "--cache_size=268435456"]
    reads += ["--report_interval_seconds=1", f"--report_file={report}"]
    moments: list[Moment] = []

    def told() -> Sequence[Moment]:
        # A line has whole seconds alone; when it was written is known better by the file.
        lines = report.read_text(encoding="ascii").splitlines()[1:] if report.exists() else []
        if len(lines) > len(moments):
            moments.append(Moment(report.stat().st_mtime_ns / 1e9, sum(int(line.split(",")[1]) for line in lines)))
        return moments

    with running(reads, place / "db_bench.log") as pid:
        yield Served(f"db_bench, cached readrandom, {_CPUS} threads", pid, told)


@contextlib.contextmanager
def postgresql(place: Path) -> Iterator[Served]:
    """All of the data is in shared_buffers; its client has half of the CPUs."""
    log, clients = place / "pgbench.log", str(2 * _CPUS)
    if os.geteuid() == 0:
        shutil.chown(place, "postgres")

    def told() -> Sequence[Moment]:
        # progress: 1700000000.123 s, 12345.6 tps, lat ...
        lines = log.read_text(encoding="ascii").splitlines(keepends=True)
        words = [line.split() for line in lines if line.startswith("progress:") and line.endswith("\n")]
        moments: list[Moment] = []
        for _, at, _, rate, *_ in words:
            last = moments[-1] if moments else Moment(float(at), 0.0)
            moments.append(Moment(float(at), last.operations + float(rate) * (float(at) - last.at)))
        return moments

    with postgresql_in(place, "256MB", 5) as (pid, pgbench):
        load = [*pgbench, "-c", clients, "-j", clients, "-P", "1", "--progress-timestamp", "-T", "86400", "postgres"]
        with running(load, log):
            yield Served(f"PostgreSQL, pgbench -S, {clients} clients", pid, told)


@dataclass
class Measured:
    """ln(on / off) and ln(off / off) of each block; of each run its seconds, our CPU, and the server's cores by it."""

    ratios: list[float] = field(default_factory=list)
    nulls: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)
    cores: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Asked:
    """seconds: that a run watches; period: in which there is one, s; budget: a share of the server's CPU in it"""

    seconds: float
    period: float
    budget: float

    def words(self, pid: int, out: Path) -> list[str]:
        own = [f"--seconds={self.seconds:g}", f"--per={self.period:g}s", f"--budget={100 * self.budget:g}%"]
        return [sys.executable, "-m", "ioflame.cli", "attach", f"--pid={pid}", *own, f"--out={out}", "--quiet"]


def window_with(served: Served, asked: Asked, place: Path, measured: Measured) -> float:
    """Operations a second while it runs, from its start to its end."""
    runs, before = place / "runs", own_seconds()
    begun = served.next_moment()
    with (place / "attach.log").open("wb") as log:
        done = subprocess.run(asked.words(served.pid, runs), stdout=log, stderr=log, check=False)
    ended = served.next_moment()
    if done.returncode not in (0, 1):
        sys.exit(f"ioflame attach: {(place / 'attach.log').read_text(encoding='utf-8', errors='replace')[-500:]}")
    windows = open_run((runs / "latest").resolve()).record.windows
    used = sum(window.counters.cpu_ns for window in windows) / 1e9
    measured.cores.append(used / sum(window.seconds for window in windows))
    measured.own.append(own_seconds() - before)
    measured.seconds.append(ended.at - begun.at)
    shutil.rmtree(runs)
    return rate(begun, ended)


def window_without(served: Served, seconds: float) -> float:
    begun = served.next_moment()
    # Without a look in between, as in a window with it: looking costs the server 2 % of its CPUs.
    time.sleep(max(0.0, seconds - _LAST_LOOK_SECONDS))
    while (ended := served.next_moment()).at - begun.at < seconds - 0.5:
        pass
    return rate(begun, ended)


def rate(begun: Moment, ended: Moment) -> float:
    return (ended.operations - begun.operations) / (ended.at - begun.at)


def own_seconds() -> float:
    """CPU of all that has been started here and has ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure(served: Served, asked: Asked, rounds: int, place: Path) -> Measured:
    time.sleep(_WARM_UP_SECONDS)
    window_with(served, asked, place, warm_up := Measured())
    measured = Measured(seconds=[*warm_up.seconds])
    for block in range(rounds):
        rates: dict[bool, list[float]] = {True: [], False: []}
        for on in (True, False, False, True) if block % 2 == 0 else (False, True, True, False):
            length = statistics.median(measured.seconds)
            one = window_with(served, asked, place, measured) if on else window_without(served, length)
            rates[on].append(one)
        measured.ratios.append(
            statistics.mean(map(math.log, rates[True])) - statistics.mean(map(math.log, rates[False]))
        )
        measured.nulls.append(math.log(rates[False][1] / rates[False][0]))
    return measured


def interval(logs: Sequence[float]) -> Interval:
    """exp of their mean, with 95 % by Student's t; of a single one no interval can be had."""
    middle, n = statistics.mean(logs), len(logs)
    half = t_quantile(0.95, n - 1) * statistics.stdev(logs) / math.sqrt(n) if n > 1 else math.inf
    return Interval(math.exp(middle), math.exp(middle - half), math.exp(min(middle + half, 700.0)), n)


def tell(served: Served, asked: Asked, measured: Measured) -> None:
    watched, null = interval(measured.ratios), interval(measured.nulls)
    # Of a whole period: the run's seconds at its ratio, the others at 1.
    seconds = statistics.mean(measured.seconds[1:])
    loss, most, least = (
        (1 - ratio) * seconds / asked.period for ratio in (watched.estimate, watched.low, watched.high)
    )
    verdict = "met" if most <= asked.budget else "NOT MET" if least > asked.budget else "not decided: more --rounds"
    own, cores = statistics.mean(measured.own), statistics.mean(measured.cores)
    say(f"\n{served.name}; {cores:.2f} of {_CPUS} CPUs are the server's")
    say(f"{'throughput, off / off':<34} {told(null)}")
    say(f"{f'throughput, on / off, {seconds:.0f} s a run':<34} {told(watched)}")
    share = own / (cores * asked.period)
    say(f"{'our own CPU':<34} {own:.2f} s a run, {share:.2%} of the server's in {asked.period:g} s")
    say(
        f"{f'throughput lost, of {asked.period:g} s':<34} {loss:.2%}, 95 % {least:.2%} .. {most:.2%}   "
        f"goal <= {asked.budget:.2%}   {verdict}"
    )


def told(ratio: Interval) -> str:
    return f"{ratio.estimate:.4f}, 95 % {ratio.low:.4f} .. {ratio.high:.4f}, {ratio.n} blocks"


def main() -> None:
    # rounds: blocks of four windows for each server; run_seconds: that a run watches; period: s in which there is one
    # run; budget: per cent of the server's CPU in the period
    options = options_of(__doc__, rounds=3, run_seconds=10.0, period=600.0, budget=0.5)
    asked = Asked(options.run_seconds, options.period, options.budget / 100)
    say(f"machine  {machine()}")
    say(f"attach   {options.rounds} blocks of two runs; {' '.join(asked.words(0, Path())[5:8])}")
    for start, needed in ((db_bench, shutil.which("db_bench")), (postgresql, (POSTGRESQL / "postgres").exists())):
        if not needed:
            say(f"\n{start.__name__} is not installed")
            continue
        with tempfile.TemporaryDirectory(prefix="ioflame-attach-", dir="/var/tmp") as name:
            place = Path(name)
            place.chmod(0o755)
            with start(place) as served:
                tell(served, asked, measure(served, asked, options.rounds, place))


if __name__ == "__main__":
    main()
