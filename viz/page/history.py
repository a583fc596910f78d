"""`history.html`: the versions of an engine as one page that opens from disk: what changed, since when, where.

It follows the rules of `report.html`: one file, no request, a policy that forbids every script but ours. A cell has
colour only where there is a verdict.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import partial

from markupsafe import Markup

from ground.results.differences import MARKS, Outcome
from ground.results.history import Category, Fit, History, Series
from ground.text.units import format_figure
from viz.breakdowns import parts_in_order
from viz.flame.palette import hue_places
from viz.page.document import page
from viz.page.rendering import absent, banner, part, plot_figure, render, section_markup, table_markup
from viz.svg.elements import element
from viz.svg.history import VersionDot, category_bars, history_plot
from viz.tables.history import costs_of, noise_table, notes_of, steps_table

_KIND = {Outcome.REGRESSED: "warn", Outcome.IMPROVED: "note"}
# What matters, drawn as a band around the first level.
_BAND = 0.02


def render_history(history: History, name: str) -> str:
    """The page of a store; name: of the store."""
    sections = [
        ("Tests by versions", "table", partial(_tables, history)),
        ("Steps", "steps", partial(_steps, history)),
        ("Two versions", "pair", partial(_pair, history)),
        ("Version by version", "lines", partial(_lines, history)),
        ("CPU by category", "categories", partial(_bars, history)),
        ("Noise of the hosts", "noise", partial(_noise, history)),
    ]
    made = [{"name": title, "place": place, "content": part(make)} for title, place, make in sections]
    found = [(one, feature) for one in history.series for feature in one.fit.features]
    told = sum(not feature.candidate for _, feature in found)
    tests, hosts = ({getattr(one, of) for one in history.series} for of in ("test", "host"))
    kind, sentence = _verdict(told, len(found) - told)
    content = render(
        "compare.html", label="history", verdict=sentence + _largest(history), kind=kind, bars=[],
        notes=notes_of(history), sections=made,
        about=f"{len(history.versions)} versions, {len(tests)} tests, {len(hosts)} hosts",
    )  # fmt: skip
    return page(f"history of {name}", content, ("history.js",))


def _verdict(steps: int, candidates: int) -> tuple[str, str]:
    """The first line: its kind, and how many steps there are."""
    sentence = f"{steps} step{'s' * (steps > 1)}" if steps else "No step found"
    if candidates:
        sentence += f", {candidates} possible step{'s' * (candidates > 1)} (one run each, unconfirmed)"
    return "warn" if steps else "note" if candidates else "ok", sentence


def _largest(history: History) -> str:
    largest = history.largest_step()
    if largest is None:
        return ""
    one, step = largest
    between = f"{one.labels[step.at - 1]} to {one.labels[step.at]}"
    return f". The largest: {one.metric} of {one.test} on {one.host} {100 * (step.ratio - 1):+.1f} %, {between}"


# ---- tests by versions ---------------------------------------------------------------------------------------------
def _tables(history: History) -> Markup:
    parts = []
    for metric in dict.fromkeys(one.metric for one in history.series):
        series = [one for one in history.series if one.metric == metric]
        measured = {label for one in series for label in one.labels}
        versions = [label for label in history.versions if label in measured]
        rows = []
        for one in series:
            cells = {label: _cell(one, at) for at, label in enumerate(one.labels)}
            until = f", until {one.labels[-1]}" if history.is_older(one.labels[-1]) else ""
            rows.append((f"{one.test}, {one.host}{until}", [cells.get(label) for label in versions]))
        parts.append(render("history_table.html", metric=metric, heads=["test, host", *versions], rows=rows))
    return Markup("").join(parts) or absent("No test has two versions: there is no history yet.")


def _cell(series: Series, at: int) -> dict[str, str]:
    ratio = series.value(at) / series.value(0)
    outcome = series.verdict_at(at)
    features = [one for one in series.fit.features if one.at == at]
    mark = MARKS[outcome] if outcome in _KIND else ""
    if any(one.candidate for one in features):
        mark = "?"
    return {
        "words": f"{ratio:.2f}{mark}",
        "kind": _KIND.get(outcome, ""),
        "begins": "begins" if features else "",
        "title": f"{series.labels[at]}: {format_figure(series.value(at))}, n {series.fit.versions[at].runs}",
    }


# ---- steps ---------------------------------------------------------------------------------------------------------
def _steps(history: History) -> Markup:
    if history.largest_step() is None:
        return banner("ok", "No step: no figure left its level by more than chance would give in 5 of 100 series.")
    return table_markup(steps_table(history))


# ---- plots ---------------------------------------------------------------------------------------------------------
def _lines(history: History) -> Markup:
    parts = []
    for series in sorted(history.series, key=lambda one: not one.fit.features):
        fit = series.fit
        dots = []
        for at, (label, version) in enumerate(zip(series.labels, fit.versions, strict=True)):
            low, high = (math.exp(version.mean + side * fit.half * version.error) for side in (-1, 1))
            value, *interval = map(format_figure, (series.value(at), low, high))
            told = f"{label}: {value} [{', '.join(interval)}], n {version.runs}"
            dots.append(VersionDot(label, series.value(at), low, high, math.exp(version.level), told))
        words = f"{series.metric} of {series.test} on {series.host}"
        parts.append(plot_figure(words, history_plot(dots, words, _BAND), "history.svg", _scatter(fit), words))
    if not parts:
        return absent("No test has two versions.")
    legend = (
        "Those with a step come first. Dots: versions, with their 95 % intervals. Line: the level; it steps where a "
        f"step was found. Band: {100 * _BAND:g} % around the first level."
    )
    return Markup("").join([element("p", legend, class_="legend-note"), *parts])


def _scatter(fit: Fit) -> str:
    of = "repeats" if fit.repeated else "neighbours, as no version has repeats"
    return f"Standard deviation of a run, of {of}: {100 * fit.sd:.2g} %."


def _bars(history: History) -> Markup:
    parts = []
    for test, host in dict.fromkeys((one.test, one.host) for one in history.categories):
        costs = costs_of(history, test, host)
        bars = [(label, costs[label]) for label in history.versions if label in costs]
        names = parts_in_order(of for _, of in bars)
        words = f"CPU us per query of {test} on {host}, by category"
        hues = list(zip(hue_places(names), names, strict=True))
        parts.append(plot_figure(words, category_bars(bars, names, words), "categories.svg", "", words, hues))
    return Markup("").join(parts) or absent("No run of the store has a profile with categories.")


def _noise(history: History) -> Markup:
    return section_markup([noise_table(history)]) or absent("No run of the store has two baseline windows.")


# ---- two versions --------------------------------------------------------------------------------------------------
def _pair(history: History) -> Markup:
    """What the script compares; every interval is made of what is in here."""
    series = [
        {
            "test": one.test, "host": one.host, "metric": one.metric, "worse": one.higher_is_worse,
            "labels": one.labels, "t": round(one.fit.half, 4), "repeated": one.fit.repeated,
            "mean": [round(version.mean, 6) for version in one.fit.versions],
            "error": [round(version.error, 6) for version in one.fit.versions],
        }
        for one in history.series
    ]  # fmt: skip
    data = {
        "versions": history.versions,
        "series": series,
        "categories": _packed(history.categories),
        "t": [round(value, 3) for value in history.t],
    }
    return render("history_pair.html", versions=history.versions, data=json.dumps(data, separators=(",", ":")))


def _packed(categories: Sequence[Category]) -> dict[str, dict[str, list[list[object]]]]:
    """By test and host, then by version: name, us, sd, runs."""
    found: dict[str, dict[str, list[list[object]]]] = {}
    for one in categories:
        row = [one.category, round(one.us, 4), None if one.sd is None else round(one.sd, 4), one.runs]
        found.setdefault(f"{one.test}, {one.host}", {}).setdefault(one.label, []).append(row)
    return found
