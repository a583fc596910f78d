"""What two sources of one profile say of the same thing, as figures: load makes them differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from ground.results.files import Files
from ground.results.io_latency import read_io_latency
from ground.results.ladder import read_ladder
from ground.results.metrics import window_metrics
from ground.results.off_cpu import read_off_cpu, read_run_queue
from tests.e2e.commands import measured
from tests.figures import Report
from tests.recorded_run import ALL

pytestmark = [pytest.mark.by_hand, pytest.mark.needs("perf", "db_bench", "co-re")]


def test_the_sources_of_a_profile_agree(short: list[str], tmp_path: Path, figure: Report) -> None:
    done = measured(tmp_path, *short, f"--collect={' '.join(ALL)}", "--duration=10")
    record, run = done.record, done.run
    of = {window.kind: window.counters for window in record.windows}
    plain = [window for window in record.windows if window.kind == "plain"]

    def ratio(name: str, one: float, other: float, expected: str = "1") -> None:
        figure(name, one / other, expected=expected)

    def total(name: str) -> float:
        return sum(getattr(window.counters, name) or 0 for window in plain)

    ratio("queries a second, windows / closing line", window_metrics(record.windows, 1)["qps"],
          record.engine_result["ops_per_second"], "1, but for the device's drift")  # fmt: skip
    ratio("CPU, accounted by tick / by the scheduler", total("accounted_ns"), total("cpu_ns"))
    ratio("blocks read by the process / queries", total("process_read_bytes") / 8192, total("queries"))
    ratio("bytes of the device / of the process", total("storage_read_bytes"), total("process_read_bytes"), ">= 1")
    reads = read_io_latency(run.path(Files.IO_LATENCY)).row("read", "process")
    ratio("reads of iolat / read calls", reads.total.count, of["iolat"].read_calls)
    queue = read_run_queue(run.path(Files.RUN_QUEUE))
    ratio("wake-ups of runqlat / voluntary switches", queue.waits["woken"].count, of["runqlat"].voluntary_switches)
    off = read_off_cpu(run.path(Files.OFF_CPU))
    ratio("on-CPU + off-CPU / the threads' time", off.ran_ns + off.off_ns, off.elapsed_ns)
    ladder = read_ladder(run.path(Files.LADDER))
    figure("ladder: us a query", ladder.total.mean_ns / 1e3, expected=f"{record.metrics['rx.lat']:.1f} (rx.lat)")
    for check in record.checks:
        if check.verdict.value == "failed":
            figure(f"failed: {check.name}: {check.value}", 1, expected="0")
