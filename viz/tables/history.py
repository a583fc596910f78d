"""What changed in a history: its steps, and the noise of its hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ground.results.history import Feature, History, Noise, Series
from viz.table import ABOUT, COUNT, PERCENT_2, WORDS, Column, Section, Table, fixed

# Of tests that are no longer measured, and of labels that are left out.
_NAMED = 8
_CHANGE = fixed(1, "+")


class _Step(NamedTuple):
    series: Series
    feature: Feature
    about: str


def history_section(history: History) -> Section:
    """Steps, what the newest version says nothing of, and what is left out."""
    steps = [steps_table(history)] if history.largest_step() else [f"no step in {len(history.series)} series"]
    return [*steps, *notes_of(history)]


def steps_table(history: History) -> Table[_Step]:
    steps = [_Step(one, of, _about(history, one, of)) for one in history.series for of in one.fit.features]
    columns = [
        Column[_Step]("", "test", WORDS, lambda step: f"{step.series.test}, {step.series.host}"),
        Column("", "figure", WORDS, lambda step: step.series.metric),
        Column("", "between", WORDS, lambda step: " to ".join(step.series.labels[step.feature.at - 1 :][:2])),
        Column("", "change, %", _CHANGE, lambda step: 100 * (step.feature.ratio - 1)),
        Column("", "95 %", _CHANGE, lambda step: "{:+.1f}..{:+.1f}".format(*_ends(step.feature))),
        Column("", "what it is", ABOUT, lambda step: step.about),
    ]
    legend = (
        "A step is between the last version of one level and the first of the next. Its interval is that of the levels "
        "on either side, and is a little too narrow, because the place was chosen by the same runs."
    )
    return Table("", "Steps", columns, steps, legend=legend)


def _ends(feature: Feature) -> tuple[float, float]:
    return 100 * (feature.low - 1), 100 * (feature.high - 1)


def _about(history: History, series: Series, step: Feature) -> str:
    kind = "candidate: no repeats" if step.candidate else "worse" if series.worse(step) else "better"
    away = "" if step.went_away is None else f"recovered in {series.labels[step.went_away]}"
    return "; ".join(filter(None, [kind, away, _with_it(history, series, step)]))


def _with_it(history: History, series: Series, step: Feature) -> str:
    """Categories whose cost changed most between the version before the step and that of it."""
    before, here = series.labels[step.at - 1], series.labels[step.at]
    costs = costs_of(history, series.test, series.host)
    if before not in costs or here not in costs:
        return ""
    changes = {
        name: costs[here].get(name, 0.0) - costs[before].get(name, 0.0)
        for name in costs[here].keys() | costs[before].keys()
    }
    largest = sorted(changes.items(), key=lambda one: -abs(one[1]))[:3]
    return "CPU: " + ", ".join(f"{name} {us:+.2f} us" for name, us in largest if abs(us) >= 0.005)


def costs_of(history: History, test: str, host: str) -> dict[str, dict[str, float]]:
    """us per query by version, then by category."""
    found: dict[str, dict[str, float]] = {}
    for one in history.categories:
        if (one.test, one.host) == (test, host):
            found.setdefault(one.label, {})[one.category] = one.us
    return found


def noise_table(history: History) -> Table[Noise]:
    columns = [
        Column[Noise]("", "host", WORDS, lambda one: one.host),
        Column("", "day", WORDS, lambda one: one.day),
        Column("", "runs", COUNT, lambda one: one.runs),
        Column("", "QPS by window, %", PERCENT_2, lambda one: one.qps_sd),
        Column("", "CPU per query by window, %", PERCENT_2, lambda one: one.cpu_sd),
        Column("", "A/A control: mean, %", fixed(2, "+"), lambda one: one.twin_mean),
        Column("", "A/A control: by block, %", fixed(2, "+"), lambda one: one.twin_sd),
    ]
    legend = (
        "Standard deviations of windows of one process, and how a second process of the base differs from it, block by "
        "block: a host on which nothing differs has a mean of 0."
    )
    return Table("", "Noise", columns, history.noise, legend=legend)


def notes_of(history: History) -> list[str]:
    """What the newest version says nothing of, and what is left out."""
    by_last: dict[str, list[str]] = {}
    for (test, host), label in history.ended().items():
        by_last.setdefault(label, []).append(f"{test} on {host}")
    ended = (label for label in history.versions if label in by_last)
    notes = [f"Not measured after {label}: {_some(by_last[label])}." for label in ended]
    return [*notes, *filter(None, [left_out(history)])]


def left_out(history: History) -> str:
    """Which labels are no versions, in words; "" where all are."""
    names = history.left_out
    return f"Left out, as no versions: {_some(names)}. --label PATTERN includes them." if names else ""


def _some(names: Sequence[str]) -> str:
    more = f", and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"
