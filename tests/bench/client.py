"""What our own client costs: operations a second of a thread before the engine's own time, and the rates it holds."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

from ground.system.binaries import built_binary
from tests.bench.common import options_of, row

SECONDS = 2
# Gets a second and thread; what an engine answers from its cache takes a microsecond and more.
GOAL = 2_000_000
RATE = 5_000
HELD = 0.01


def roles(benchmark: str, *flags: str) -> dict[str, dict[str, float]]:
    """The roles of a run on no engine."""
    argv = [str(built_binary("ioflame-client")), "--engine=nothing", "--num=10000000", f"--duration={SECONDS}"]
    done = subprocess.run([*argv, f"--benchmarks={benchmark}", *flags], capture_output=True, check=True)
    found: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])["roles"]
    return found


def main() -> int:
    options = options_of(__doc__, runs=5)
    for law in ("uniform", "zipfian"):
        runs = [roles("readrandom", f"--key_distribution={law}")["readers"] for _ in range(options.runs)]
        wall = statistics.median(run["ops_per_second"] for run in runs)
        # By CPU time: a busy host takes the wall clock's away.
        own = statistics.median(run["client_ns_per_operation"] for run in runs)
        rate = 1e9 / own
        work = f"Gets of {law} keys by our client, no engine, a second of CPU"
        figure = f"{rate / 1e6:.1f} M, {own:.0f} ns each ({wall / 1e6:.1f} M a second of the clock)"
        row(work, figure, "", f">= {GOAL / 1e6:.0f} M", rate >= GOAL)
    limits = (f"--benchmark_read_rate_limit={RATE}", f"--benchmark_write_rate_limit={RATE // 2 * 116}")
    both = [roles("readwhilewriting", *limits) for _ in range(options.runs)]
    for name, asked in (("readers", RATE), ("writers", RATE // 2)):
        held = statistics.median(abs(run[name]["ops_per_second"] / asked - 1) for run in both)
        row(f"{name} held to {asked:,} operations a second", f"off by {held:.2%}", "", f"<= {HELD:.0%}", held <= HELD)
    return 0


if __name__ == "__main__":
    sys.exit(main())
