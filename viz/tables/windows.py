"""The windows of a run, one a row; what each observer cost, those that did not watch, and whose CPU it was."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ground.results.interval import Interval
from ground.results.metrics import LEGEND, METRICS, WINDOW_COLUMNS, WINDOW_COLUMNS_UNCOUNTED, metrics_of, window_metrics
from ground.results.record import ObserverCost, RunRecord, Unobserved, Window
from ground.text.titles import title_of, with_name
from ground.text.tsv import Row
from viz.figures import HEADLINE, figure_text, host_change_words
from viz.table import ABOUT, COUNT, TITLE, WORDS, Column, Form, Records, Section, Table, fixed, tsv_only
from viz.tables.roles import roles_section

_PERCENT = Form(lambda ratio: f"{100 * (ratio - 1):+.1f} %")


class _Measured(NamedTuple):
    """A window, or all turns of a kind."""

    kind: str
    turns: int
    seconds: float
    metrics: Mapping[str, float]
    note: str


def figures_table(record: RunRecord) -> Table[str]:
    """The figures of a run that are shown of each, by name."""

    def end(name: str, which: str) -> float | None:
        interval = record.intervals.get(name)
        return None if interval is None else getattr(interval, which)

    title = "Baseline windows (nothing attached)"
    columns = [
        Column[str]("figure", "figure", TITLE, lambda name: name),
        Column[str]("", "short", WORDS, lambda name: None if title_of(name) == name else name),
        tsv_only("value", lambda name: record.metrics[name]),
        tsv_only("low", lambda name: end(name, "low")),
        tsv_only("high", lambda name: end(name, "high")),
        tsv_only("unit", lambda name: METRICS[name].unit),
        Column("", "value", WORDS, lambda name: figure_text(record, name)),
        Column("about", "what it is", ABOUT, lambda name: LEGEND[name]),
    ]
    more = "In brackets the 95 % interval, by how its rounds differ, or the seconds of single windows." * bool(
        record.intervals
    )
    return Table("figures", title, columns, [name for name, _ in HEADLINE if name in record.metrics], legend=more)


def windows_section(record: RunRecord) -> Section:
    names = WINDOW_COLUMNS if record.target is None or record.target.count else WINDOW_COLUMNS_UNCOUNTED

    def metric(name: str) -> Callable[[_Measured], float | None]:
        return lambda row: row.metrics.get(name)

    columns = [
        Column[_Measured]("", "window", TITLE, lambda row: row.kind),
        *([Column("", "turns", COUNT, lambda row: row.turns)] if any(w.round for w in record.windows) else []),
        Column("", "seconds", fixed(1), lambda row: row.seconds),
        *(Column("", title_of(name), Form(METRICS[name].form.format), metric(name)) for name in names),
        Column("", "how it ended", ABOUT, lambda row: row.note, on="page"),
    ]
    counted = "us per query, context switches per query" if "qps" in names else "cores, us per storage read"
    rows = [
        _Measured(windows[0].kind, len(windows), sum(w.seconds for w in windows), metrics_of(record, windows), note)
        for windows in _as_shown(record.windows)
        for note in [windows[0].note]
    ]
    more = "; ".join(f"{with_name(name)}: {LEGEND[name]}" for name in names)
    return [
        Records("windows", [_record(record, window) for window in record.windows]),
        Table("", f"Windows ({counted})", columns, rows, more=more),
        Table("costs", "Observers: with them against beside them, with nothing attached", _costs(record), record.costs,
              legend="95 %: by how its n turns differ, or of one window n pairs of baseline windows."
              f"{_host_words(record)}"),
        Table("unobserved", "Not observed", _UNOBSERVED, record.unobserved),
        *roles_section(record),
    ]  # fmt: skip


def _as_shown(windows: Sequence[Window]) -> list[list[Window]]:
    """Each window alone, and the turns of a kind together, where the first of them was."""
    found: dict[tuple[str, int], list[Window]] = {}
    for place, window in enumerate(windows):
        found.setdefault((window.kind, 0 if window.round else place + 1), []).append(window)
    return [*found.values()]


def _percents(ratio: Interval | None) -> str | None:
    return None if ratio is None else f"{_PERCENT.screen(ratio.low)} to {_PERCENT.screen(ratio.high)}"


def _cpu(value: Callable[[Interval], float]) -> Callable[[ObserverCost], float | None]:
    return lambda cost: value(cost.cpu_ratio) if cost.cpu_ratio is not None else None


def _host_words(record: RunRecord) -> str:
    """Why no cost is known, behind the legend; "" where they are."""
    host = record.host_change
    return f" The host changed by itself: {host_change_words(host)}." if host is not None and _changed(host) else ""


def _changed(host: ObserverCost) -> bool:
    return host.qps_ratio.leaves_one or (host.cpu_ratio is not None and host.cpu_ratio.leaves_one)


def _known(
    host: ObserverCost | None, of: Callable[[ObserverCost], Interval | None]
) -> Callable[[ObserverCost], Interval | None]:
    """A ratio; None of observers where the host changed it by itself."""
    own = of(host) if host is not None else None
    if host is None or own is None or not own.leaves_one:
        return of
    return lambda cost: of(cost) if cost.kind == host.kind else None


def _costs(record: RunRecord) -> list[Column[ObserverCost]]:
    """People see no cost of an observer where the host changed by itself, but why there is none."""
    host = record.host_change
    qps, cpu = _known(host, lambda cost: cost.qps_ratio), _known(host, lambda cost: cost.cpu_ratio)

    def why(cost: ObserverCost) -> str | None:
        unknown = host is not None and cost.kind != host.kind and _changed(host)
        return "not known: the host changed" if unknown else None

    def estimate(ratio: Interval | None) -> float | None:
        return None if ratio is None else ratio.estimate

    return [
        Column[ObserverCost]("window", "observer", TITLE, lambda cost: cost.kind),
        tsv_only("qps_ratio", lambda cost: cost.qps_ratio.estimate),
        Column("", "QPS", _PERCENT, lambda cost: estimate(qps(cost))),
        tsv_only("qps_ratio_low", lambda cost: cost.qps_ratio.low),
        tsv_only("qps_ratio_high", lambda cost: cost.qps_ratio.high),
        Column("", "95 %", fixed(1), lambda cost: _percents(qps(cost))),
        tsv_only("cpu_ratio", lambda cost: estimate(cost.cpu_ratio)),
        Column("", "CPU per query", _PERCENT, lambda cost: estimate(cpu(cost)), measured=True),
        tsv_only("cpu_ratio_low", _cpu(lambda ratio: ratio.low)),
        tsv_only("cpu_ratio_high", _cpu(lambda ratio: ratio.high)),
        Column("", "95 %", fixed(1), lambda cost: _percents(cpu(cost)), measured=True),
        Column("n", "n", COUNT, lambda cost: cost.qps_ratio.n),
        Column("", "why", ABOUT, why, measured=True),
    ]


_UNOBSERVED = [
    Column[Unobserved]("window", "observer", TITLE, lambda lost: lost.kind),
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
