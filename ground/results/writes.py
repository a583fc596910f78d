"""What a step wrote, in the columns of RocksDB's performance page (its wiki, 2020) and of benchmark.sh.

L0_GB is what came from memtables (flushes), Sum_GB what flushes and compactions wrote together: flushes are part of the
engine's "Cumulative compaction", so adding both, as benchmark.sh once did, counts them twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from ground.text.units import truncate

COLUMNS = {
    "ops/sec": "operations a second",
    "mb/sec": "MiB of keys and values a second",
    "Size-GB": "size of the levels, GiB",
    "L0_GB": "written by flushes, GiB",
    "Sum_GB": "written by flushes and compactions, GiB",
    "W-Amp": "Sum_GB / L0_GB, cut",
    "W-MB/s": "Sum_GB * 1024 / Uptime, cut",
    "usec/op": "threads * 1e6 / ops/sec",
    "p50": "us",
    "p75": "us",
    "p99": "us",
    "p99.9": "us",
    "p99.99": "us",
    "Uptime": "seconds the engine was open",
    "Stall-time": "seconds writes were held back",
    "Stall%": "Stall-time / Uptime",
    "du": "KiB of the directory",
}


# Of a step, without which there is no row.
_NEEDED = ("ops_per_second", "entry_bytes", "size_gb", "flushed_gb", "sum_gb", "uptime", "stall_seconds", "du_kib")


def columns(figures: Mapping[str, float], threads: int = 1, digits: int = 1) -> dict[str, str] | None:
    """The row of a step, by the names of `COLUMNS`; None where its figures do not state what it wrote.

    figures: of the step, by ioflame's own names; GB is 2**30 bytes. Where it has `reads`, `found` of them were there
    digits:  of the GB columns. Ratios are cut, as the page's are
    """
    if not all(name in figures for name in _NEEDED):
        return None
    # By decimals: 0.7 / 0.1 is 6.999... in binary, and would be cut to 6.9.
    sum_gb, l0_gb, uptime = (Decimal(str(figures[name])) for name in ("sum_gb", "flushed_gb", "uptime"))
    rate, stalled = figures["ops_per_second"], figures["stall_seconds"]
    found = figures["found"] / figures["reads"] if figures.get("reads") else 1.0
    percentiles = {name: figures.get(name.replace(".", "_")) for name in COLUMNS if name.startswith("p")}
    return {
        "ops/sec": f"{rate:.0f}",
        "mb/sec": f"{rate * figures['entry_bytes'] * found / 2**20:.1f}",
        "Size-GB": f"{figures['size_gb']:.{digits}f}",
        "L0_GB": f"{l0_gb:.{digits}f}",
        "Sum_GB": f"{sum_gb:.{digits}f}",
        "W-Amp": truncate(sum_gb / l0_gb, 1) if l0_gb else "0",
        "W-MB/s": truncate(sum_gb * 1024 / uptime, 1) if uptime else "-",
        "usec/op": f"{threads * 1e6 / rate:.1f}" if rate else "-",
        **{name: "-" if value is None else f"{value:.1f}" for name, value in percentiles.items()},
        "Uptime": f"{uptime:.1f}",
        "Stall-time": f"{stalled:.3f}",
        "Stall%": f"{100 * stalled / float(uptime):.1f}" if uptime else "-",
        "du": f"{figures['du_kib']:.0f}",
    }
