"""The first screen of a run: whether it can be used, what weighs most, what was run, and one query's CPU and latency.

Everything else of the page gives details of it and is folded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from ground.results.categories import Category
from ground.results.files import Files
from ground.results.ladder import PARTS, PLACES, Ladder, QueryParts, queries_of
from ground.results.metrics import carried
from ground.results.off_cpu import WallClock
from ground.results.record import RunRecord
from ground.results.states import STATES
from ground.system.host import describe_host
from ground.text.titles import title_of
from viz.figures import engine_words, other_words, watching_words, where_it_goes
from viz.page.rendering import render
from viz.page.run_view import RunView
from viz.page.trust import verdict
from viz.page.what_ran import tiles
from viz.svg.ladder import KINDS, kind_of
from viz.svg.stacked_bar import BarPart, stacked_bar
from viz.svg.thread_states import ON_CPU, STATE_HUES

# Of a bar; smaller parts are one.
_KIND_OF_PLACE = {
    "call": "kernel", "throttle": "wait", "queue": "device", "device": "device", "wake": "kernel", "runq": "wait",
    "sleep": "wait",
}  # fmt: skip
_LEAST_SHARE = 0.02
_FOUND = 3


class _Bar(NamedTuple):
    """title: with the total; parts: from left to right; note: what has to be known of it, "" for nothing"""

    title: str
    parts: Sequence[BarPart]
    unit: str
    note: str


def first_screen(view: RunView, index: int, hues: Sequence[int], places: Mapping[str, str]) -> Markup:
    """index: of the run on its page; hues: of the rows of its owner view; places: of the sections that findings name"""
    record = view.record
    facts = [
        f"{record.workload}, {record.threads} thread{'s' * (record.threads != 1)}",
        engine_words(record) + (f", symbols: {symbols}" if (symbols := record.tools.get("engine_symbols")) else ""),
        record.database.description or "",
        describe_host(record.host) if record.host else "",
    ]
    bars = [bar for bar in (_cpu(view, hues), _latency(view)) if bar is not None]
    return render(
        "first_screen.html", verdict=verdict(view, f"trust-{index}"), findings=view.findings[:_FOUND], places=places,
        more=len(view.findings) - _FOUND, found=f"found-{index}", tiles=tiles(record),
        facts=[fact for fact in facts if fact], bars=[(bar, stacked_bar(bar.parts), _rows(bar)) for bar in bars],
        watching=watching_words(record), name=view.name,
    )  # fmt: skip


def _cpu(view: RunView, hues: Sequence[int]) -> _Bar | None:
    """The owner view, the heaviest first and `other` last, in us of a query; in cores or shares where queries
    are not counted."""
    if view.owner is None or not view.owner.rows or not view.owner.total_weight:
        return None
    us, cores = view.us_per_query, view.record.metrics.get("cores")
    whole, unit = (us, "us") if us is not None else (cores, "cores") if cores is not None else (100.0, "%")
    *named, other = enumerate(view.owner.rows)
    ordered = [*sorted(named, key=lambda entry: -entry[1].weight), other]
    parts = [BarPart(*_called(row), hues[place], _cost(row, whole)) for place, row in ordered if row.weight]
    total = "" if unit == "%" else f": {_figure(whole)} {unit}"
    return _Bar(where_it_goes(view.record) + total, _joined(parts), unit, other_words(view.owner))


def _called(row: Category) -> tuple[str, str]:
    """Its title; where it has none, what it is and its name."""
    title = title_of(row.name)
    return (title, "") if title != row.name else (row.label or "not in any category", row.name)


def _cost(row: Category, whole: float) -> float:
    """whole: of what the row is a share where queries are not counted, cores or 100 %"""
    return row.us_per_query if row.us_per_query is not None else whole * row.share / 100


def _latency(view: RunView) -> _Bar | None:
    """From the engine to the device by the ladder; by what threads waited for where no query was followed."""
    ladder = view.observed.of(Files.LADDER, Ladder)
    if ladder is not None:
        if ladder.several is not None and ladder.several.queries > ladder.total.count:
            return _as_it_ran(_by_part(ladder, ladder.several), view.record, "ladder")
        if ladder.total.count and ladder.total.sum_ns:
            return _as_it_ran(_by_stage(ladder), view.record, "ladder")
    clock = view.observed.of(Files.WALL_CLOCK, WallClock)
    if clock is None or not clock.queries or not clock.elapsed_ns:
        return None
    return _as_it_ran(_by_state(clock), view.record, "offcpu")


def _as_it_ran(bar: _Bar, record: RunRecord, kind: str) -> _Bar:
    """Its figures are the window's own: said where that was not the plain windows' workload."""
    ran, latency = carried(record, kind), record.metrics.get("rx.lat")
    if not ran.is_disturbed:
        return bar
    plain = f" In the baseline windows a query took {_figure(latency)} us." if latency else ""
    return bar._replace(note=f"{bar.note}.{ran.words}{plain}".strip(". "))


def _by_stage(ladder: Ladder) -> _Bar:
    count = ladder.total.count
    parts = []
    for title, stages in PARTS.items():
        us = sum(ladder.stage(stage).sum_ns for stage in stages) / count / 1e3
        if us > 0:
            parts.append(BarPart(title, "", KINDS[kind_of(stages[-1])][0], us))
    of = "a query that reads once" if ladder.start == "query" else "a read call"
    note = f"n {count:,}, traced: at least {ladder.probe_ns / 1e3:.2f} us of it are the probes (estimated)"
    return _Bar(f"How long {of} takes: {_figure(ladder.total.mean_ns / 1e3)} us", parts, "us", note)


def _by_part(ladder: Ladder, several: QueryParts) -> _Bar:
    n = several.queries
    parts = [
        BarPart(PLACES[part.name], part.name, KINDS[_KIND_OF_PLACE.get(part.name, "engine")][0], part.sum_ns / n / 1e3)
        for part in several.parts
        if part.sum_ns
    ]
    note = f"n {n:,}, {several.reads / n:.1f} read calls each, traced"
    return _Bar(
        f"How long {queries_of(ladder.kind)} of several reads take: {_figure(several.mean_ns / 1e3)} us",
        _joined(parts),
        "us",
        note,
    )


def _by_state(clock: WallClock) -> _Bar:
    queries = clock.queries or 1
    ns: Counter[str] = Counter()
    for row in clock.rows:
        ns[row.state] += row.ns
    parts = [
        BarPart(
            "on a CPU" if state == ON_CPU else STATES[state], title_of(state), STATE_HUES[state], spent / 1e3 / queries
        )
        for state, spent in ns.most_common()
        if spent > 0
    ]
    whole = clock.elapsed_ns / 1e3 / queries
    return _Bar(f"What the time of a query goes to: {_figure(whole)} us", _joined(parts), "us", "")


def _joined(parts: Sequence[BarPart]) -> list[BarPart]:
    """Those too small to be seen as one; a single one stays itself."""
    least = _LEAST_SHARE * sum(part.value for part in parts)
    small = [part for part in parts if part.value < least]
    if len(small) < 2:
        return list(parts)
    names = ", ".join(part.name or part.title for part in small)
    shown = [part for part in parts if part.value >= least]
    return [*shown, BarPart(f"{len(small)} smaller ones: {names}", "", -1, sum(part.value for part in small))]


def _rows(bar: _Bar) -> list[dict[str, object]]:
    whole = sum(part.value for part in bar.parts)
    return [
        {
            "title": part.title, "name": part.name, "hue": part.hue, "value": f"{_figure(part.value)} {bar.unit}",
            "share": "" if bar.unit == "%" else f"{100 * part.value / whole:.0f} %",
        }
        for part in bar.parts
    ]  # fmt: skip


def _figure(value: float) -> str:
    """Three digits: 104, 46.1, 2.42, 0.87."""
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"
