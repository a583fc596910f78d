"""What each observer costs a running workload; `make bench-observers` runs it.

One db_bench reads O_DIRECT for as long as it takes. Windows with an observer attached alternate with windows with none;
a ratio is the rate of reads with it over the mean of the two windows beside it, so that slow drift of the machine
cancels. The order is shuffled in every round. The `nothing` row goes through the same windows with no observer at all:
it shows what two windows differ by themselves. A single thread is held on the CPU where the scheduler has put it: on a
disk whose completions interrupt one CPU, moving to another one costs more than any observer does. The rate is syscr of
/proc/PID/io, not the observer's own word. CPU per read, from /proc/PID/task/*/schedstat, has the part of an observer
that runs in the workload's own threads, and holds still on a machine with other work to do, where QPS does not.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ground.system.binaries import built_binary
from ground.system.held_process import HeldProcess
from ioflame.analysis.bootstrap import median
from tests.bench.common import Look, database, machine, options_of, reading, say
from tests.places import ROOT

LOADER = ROOT / "target" / "release" / "ioflame-ebpf"
# From the start of an observer to its first window, and from its end to the next: attaching slows the workload too.
SETTLE_SECONDS = 1.0
REST_SECONDS = 0.4


@dataclass
class Observer:
    """One observer's command line, from the pid, and the share of QPS it may cost, by threads of the workload.

    controlled: it says when it is attached, and begins on our order, by the loader's control protocol
    """

    name: str
    argv: Callable[[int, Path], Sequence[str]] | None
    controlled: bool = False
    goals: dict[int, float] = field(default_factory=dict)
    ratios: list[float] = field(default_factory=list)
    added_us: list[float] = field(default_factory=list)

    def goal(self, threads: int) -> float | None:
        fitting = [most for most in self.goals if most <= threads]
        return self.goals[max(fitting)] if fitting else None


def loader(program: str, *arguments: str) -> Callable[[int, Path], Sequence[str]]:
    def argv(pid: int, out: Path) -> Sequence[str]:
        return [str(LOADER), program, "--pid", str(pid), *arguments, "-o", str(out)]

    return argv


def perf(*scope: str) -> Callable[[int, Path], Sequence[str]]:
    def argv(pid: int, out: Path) -> Sequence[str]:
        chosen = scope or ("-p", str(pid))
        return ["perf", "record", "-q", "-e", "cpu-clock", "-F", "99", "-g", *chosen, "-o", str(out)]

    return argv


def stacksampler(pid: int, out: Path) -> Sequence[str]:
    return [str(built_binary("stacksampler")), f"--pid={pid}", "--hz=10", "--callgraph=dwarf", f"--output={out}"]


def requests(device: str, *arguments: str) -> Callable[[int, Path], Sequence[str]]:
    def argv(pid: int, out: Path) -> Sequence[str]:
        rows = ["--rows", str(out.with_suffix(".rows")), "--recording", str(out.with_suffix(".stacks"))]
        return [*loader("requests", "--device", device, *rows, *arguments)(pid, out)]

    return argv


def observers(device: str) -> list[Observer]:
    def ours(name: str, goals: dict[int, float], program: str, *arguments: str) -> Observer:
        return Observer(name, loader(program, *arguments), True, goals)

    return [
        Observer("nothing", None),
        # As a profile records where there is no PMU. Of a process alone, the timer is set anew at each switch-in.
        Observer("perf 99 Hz, all CPUs", perf("-a"), goals={1: 0.03}),
        Observer("perf 99 Hz, the process alone", perf()),
        Observer("PMP 10 Hz, stacks copied", stacksampler, goals={1: 0.01}),
        ours("iolat", {1: 0.02}, "iolat", "--device", device),
        Observer("requests, 1 stack in 32", requests(device, "--reasons", "32"), True, {1: 0.05}),
        Observer("requests, no stacks", requests(device), True, {1: 0.05}),
        ours("ladder 1 in 8", {1: 0.05, 8: 0.03}, "ladder", "--sample", "8"),
        ours("ladder 1 in 1", {}, "ladder", "--sample", "1"),
        ours("ladder 1 in 8, no reader", {}, "ladder", "--sample", "8", "--no-reader"),
        ours("ladder 1 in 8, from the call", {}, "ladder", "--sample", "8", "--start", "syscall"),
    ]


def window(pid: int, seconds: float) -> tuple[float, float]:
    """Read calls a second, and CPU us for each of them."""
    before = Look.at(pid)
    time.sleep(seconds)
    after = Look.at(pid)
    return before.rate(after), (after.cpu_ns - before.cpu_ns) / 1000 / (after.calls - before.calls)


@contextlib.contextmanager
def attached(observer: Observer, pid: int, directory: Path) -> Iterator[None]:
    if observer.argv is None:
        time.sleep(SETTLE_SECONDS)
        yield
        return
    log = directory / "observer.log"
    with log.open("wb") as out, contextlib.ExitStack() as files:
        argv, passed = list(observer.argv(pid, directory / "observer.out")), []
        if observer.controlled:
            orders_in, orders = os.pipe()
            answers, answers_out = os.pipe()
            for descriptor in (orders_in, orders, answers, answers_out):
                files.callback(os.close, descriptor)
            passed = [orders_in, answers_out]
            argv += ["--control", f"{orders_in},{answers_out}"]
        process = subprocess.Popen(argv, stdout=out, stderr=out, pass_fds=passed)
        try:
            if observer.controlled:
                if not select.select([answers], [], [], 60)[0]:
                    sys.exit(f"{observer.name} did not attach: {log.read_text(errors='replace')[-500:]}")
                os.write(orders, b"open\n")
            time.sleep(SETTLE_SECONDS)
            yield
            if process.poll() is not None:
                sys.exit(f"{observer.name} ended in its window: {log.read_text(errors='replace')[-500:]}")
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def hold(pid: int) -> int:
    """Keeps every thread of the process on the CPU that its busiest one runs on, which it returns."""
    process = HeldProcess(pid)
    threads = process.threads()
    busiest = max(threads, key=lambda tid: int(process.path(f"task/{tid}/schedstat").read_text().split()[0]))
    cpu = int(process.stat(busiest)[36])  # proc(5): field 39 is the processor
    for tid in threads:
        os.sched_setaffinity(tid, {cpu})
    return cpu


def measure(
    chosen: Sequence[Observer], threads: int, rounds: int, seconds: float, db: Path, directory: Path, free: bool
) -> None:
    with reading(db, threads, directory / "db_bench.log") as pid:
        held = f" on CPU {hold(pid)}" if threads == 1 and not free else ""
        off = window(pid, seconds)
        for _ in range(rounds):
            for observer in random.sample(chosen, len(chosen)):
                with attached(observer, pid, directory):
                    on = window(pid, seconds)
                time.sleep(REST_SECONDS)
                after = window(pid, seconds)
                observer.ratios.append(2 * on[0] / (off[0] + after[0]))
                observer.added_us.append(on[1] - (off[1] + after[1]) / 2)
                off = after
    say(f"\n{threads} thread{'s' * (threads != 1)}{held}")
    say(f"last window without: {off[0]:,.0f} reads/s, {off[1]:.1f} us CPU per read")
    say(f"{'observer':<30} {'QPS ratio':>9}  {'half of them':>14}  {'CPU/read':>9}  {'goal':>7}")
    for observer in chosen:
        middle = median(observer.ratios)
        low, _, high = statistics.quantiles(observer.ratios, n=4) if rounds > 1 else (middle, middle, middle)
        goal = observer.goal(threads)
        verdict = "" if goal is None else "met" if middle >= 1 - goal else "NOT MET"
        bound = "" if goal is None else f">= {1 - goal:.2f}"
        added = f"{median(observer.added_us):+.2f} us"
        say(f"{observer.name:<30} {middle:>9.3f}  {low:.3f} .. {high:.3f}  {added:>9}  {bound:>7}  {verdict}".rstrip())
        observer.ratios.clear()
        observer.added_us.clear()


def main() -> None:
    # rounds: windows of each observer; free: leave a single thread where the scheduler puts it; only: names begin so
    options = options_of(__doc__, rounds=9, seconds=2.0, threads=[1, 8], free=False, only=[])
    if not LOADER.exists():
        sys.exit(f"{LOADER} is not built: make setup")
    if shutil.which("db_bench") is None:
        sys.exit("db_bench is not installed: make setup")
    with tempfile.TemporaryDirectory(prefix="ioflame-observers-", dir="/var/tmp") as name:
        directory = Path(name)
        chosen = observers(device_of(directory))
        if options.only:
            chosen = [one for one in chosen if one.argv is None or one.name.startswith(tuple(options.only))]
        db = database(directory)
        say(f"machine  {machine()}")
        say(f"windows  {options.rounds} of {options.seconds:g} s an observer, each between two with nothing attached")
        for threads in options.threads:
            measure(chosen, threads, options.rounds, options.seconds, db, directory, options.free)


def device_of(path: Path) -> str:
    number = path.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"


if __name__ == "__main__":
    main()
