"""`report.tsv`: the columns of report.tsv as RocksDB's benchmark.sh writes them, so that scripts for it read ours.

A column that was not measured holds `NA`, as benchmark.sh itself has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ground.results.cells import CellsRecord
from ground.results.record import RunRecord
from ground.results.writes import columns

HEADER = [
    "ops_sec", "mb_sec", "lsm_sz", "blob_sz", "c_wgb", "w_amp", "c_mbps", "c_wsecs", "c_csecs", "b_rgb", "b_wgb",
    "usec_op", "p50", "p99", "p99.9", "p99.99", "pmax", "uptime", "stall%", "Nstall", "u_cpu", "s_cpu", "rss", "test",
    "date", "version", "job_id", "githash",
]  # fmt: skip
# Those of the engine's closing line, by its name of each and with their digits.
_STATED = {
    "ops_sec": ("ops_per_second", 0), "mb_sec": ("mb_per_second", 1), "usec_op": ("micros_per_op", 1),
    "p50": ("p50", 1), "p99": ("p99", 0), "p99.9": ("p99_9", 0), "p99.99": ("p99_99", 0), "pmax": ("pmax", 0),
    "uptime": ("seconds", 0),
}  # fmt: skip
# Those of a step that wrote, by the names of `results.writes`.
_WRITTEN = {
    "ops_sec": "ops/sec", "mb_sec": "mb/sec", "c_wgb": "Sum_GB", "w_amp": "W-Amp", "c_mbps": "W-MB/s",
    "usec_op": "usec/op", "p50": "p50", "stall%": "Stall%",
}  # fmt: skip


def render_report_tsv(
    experiment: CellsRecord, written: Sequence[tuple[str, Mapping[str, float]]], measured: Mapping[str, RunRecord]
) -> str:
    """One row for each step that wrote, by its figures, then one for each run that was measured, by what it is called.

    u_cpu and s_cpu are seconds over the plain windows; w_amp counts flushes once.
    """
    rows = []
    for step, figures in written:
        if (row := columns(figures)) is not None:
            size = figures["size_gb"]
            rows.append({
                **_stated(figures, ("p99", "p99.9", "p99.99")), **{name: row[own] for name, own in _WRITTEN.items()},
                "lsm_sz": f"{size:.0f}GB" if size >= 1 else f"{size * 1024:.0f}MB",
                "uptime": f"{figures['uptime']:.0f}", "test": f"{step}.t1", "date": experiment.created,
                "version": experiment.tools.get("engine", "NA").rpartition(" ")[2], "job_id": step,
            })  # fmt: skip
    for called, record in measured.items():
        plain = [window.counters for window in record.windows if window.kind == "plain"]
        rows.append({
            **_stated(record.engine_result, _STATED), "u_cpu": f"{sum(of.user_ns for of in plain) / 1e9:.1f}",
            "s_cpu": f"{sum(of.system_ns for of in plain) / 1e9:.1f}", "test": f"{record.workload}.t{record.threads}",
            "date": record.created, "version": record.tools.get("engine", "NA"), "job_id": called,
        })  # fmt: skip
    table = [HEADER, *([row.get(column, "NA") for column in HEADER] for row in rows)]
    return "".join("\t".join(row) + "\n" for row in table)


def _stated(figures: Mapping[str, float], names: Sequence[str] | Mapping[str, object]) -> dict[str, str]:
    known = {name: (figures.get(_STATED[name][0]), _STATED[name][1]) for name in names}
    return {name: f"{value:.{digits}f}" for name, (value, digits) in known.items() if value is not None}
