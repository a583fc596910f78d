"""The slowest queries on a page: the budgets of both groups as bars, the table that they are made of, and the mix."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from ground.results.tail import KINDS, Tail, TailRow
from viz.figures import CannotBeError
from viz.page.rendering import render, table
from viz.svg.stacked_bar import BarPart, stacked_bar
from viz.tail_words import first_sentence, group_words, percent_of, shown_us, waker_words

__all__ = ("tail_panel",)

_HUES = 16


def tail_panel(tail: Tail) -> Markup:
    """CannotBeError for a row of a kind that there is not."""
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
    return drawn + _budget(tail) + _mix(tail)


def _bar(rows: Sequence[TailRow], hues: Sequence[int], us: Sequence[float]) -> Markup:
    return stacked_bar([BarPart(row.name, "", hue, value) for row, hue, value in zip(rows, hues, us, strict=True)])


def _budget(tail: Tail) -> Markup:
    rows = [_cells(row) for row in tail.rows]
    whole = tail.gap
    rows.append(
        [
            "all", f"{tail.tail.mean_us:,.2f}", f"{tail.median.mean_us:,.2f}",
            *(_gap(whole.estimate, whole.low, whole.high) if whole is not None else ("-", "-")),
            "-" if whole is None else "100.0", "",
        ]
    )  # fmt: skip
    heads = ["us a query", "slow", "median", "difference", "95 % interval", "share, %", "what it is"]
    legend = (
        f"n {tail.tail.records:,} slow and {tail.median.records:,} median records of {tail.counted:,} queries in "
        f"{tail.seconds:.1f} s. Rows add up to the mean of their group. The intervals are of blocks of 250 ms. Of a "
        f"slow query our own programs take {tail.own_us[0]:.1f} us, of a median one {tail.own_us[1]:.1f} us, on the "
        "CPU. A part that is larger in slow queries is no cause by itself."
    )
    return table("Where the time of slow and of median queries goes", heads, rows, "numbers noted", legend)


def _cells(row: TailRow) -> list[str]:
    gap = _gap(row.gap.estimate, row.gap.low, row.gap.high) if row.gap is not None else ("-", "-")
    share = "-" if row.share is None else f"{100 * row.share:.1f}"
    words = "; ".join(part for part in (KINDS[row.kind], waker_words(row)) if part)
    return [row.name, f"{row.tail_us:,.2f}", f"{row.median_us:,.2f}", *gap, share, words]


def _gap(estimate: float, low: float, high: float) -> Sequence[str]:
    return (f"{estimate:+,.2f}", f"{low:+,.2f} to {high:+,.2f}")


def _mix(tail: Tail) -> Markup:
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
            "queries of as many reads."
        )
    heads = ["read calls", "of the slow", "of the median", "us, slow", "us, median"]
    return table("Queries by their read calls", heads, rows, "numbers", legend)
