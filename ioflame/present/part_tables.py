"""The parts of a finished run as tables of plain figures: those of its files, to the last digit.

Names of columns end in their unit; a column without one is a count, a ratio or words.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ground.results.categories import read_categories
from ground.results.files import Files
from ground.results.histogram import Histogram
from ground.results.io_latency import read_io_latency
from ground.results.ladder import CLASSES, STAGES, Rung, read_ladder
from ground.results.metrics import METRICS, WINDOW_COLUMNS, cpu_profiled, window_metrics
from ground.results.off_cpu import read_off_cpu, read_run_queue, read_wall_clock
from ground.results.operations import read_operations
from ground.results.pmp import LockSite, read_locks, read_pmp
from ground.results.run import Run
from ground.text.tsv import Row
from ioflame.present.parts import latency_layers, parts_of

__all__ = ("tables_of",)

Tables = dict[str, Sequence[Row]]
_PERCENTILES = (50.0, 90.0, 99.0, 99.9)


def tables_of(run: Run, part: str) -> Tables:
    """Tables by name; `all` has those of every part that was measured. part: of PARTS, or a category view"""
    if part == "all":
        there = [name for name in parts_of(run) if name != "all"]
        return {title: rows for name in there for title, rows in tables_of(run, name).items()}
    return _TABLES[part](run) if part in _TABLES else _view(run, part)


def _view(run: Run, view: str) -> Tables:
    """A category view. us: the share of the CPU of a query, and of a storage read, in the plain windows."""
    mode = run.record.profile.mode if run.record.profile else "all"
    per_query, per_read = cpu_profiled(run.record.metrics, mode)
    unit = run.record.profile.unit if run.record.profile else "weight"
    return {
        view: [
            {
                "category": row.name, f"weight_{unit}": row.weight, "share_percent": row.share,
                "share_low_percent": row.interval.low if row.interval else None,
                "share_high_percent": row.interval.high if row.interval else None,
                "samples": row.samples,
                "us_per_query": None if per_query is None else row.share / 100 * per_query,
                "us_per_read": None if per_read is None else row.share / 100 * per_read,
                "about": row.label,
            }
            for row in read_categories(run.directory, view).rows
        ]
    }  # fmt: skip


def _windows(run: Run) -> Tables:
    windows: list[Row] = []
    for window in run.record.windows:
        metrics = window_metrics([window], run.record.threads)
        windows.append(
            {
                "window": window.kind, "start_ns": window.start_ns, "end_ns": window.end_ns,
                **{"_".join(filter(None, (name, METRICS[name].unit))): metrics.get(name) for name in WINDOW_COLUMNS},
                **_flat(dataclasses.asdict(window.counters)), "note": window.note,
            }
        )  # fmt: skip
    costs: list[Row] = [
        {"window": cost.kind, "qps_ratio": cost.qps_ratio.estimate, "qps_ratio_low": cost.qps_ratio.low,
         "qps_ratio_high": cost.qps_ratio.high, "seconds_compared": cost.qps_ratio.n}
        for cost in run.record.costs
    ]  # fmt: skip
    lost: list[Row] = [{"window": one.kind, "why": one.why, "mend": one.mend} for one in run.record.unobserved]
    return {"windows": windows, "costs": costs, "unobserved": lost}


def _flat(figures: Mapping[str, Any], within: str = "") -> Row:
    """A column for each figure, `roles_reader_cpu_ns` for one of a table of tables."""
    found: dict[str, str | int | float | None] = {}
    for name, value in figures.items():
        found |= _flat(value, f"{within}{name}_") if isinstance(value, dict) else {f"{within}{name}": value}
    return found


def _operations(run: Run) -> Tables:
    """Those of kinds, and a table for each kind that is counted."""
    found = read_operations(run.directory)
    rows: list[Row] = [
        {
            "operation": one.name, "share_percent": one.share,
            "share_low_percent": one.interval.low if one.interval else None,
            "share_high_percent": one.interval.high if one.interval else None,
            "samples": one.samples, "cores": one.cores, "per_second": one.per_second, "us": one.us, "about": one.label,
        }
        for one in found
    ]  # fmt: skip
    of_kinds: dict[str, Sequence[Row]] = {
        f"operations_{one.name}": [
            {"category": row.name, "weight": row.weight, "share_percent": row.share, "samples": row.samples,
             "us": row.us_per_query, "about": row.label}
            for row in one.categories.rows
        ]
        for one in found
        if one.categories is not None
    }  # fmt: skip
    return {"operations": rows, **of_kinds}


def _latency(run: Run) -> Tables:
    return {
        "latency": [
            {"layer": layer.name, "window": layer.window, "avg_us": layer.mean_us, "p50_us": layer.percentile(50.0),
             "p99_us": layer.percentile(99.0), "about": layer.about}
            for layer in latency_layers(run)
        ]
    }  # fmt: skip


def _io_latency(run: Run) -> Tables:
    rows = [
        {"operation": row.operation, "owner": row.owner, "stage": stage, **_durations(getattr(row, stage))}
        for row in read_io_latency(run.path(Files.IO_LATENCY)).rows
        for stage in ("queue", "device", "total")
    ]
    return {"iolat": rows}


def _ladder(run: Run) -> Tables:
    ladder = read_ladder(run.path(Files.LADDER))

    def rows(rungs: Sequence[Rung], about: Mapping[str, str]) -> list[Row]:
        return [
            {"name": rung.name, **_durations(rung.histogram), "own_ns": rung.own_ns, "about": about.get(rung.name)}
            for rung in rungs
        ]

    stages = {name: f"{step.start} to {step.end}: {step.about}" for name, step in STAGES.items()}
    return {"stages": rows(ladder.stages, stages), "classes": rows(ladder.classes, CLASSES)}


def _waits(run: Run) -> Tables:
    off = read_off_cpu(run.path(Files.OFF_CPU))
    threads = [
        {"tid": thread.tid, "thread": thread.comm, "idle": "yes" if thread.is_idle else "no", "state": state, "ns": ns}
        for thread in off.threads
        for state, ns in (("on-CPU", thread.ran_ns), *thread.off_ns.items())
    ]
    clock = read_wall_clock(run.path(Files.WALL_CLOCK))
    queries = clock.queries or None
    return {
        "states": [{"state": name, "ns": total.ns, "count": total.count} for name, total in off.states.items()],
        "threads": threads,
        "wallclock": [
            {"state": row.state, "category": row.category, "ns": row.ns,
             "us_per_query": row.ns / 1e3 / queries if queries else None}
            for row in clock.rows
        ],
    }  # fmt: skip


def _run_queue(run: Run) -> Tables:
    waits = read_run_queue(run.path(Files.RUN_QUEUE)).waits
    return {"runqlat": [{"wait": name, **_durations(wait)} for name, wait in waits.items()]}


def _pmp(run: Run) -> Tables:
    pmp = read_pmp(run.directory)
    threads = [
        {"tid": thread.tid, "thread": thread.name, "state": state, **dataclasses.asdict(tally)}
        for thread in pmp.threads
        for state, tally in thread.states.items()
    ]
    return {
        "pmp_states": [{"state": state, **dataclasses.asdict(tally)} for state, tally in pmp.states.items()],
        "pmp_threads": threads,
        "pmp_places": [dataclasses.asdict(place) for place in pmp.places],
    }


def _locks(run: Run) -> Tables:
    locks = read_locks(run.directory)
    totals = ("total", "waiting", "running", "conditions", "blocked_elsewhere", "idle")

    def sites(some: Sequence[LockSite]) -> list[Row]:
        return [
            {
                "place": site.place, "kind": site.kind, "category": site.category,
                "waiting_samples": site.waiting.samples, "waiting_ns": site.waiting.weight_ns,
                "running_samples": site.running.samples, "running_ns": site.running.weight_ns,
            }
            for site in some
        ]  # fmt: skip

    return {
        "locks": [{"what": name, **dataclasses.asdict(getattr(locks, name))} for name in totals],
        "lock_sites": sites(locks.sites),
        "lock_owners": sites(locks.owners),
        "condition_sites": sites(locks.condition_sites),
    }


def _checks(run: Run) -> Tables:
    rows = [{**dataclasses.asdict(check), "verdict": check.verdict.value} for check in run.record.checks]
    return {"checks": rows}


def _durations(histogram: Histogram) -> Row:
    return {
        "count": histogram.count, "sum_ns": histogram.sum_ns, "least_ns": histogram.least_ns,
        "most_ns": histogram.most_ns, "mean_ns": histogram.mean_ns,
        **{f"p{percent:g}_ns": histogram.percentile(percent) for percent in _PERCENTILES},
    }  # fmt: skip


_TABLES: Mapping[str, Callable[[Run], Tables]] = {
    "windows": _windows,
    "operations": _operations,
    "latency": _latency,
    "iolat": _io_latency,
    "ladder": _ladder,
    "waits": _waits,
    "runqlat": _run_queue,
    "pmp": _pmp,
    "locks": _locks,
    "checks": _checks,
}
