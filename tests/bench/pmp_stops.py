"""How long each way to sample stacks stops a thread, and what it costs in queries; `make bench` runs it.

One db_bench reads at random; each sampler in turn looks at all its threads. The stop is the time that the kernel sees,
from the switch to a traced or stopped state to the wake-up (sched tracepoints through bpftrace). The cost is the rate
of read calls of its windows against the windows beside them with nothing attached, by pairs, with a null sampler among
them. Needs root.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ground.system.binaries import built_binary
from ground.system.process import OWN_GROUP
from tests.bench.common import Look, database, options_of, reading

_PROBE = """
tracepoint:sched:sched_switch /pid == %d && (args->prev_state & 0xc)/ { @out[args->prev_pid] = nsecs; }
tracepoint:sched:sched_waking /@out[args->pid]/
  { printf("stop %%d\\n", nsecs - @out[args->pid]); delete(@out[args->pid]); }
END { clear(@out); }
"""
_GOAL_US = 100
_GOAL_COST = 0.01


@dataclass
class Way:
    """A way to sample. once: a sample of all threads a call; else it samples by itself until it is ended."""

    name: str
    argv: Callable[[int, Path], list[str]] | None
    hz: float
    once: bool = True
    stops: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)


def _sampler(mode: str, hz: float) -> Callable[[int, Path], list[str]]:
    argv = [str(built_binary("stacksampler")), f"--callgraph={mode}", f"--hz={hz:g}"]
    return lambda pid, place: [*argv, f"--pid={pid}", "-o", str(place / "pmp.data")]


def _gdb(*options: str) -> Callable[[int, Path], list[str]]:
    return lambda pid, _: ["gdb", *options, "-batch", "-p", str(pid), "-ex", "thread apply all bt"]


def ways() -> list[Way]:
    return [
        Way("null", None, 0, once=False),
        Way("stacksampler dwarf", _sampler("dwarf", 10), 10, once=False),
        Way("stacksampler fp", _sampler("fp", 10), 10, once=False),
        Way("eu-stack -q", lambda pid, _: ["eu-stack", "-q", "-p", str(pid)], 1),
        Way("eu-stack", lambda pid, _: ["eu-stack", "-p", str(pid)], 1),
        Way("gdb -nx -readnever", _gdb("-nx", "-readnever"), 1),
        Way("gdb", _gdb(), 1),
    ]


def _plain(pid: int, seconds: float) -> float:
    before = Look.at(pid)
    time.sleep(seconds)
    return before.rate(Look.at(pid))


def _observed(way: Way, pid: int, seconds: float, place: Path) -> float:
    """The rate of a window with the sampler running. gdb is never asked to end: a sample ends by itself."""
    before = Look.at(pid)
    end = time.monotonic() + seconds
    if way.argv is None:
        time.sleep(seconds)
    elif not way.once:
        with subprocess.Popen([*way.argv(pid, place), f"--seconds={seconds}"], stderr=subprocess.DEVNULL) as sampler:
            if sampler.wait() != 0:
                raise SystemExit(f"{way.name} failed")
    else:
        while time.monotonic() < end:
            begun = time.monotonic()
            subprocess.run(way.argv(pid, place), stdin=subprocess.DEVNULL, capture_output=True, check=False)
            time.sleep(max(0.0, min(begun + 1 / way.hz, end) - time.monotonic()))
    return before.rate(Look.at(pid))


def _with_stops(way: Way, pid: int, seconds: float, place: Path) -> list[float]:
    """Stops in us while the sampler works once more, with the probe attached: these windows count for no rate."""
    # tracefs in a mount namespace of its own, where the host has not mounted it.
    mounted = '[ -e /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing; exec bpftrace -e "$0"'
    with tempfile.TemporaryFile() as out:
        argv = ["unshare", "-m", "sh", "-c", mounted, _PROBE % pid]
        probe = subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT, **OWN_GROUP)
        deadline = time.monotonic() + 15
        while b"Attaching" not in os.pread(out.fileno(), 1 << 16, 0):
            if probe.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"bpftrace: {os.pread(out.fileno(), 1 << 16, 0).decode(errors='replace')}")
            time.sleep(0.05)
        time.sleep(1.0)  # it says so before its probes are attached
        _observed(way, pid, seconds, place)
        probe.send_signal(signal.SIGINT)
        probe.wait(20)
        text = os.pread(out.fileno(), 1 << 24, 0)
    return [int(line.split()[1]) / 1e3 for line in text.splitlines() if line.startswith(b"stop ")]


def _print(found: Sequence[Way], threads: int) -> None:
    print(f"\nStops and cost, {threads} reading threads; {os.cpu_count()} CPUs, {os.uname().release}")
    print(f"{'':20} {'Hz':>4} {'stop mean':>10} {'p99':>9} {'max':>9} {'n':>5} {'against ours':>13} {'rate ratio':>22}")
    ours = statistics.fmean(next(way.stops for way in found if way.name == "stacksampler dwarf") or [0])
    for way in found:
        stops = sorted(way.stops)
        figures = f"{'-':>10} {'-':>9} {'-':>9} {0:>5} {'-':>13}"
        if stops:
            mean, p99 = statistics.fmean(stops), stops[min(len(stops) - 1, int(0.99 * len(stops)))]
            figures = f"{mean:>7.0f} us {p99:>6.0f} us {stops[-1]:>6.0f} us {len(stops):>5} {mean / ours:>11.1f} x"
        ratio = statistics.median(way.ratios)
        spread = f"{ratio:.3f} ({min(way.ratios):.2f}..{max(way.ratios):.2f})"
        print(f"{way.name:20} {way.hz:>4g} {figures} {spread:>22}")
    sampler = next(way for way in found if way.name == "stacksampler dwarf")
    null = statistics.median(found[0].ratios)
    cost = null - statistics.median(sampler.ratios)
    print(f"goal: mean stop <= {_GOAL_US} us: {'met' if ours <= _GOAL_US else 'MISSED'} ({ours:.0f} us)")
    met = "met" if cost <= _GOAL_COST else "MISSED"
    print(f"goal: cost at 10 Hz <= {_GOAL_COST:.0%} against the null sampler: {met} ({cost:+.1%})")


def main() -> int:
    # without_gdb: quicker
    arguments = options_of(__doc__, runs=3, threads=8, seconds=3.0, without_gdb=False)
    found = [way for way in ways() if not (arguments.without_gdb and way.name.startswith("gdb"))]
    seconds, order = arguments.seconds, random.Random(1)
    with tempfile.TemporaryDirectory(prefix="ioflame-pmp-", dir="/var/tmp") as scratch:
        place = Path(scratch)
        with reading(database(place), arguments.threads, place / "db_bench.log") as pid:
            for _ in range(arguments.runs):
                for way in order.sample(found, len(found)):
                    before = _plain(pid, seconds)
                    rate = _observed(way, pid, seconds, place)
                    way.ratios.append(2 * rate / (before + _plain(pid, seconds)))
            for way in found:
                if way.argv is not None:
                    way.stops = _with_stops(way, pid, seconds, place)
    _print(found, arguments.threads)
    return 0


if __name__ == "__main__":
    sys.exit(main())
