"""`experiment.html`: an experiment as one page that opens from disk: what had to hold, the table, its charts, its runs.

It follows the rules of `report.html`: one file, no request. Links lead to the runs beside it, by relative paths.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from urllib.parse import quote

from markupsafe import Markup

from viz.cell_tables import cells_table
from viz.experiment_view import ExperimentView
from viz.flame.palette import hue_places
from viz.page.document import page
from viz.page.rendering import absent, banner, part, plot_figure, render, section_markup, table, table_markup
from viz.svg.bars import Bar, bars_plot
from viz.svg.elements import element
from viz.svg.history import category_bars
from viz.svg.ratios import Ratio, ratios_plot
from viz.tables.relative import has_intervals, legend, relative_table, two_digits, with_interval

_SINGLE = "A line is a test. Single runs: what differs may be the host's."
_VERDICTS = {True: ("passed", "ok"), False: ("failed", "bad"), None: ("not judged", "note")}


def render_experiment(view: ExperimentView) -> str:
    """The page."""
    parts = [
        ("What is expected", "holds", bool(view.judged), _holds),
        ("Against the base", "relative", bool(view.relative), _relative),
        ("CPU of a query", "stacked", bool(view.stacked), _stacked),
        ("Table", "table", bool(view.values), _table),
        ("Charts", "charts", bool(view.charted), _charts),
        (view.spread.beside, "parts", bool(view.breakdowns), lambda view: section_markup(view.breakdowns)),
        ("Runs", "runs", bool(view.runs), _runs),
        ("Builds", "builds", bool(view.builds), _builds),
        ("What this cannot show", "cannot", bool(view.cannot), lambda view: element("p", view.cannot)),
    ]
    made = [
        {"name": name, "place": place, "content": part(partial(make, view))}
        for name, place, there, make in parts
        if there
    ]
    kind, sentence = _verdict(view)
    content = render(
        "compare.html", label="experiment", verdict=sentence, kind=kind, bars=[], notes=[*view.failed, *view.notes],
        sections=made, about=f"{view.about}. {view.facts}",
    )  # fmt: skip
    return page(view.title, content)


def _verdict(view: ExperimentView) -> tuple[str, str]:
    """The first line: what holds, what does not."""
    outcomes = [one.holds for _, one in view.judged]
    missed = [what for what, one in view.judged if one.holds is False]
    left = outcomes.count(None)
    unjudged = f"; {left} not judged" * bool(left)
    if view.failed:
        return "bad", f"{view.title}: {len(view.failed)} failed" + f"; not as expected: {', '.join(missed)}" * bool(
            missed
        )
    if missed:
        return "bad", f"{view.title}: not as expected: {', '.join(missed)}{unjudged}"
    if not outcomes:
        return "note", view.title
    return "note" if left else "ok", f"{view.title}: {outcomes.count(True)} of {len(outcomes)} hold{unjudged}"


def _holds(view: ExperimentView) -> Markup:
    rows = []
    for what, one in view.judged:
        words, kind = _VERDICTS[one.holds]
        rows.append([what, element("span", words, class_=f"light {kind}"), one.why])
    return table("Sentence by sentence", ("what", "", "values seen"), rows, "words")


# ---- table and charts ----------------------------------------------------------------------------------------------
def _table(view: ExperimentView) -> Markup:
    return table_markup(cells_table(view), lambda cell: _linked(view, cell))


def _linked(view: ExperimentView, cell: str) -> str:
    """The cell's name, which leads to its first run that has a page."""
    for run in view.runs:
        if run.cell == cell:
            for path in run.links.values():
                if path.endswith(".html"):
                    return _link(cell, path)
    return cell


def _link(words: str, path: str) -> Markup:
    return element("a", words, href=quote(path))


def _charts(view: ExperimentView) -> Markup:
    figures = []
    for heading in (h for h in view.headings if h.name in view.charted):
        bars = []
        for cell, values in view.values.items():
            value, published = values[heading.name], view.published.get(cell, {}).get(heading.name)
            one = Bar(cell, None) if value is None else Bar(cell, value.median, value.low, value.high)
            bars.append(replace(one, published=published))
        told = ["A line across: published."] if any(bar.published is not None for bar in bars) else []
        told += (
            [f"Whisker: {view.spread.about}"] if view.spread.about and any(bar.low is not None for bar in bars) else []
        )
        caption = f"{heading.name}: {heading.about}"
        plot = bars_plot(bars, caption, heading.digits)
        figures.append(plot_figure(caption, plot, f"{quote(heading.name, safe=' ')}.svg", " ".join(told)))
    return element("div", *figures, class_="multiples")


# ---- against a base ------------------------------------------------------------------------------------------------
def _relative(view: ExperimentView) -> Markup:
    parts = []
    for of, found in view.relative:
        lines = {
            row: {column: Ratio(cell.ratio, cell.low, cell.high) for column, cell in found.cells[row].items()}
            for row in found.rows
        }
        caption = f"{of}: {found.metric} relative to {found.base}"
        published = {row: line for row, line in view.curves.get(of, {}).items() if row in lines}
        plot = ratios_plot(lines, found.columns, caption, published)
        intervals = has_intervals(found)
        words = "A line is a test; its band is the interval of the ratio." if intervals else _SINGLE
        words += " An interval that is far wider than the ratios differ is cut at the edge." if intervals else ""
        words += " A hollow mark: published." if published else ""
        hues = [(hue % 16, row) for hue, row in enumerate(found.rows)]
        parts.append(plot_figure(caption, plot, f"{quote(of, safe=' ')}.svg", words, caption, hues))
        text, words = (with_interval, legend(found)) if intervals else (two_digits, "")
        parts.append(table_markup(relative_table(found, caption, text, words)))
    return Markup("").join(parts)


def _stacked(view: ExperimentView) -> Markup:
    figures = []
    for one in view.stacked:
        places = dict(zip(one.parts, hue_places(one.parts), strict=True))
        entries = [(places[name], name) for name in one.parts if any(bar.get(name) for bar in one.bars.values())]
        plot = category_bars(list(one.bars.items()), one.parts, one.caption)
        words = "The mean over the runs of each build; what is in no category is at the top."
        figures.append(
            plot_figure(one.caption, plot, f"{quote(one.caption, safe=' ')}.svg", words, one.caption, entries)
        )
    return Markup("").join(figures)


# ---- the rest ------------------------------------------------------------------------------------------------------
def _runs(view: ExperimentView) -> Markup:
    rows = [
        [run.cell, run.what, run.outcome, Markup(" ").join(_link(words, path) for words, path in run.links.items())]
        for run in view.runs
    ]
    words = "A measured step leads to its report, any other to what the client printed."
    return table("Every run", ("cell", "run", "", "steps"), rows, "words", words)


def _builds(view: ExperimentView) -> Markup:
    names = list(view.builds)
    facts = dict.fromkeys(name for build in view.builds.values() for name in build)
    rows = [[name, *(view.builds[build].get(name, "-") for build in names)] for name in facts]
    differing = [row for row in rows if len(set(row[1:])) > 1]
    if not differing:
        return banner("ok", "The same build under several names: any difference between them is noise.")
    return table("What differs between them", ["what", *names], differing, "words") if rows else absent("No build.")
