"""The slowest queries on a page: the budgets of both groups as bars, the table that they are made of, and the mix."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from ground.results.frame_differences import FrameDifferences
from ground.results.ladder import queries_of
from ground.results.tail import KINDS, Tail, TailRow
from viz.figures import CannotBeError
from viz.page.frames import frames_graph
from viz.page.rendering import absent, plot_figure, render, table
from viz.svg.elements import element
from viz.svg.slow_strip import slow_strip
from viz.svg.stacked_bar import BarPart, stacked_bar
from viz.tail_words import (
    BESIDE_WORDS,
    cpu_absent,
    first_sentence,
    gap_cells,
    group_words,
    percent_of,
    samples_words,
    shown_us,
    waker_words,
)

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
    entries = [(hue, row.name) for hue, row in zip(hues, tail.rows, strict=True)]
    drawn = render("budget_bars.html", sentence=first_sentence(tail), notes=tail.notes, bars=bars, hues=entries)
    compared = Markup("")
    if frames is not None:
        compared = element("h3", "Where slow queries wait and run, against median ones") + frames_graph(
            frames, "us a query"
        )
    return drawn + _strip(tail) + _budget(tail) + _cpu(tail) + _beside(tail) + _mix(tail) + compared


def _bar(rows: Sequence[TailRow], hues: Sequence[int], us: Sequence[float]) -> Markup:
    return stacked_bar([BarPart(row.name, "", hue, value) for row, hue, value in zip(rows, hues, us, strict=True)])


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


def _budget(tail: Tail) -> Markup:
    rows = [_cells(row) for row in tail.rows]
    whole = tail.gap
    rows.append(
        [
            "all", f"{tail.tail.mean_us:,.2f}", f"{tail.median.mean_us:,.2f}",
            *gap_cells(whole),
            "-" if whole is None else "100.0", "",
        ]
    )  # fmt: skip
    heads = ["us a query", "slow", "median", "difference", "95 % interval", "share, %", "what it is"]
    legend = (
        f"n {tail.tail.records:,} slow and {tail.median.records:,} median records of {tail.counted:,} "
        f"{queries_of(tail.kind)} in {tail.seconds:.1f} s. Rows add up to the mean of their group. The intervals are "
        f"of blocks of 250 ms. Of a slow query our own programs take at least {tail.own_us[0]:.1f} us, of a median one "
        f"{tail.own_us[1]:.1f} us, on the CPU. A part that is larger in slow queries is no cause by itself."
    )
    return table("Where the time of slow and of median queries goes", heads, rows, "numbers noted", legend)


def _cells(row: TailRow) -> list[str]:
    share = "-" if row.share is None else f"{100 * row.share:.1f}"
    words = "; ".join(part for part in (KINDS[row.kind], waker_words(row)) if part)
    return [row.name, f"{row.tail_us:,.2f}", f"{row.median_us:,.2f}", *gap_cells(row.gap), share, words]


def _cpu(tail: Tail) -> Markup:
    """On what the time on the CPU goes, where there are samples enough."""
    if not tail.cpu:
        told = tail.gap is not None or any(tail.cpu_samples)
        return absent(f"{cpu_absent(tail)}.") if told else Markup("")
    rows = [
        [
            row.category,
            f"{row.tail_us:,.2f}",
            f"{row.median_us:,.2f}",
            *gap_cells(row.gap),
        ]
        for row in tail.cpu
    ]
    heads = ["us a query", "slow", "median", "difference", "95 % interval"]
    legend = f"The time on the CPU, which is exact, by the shares of samples within the queries: {samples_words(tail)}."
    return table("On what slow and median queries use the CPU", heads, rows, "numbers", legend)


def _beside(tail: Tail) -> Markup:
    if not tail.beside:
        return Markup("")
    rows = [
        [
            row.name, row.unit, f"{row.tail:,.2f}", f"{row.median:,.2f}",
            *gap_cells(row.gap),
        ]
        for row in tail.beside
    ]  # fmt: skip
    heads = ["at the time", "unit", "slow", "median", "difference", "95 % interval"]
    return table("What else was under way", heads, rows, "numbers second-left", f"{BESIDE_WORDS}.")


def _mix(tail: Tail) -> Markup:
    told_by, alike = tail.mixed_by
    rows = [
        [
            row.name, percent_of(row.tail_share), percent_of(row.median_share),
            "-" if row.tail_us is None else f"{row.tail_us:,.2f}",
            "-" if row.median_us is None else f"{row.median_us:,.2f}",
        ]
        for row in tail.mix
    ]  # fmt: skip
    legend = ""
    if tail.mix_us is not None and tail.within_us is not None:
        legend = (
            f"Of the difference {tail.mix_us:,.2f} us are another mix of queries, {tail.within_us:,.2f} us are within "
            f"{alike}."
        )
    heads = [told_by, "of the slow", "of the median", "us, slow", "us, median"]
    return table(f"Queries by {told_by}", heads, rows, "numbers", legend)
