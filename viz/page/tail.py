"""The slowest queries on a page: the budgets of both groups as bars, the table that they are made of, and the mix."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from ground.results.frame_differences import FrameDifferences
from ground.results.tail import KINDS, Tail, TailRow
from ground.text.titles import title_of
from viz.figures import CannotBeError
from viz.page.frames import frames_graph
from viz.page.rendering import plot_figure, render, section_markup
from viz.svg.elements import element
from viz.svg.slow_strip import slow_strip
from viz.svg.stacked_bar import BarPart, stacked_bar
from viz.tables.tail import first_sentence, group_words, shown_us, tail_section

_HUES = 16


def tail_panel(tail: Tail, frames: FrameDifferences | None = None) -> Markup:
    """frames: of slow queries against median ones. CannotBeError for a row of a kind that there is not."""
    unknown = [row.kind for row in tail.rows if row.kind not in KINDS]
    if unknown:
        raise CannotBeError(f"rows of slow queries called {', '.join(unknown)}")
    hues = [number % _HUES for number in range(len(tail.rows))]
    slow, median = group_words(tail)
    bars = [
        {
            "title": f"{title}: {shown_us(mean)}", "words": words, "drawn": _bar(tail.rows, hues, of),
        }
        for title, mean, words, of in (
            ("A slow query", tail.tail.mean_us, slow, [row.tail_us for row in tail.rows]),
            ("A median query", tail.median.mean_us, median, [row.median_us for row in tail.rows]),
        )
    ]  # fmt: skip
    entries = [(hue, title_of(row.name)) for hue, row in zip(hues, tail.rows, strict=True)]
    drawn = render("budget_bars.html", sentence=first_sentence(tail), notes=[], bars=bars, hues=entries)
    compared = Markup("")
    if frames is not None:
        compared = element("h3", "Where slow queries wait and run, against median ones") + frames_graph(
            frames, "us a query"
        )
    section = [block for block in tail_section(tail) if block != first_sentence(tail)]
    return drawn + _strip(tail) + section_markup(section) + compared


def _bar(rows: Sequence[TailRow], hues: Sequence[int], us: Sequence[float]) -> Markup:
    return stacked_bar(
        [BarPart(title_of(row.name), "", hue, value) for row, hue, value in zip(rows, hues, us, strict=True)]
    )


def _strip(tail: Tail) -> Markup:
    strip = tail.strip
    if strip is None or not strip.slow:
        return Markup("")
    legend = "A dot is a slow query: further right it began later, higher up it took longer."
    if len(strip.slow) < strip.queries:
        legend += f" The {len(strip.slow):,} longest of {strip.queries:,}."
    if strip.beside:
        legend += " Below: what the device had when it was handed a query's first request, "
        legend += f"means of {strip.bin_seconds:.2g} s."
    return plot_figure("Slow queries over the window", slow_strip(strip), "slow.svg", legend, "slow queries over time")
