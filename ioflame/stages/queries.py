"""Queries of each second of a run, as its client reported them."""

from __future__ import annotations

from collectors.queries import queries_by_second
from ground.results.run import Run
from ground.system.atomic_files import read_text
from workloads.engine import Engine

__all__ = ("queries_each_second",)


def queries_each_second(run: Run, engine: Engine) -> list[int]:
    """Without the operations of a writer beside them; empty without a report. MeasurementError for a broken one."""
    report, log = run.path(engine.report_name), run.path(engine.log_name)
    rates = engine.parse_report(read_text(report)) if report.exists() else []
    # Our client reports readers apart.
    if rates and run.record.expected.write_rate and not engine.by_our_client:
        return queries_by_second(rates, engine.thread_totals(read_text(log)).get(0, []))
    return rates
