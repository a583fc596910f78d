"""`summary.tsv`: the columns of report.tsv, as RocksDB's benchmark.sh writes them, so that scripts for it read ours.

A column that was not measured holds `NA`, as benchmark.sh itself has it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ground.results.efficiency import MeasuredStep
from ground.results.experiment import ExperimentRecord, StepRecord
from ground.results.writes import Writes, columns

__all__ = ("HEADER", "render_report_tsv")

HEADER = [
    "ops_sec", "mb_sec", "lsm_sz", "blob_sz", "c_wgb", "w_amp", "c_mbps", "c_wsecs", "c_csecs", "b_rgb", "b_wgb",
    "usec_op", "p50", "p99", "p99.9", "p99.99", "pmax", "uptime", "stall%", "Nstall", "u_cpu", "s_cpu", "rss", "test",
    "date", "version", "job_id", "githash",
]  # fmt: skip


def render_report_tsv(experiment: ExperimentRecord, measured: Sequence[MeasuredStep]) -> str:
    """One row for each step that wrote, then one for each that was measured.

    u_cpu and s_cpu are seconds over the plain windows; w_amp counts flushes once.
    """
    rows = [HEADER]
    for step in experiment.steps:
        if step.writes is not None:
            known = _written(step, step.writes, experiment)
            rows.append([known.get(column, "NA") for column in HEADER])
    for m in measured:
        result, plain = m.record.engine_result, [w for w in m.record.windows if w.kind == "plain"]
        known = {
            "ops_sec": _number(result.get("ops_per_second"), 0),
            "mb_sec": _number(result.get("mb_per_second"), 1),
            "usec_op": _number(result.get("micros_per_op"), 1),
            "p50": _number(result.get("p50"), 1),
            "p99": _number(result.get("p99"), 0),
            "p99.9": _number(result.get("p99_9"), 0),
            "p99.99": _number(result.get("p99_99"), 0),
            "pmax": _number(result.get("pmax"), 0),
            "uptime": _number(result.get("seconds"), 0),
            "u_cpu": _number(sum(w.counters.user_ns for w in plain) / 1e9, 1),
            "s_cpu": _number(sum(w.counters.system_ns for w in plain) / 1e9, 1),
            "test": f"{m.step.step}.t{m.step.users}",
            "date": m.record.created,
            "version": m.record.tools.get("engine", "NA"),
            "job_id": m.step.id,
        }
        rows.append([known.get(column, "NA") for column in HEADER])
    return "".join("\t".join(row) + "\n" for row in rows)


def _written(step: StepRecord, writes: Writes, experiment: ExperimentRecord) -> dict[str, str]:
    row = columns(writes)
    size = f"{writes.size_gb:.0f}GB" if writes.size_gb >= 1 else f"{writes.size_gb * 1024:.0f}MB"
    return {
        "ops_sec": row["ops/sec"],
        "mb_sec": row["mb/sec"],
        "lsm_sz": size,
        "c_wgb": row["Sum_GB"],
        "w_amp": row["W-Amp"],
        "c_mbps": row["W-MB/s"],
        "usec_op": row["usec/op"],
        "p50": row["p50"],
        "p99": _number(writes.p99, 0),
        "p99.9": _number(writes.p99_9, 0),
        "p99.99": _number(writes.p99_99, 0),
        "uptime": _number(writes.uptime, 0),
        "stall%": row["Stall%"],
        "test": f"{step.step}.t{writes.threads}",
        "date": experiment.created,
        "version": experiment.tools.get("engine", "NA"),
        "job_id": step.id,
    }


def _number(value: float | None, digits: int) -> str:
    return "NA" if value is None else f"{value:.{digits}f}"
