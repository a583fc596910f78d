"""The windows of a run, one a row; what each observer cost, and those that did not watch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ground.results.interval import Interval
from ground.results.metrics import LEGEND, METRICS, WINDOW_COLUMNS, WINDOW_COLUMNS_UNCOUNTED, metrics_of, window_metrics
from ground.results.record import ObserverCost, RunRecord, Unobserved, Window
from ground.text.tsv import Row
from viz.table import ABOUT, COUNT, WORDS, Column, Form, Records, Section, Table, fixed, tsv_only

_PERCENT = Form(lambda ratio: f"{100 * (ratio - 1):+.1f} %")


class _Measured(NamedTuple):
    """A window, or all turns of a kind."""

    kind: str
    turns: int
    seconds: float
    metrics: Mapping[str, float]
    note: str


def windows_section(record: RunRecord) -> Section:
    names = WINDOW_COLUMNS if record.target is None or record.target.count else WINDOW_COLUMNS_UNCOUNTED

    def metric(name: str) -> Callable[[_Measured], float | None]:
        return lambda row: row.metrics.get(name)

    columns = [
        Column[_Measured]("", "window", WORDS, lambda row: row.kind),
        *([Column("", "turns", COUNT, lambda row: row.turns)] if any(w.round for w in record.windows) else []),
        Column("", "seconds", fixed(1), lambda row: row.seconds),
        *(Column("", name, Form(METRICS[name].form.format), metric(name)) for name in names),
        Column("", "how it ended", ABOUT, lambda row: row.note, on="page"),
    ]
    counted = "us per query, context switches per query" if "qps" in names else "cores, us per storage read"
    rows = [
        _Measured(windows[0].kind, len(windows), sum(w.seconds for w in windows), metrics_of(record, windows), note)
        for windows in _as_shown(record.windows)
        for note in [windows[0].note]
    ]
    more = "; ".join(f"{name}: {LEGEND[name]}" for name in names)
    return [
        Records("windows", [_record(record, window) for window in record.windows]),
        Table("", f"Windows ({counted})", columns, rows, more=more),
        Table("costs", "Observers: with them against beside them, with nothing attached", _COSTS, record.costs,
              legend="95 %: by how its n turns differ, or of one window n pairs of plain windows."),
        Table("unobserved", "Not observed", _UNOBSERVED, record.unobserved),
    ]  # fmt: skip


def _as_shown(windows: Sequence[Window]) -> list[list[Window]]:
    """Each window alone, and the turns of a kind together, where the first of them was."""
    found: dict[tuple[str, int], list[Window]] = {}
    for place, window in enumerate(windows):
        found.setdefault((window.kind, 0 if window.round else place + 1), []).append(window)
    return [*found.values()]


def _percents(ratio: Interval | None) -> str:
    return "" if ratio is None else f"{_PERCENT.screen(ratio.low)} to {_PERCENT.screen(ratio.high)}"


def _cpu(value: Callable[[Interval], float]) -> Callable[[ObserverCost], float | None]:
    return lambda cost: value(cost.cpu_ratio) if cost.cpu_ratio is not None else None


_COSTS = [
    Column[ObserverCost]("window", "observer", WORDS, lambda cost: cost.kind),
    Column("qps_ratio", "QPS", _PERCENT, lambda cost: cost.qps_ratio.estimate),
    tsv_only("qps_ratio_low", lambda cost: cost.qps_ratio.low),
    tsv_only("qps_ratio_high", lambda cost: cost.qps_ratio.high),
    Column("", "95 %", fixed(1), lambda cost: _percents(cost.qps_ratio)),
    Column("cpu_ratio", "CPU per query", _PERCENT, _cpu(lambda ratio: ratio.estimate)),
    tsv_only("cpu_ratio_low", _cpu(lambda ratio: ratio.low)),
    tsv_only("cpu_ratio_high", _cpu(lambda ratio: ratio.high)),
    Column("", "95 %", fixed(1), lambda cost: _percents(cost.cpu_ratio)),
    Column("n", "n", COUNT, lambda cost: cost.qps_ratio.n),
]


_UNOBSERVED = [
    Column[Unobserved]("window", "observer", WORDS, lambda lost: lost.kind),
    Column("why", "why", ABOUT, lambda lost: lost.why),
    Column("mend", "fix", ABOUT, lambda lost: lost.mend),
]


def _record(record: RunRecord, window: Window) -> Row:
    metrics = window_metrics([window], record.threads)
    figures = {"_".join(filter(None, (name, METRICS[name].unit))): metrics.get(name) for name in WINDOW_COLUMNS}
    counters = _flat(dataclasses.asdict(window.counters))
    return {"window": window.kind, "start_ns": window.start_ns, "end_ns": window.end_ns, **figures, **counters,
            "note": window.note}  # fmt: skip


def _flat(figures: Mapping[str, Any], within: str = "") -> Row:
    """A column for each figure, `roles_reader_cpu_ns` for one of a table of tables."""
    flat: dict[str, str | int | float | None] = {}
    for name, value in figures.items():
        flat |= _flat(value, f"{within}{name}_") if isinstance(value, dict) else {f"{within}{name}": value}
    return flat
