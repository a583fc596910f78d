"""Queries of each second of a run, as its client reported them."""

from __future__ import annotations

import itertools

from collectors.queries import queries_by_second
from ground.results.roles import operations_at
from ground.results.run import Run
from ground.system.atomic_files import read_text
from workloads.engine import Engine


def queries_each_second(run: Run, engine: Engine) -> list[int]:
    """Without the operations of a writer beside them; empty without a report. MeasurementError for a broken one."""
    report, log = run.path(engine.report_name), run.path(engine.log_name)
    rates = engine.parse_report(read_text(report)) if report.exists() else []
    # Our client reports readers apart.
    if rates and run.record.expected.write_rate and not engine.by_our_client:
        return queries_by_second(rates, engine.thread_totals(read_text(log)).get(0, []))
    return rates


def writes_each_second(run: Run, engine: Engine) -> list[int]:
    """Operations of a writer beside the queries; empty where there is none, or its client does not count them apart."""
    if not run.record.expected.write_rate or engine.by_our_client or not run.path(engine.log_name).exists():
        return []
    totals = engine.thread_totals(read_text(run.path(engine.log_name))).get(0, [])
    until = [operations_at(totals, second) for second in range(int(totals[-1][0]) + 1 if totals else 0)]
    known = [count for count in until if count is not None]
    return [round(after - before) for before, after in itertools.pairwise(known)]
