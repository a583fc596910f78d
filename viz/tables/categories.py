"""The views of a CPU profile: which category has which share of it, and of the CPU of a query."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from ground.results.categories import Categories, Category
from ground.results.metrics import MODE_METRIC
from ground.results.record import RunRecord
from ground.text.titles import title_of
from viz.figures import other_words, where_it_goes
from viz.svg.elements import element
from viz.svg.share_bar import share_bar
from viz.table import ABOUT, BAR, COUNT, PERCENT_2, TITLE, WORDS, Column, Form, Section, Table, fixed, tsv_only
from viz.weights import percentages

_RULE = "the first known frame from the root owns all below it"
_OVER_SECONDS = (
    "95 %: interval of the share by how rounds differ, or the seconds of a single window (bootstrap); it does not "
    "include what changes from run to run."
)
_OVER_SAMPLES = (
    "95 %: interval of Wilson from the number of samples, taken as independent draws of equal weight; it does not "
    "include what changes from run to run."
)
_STEAL = "steal: between which the share must be, whichever samples hold time that the hypervisor took."
_FRAMES_SHOWN = 5
_US = fixed(3)
# Units of profiles that are time on a CPU.
_OF_CPU = ("ns", "cycles")
_Z = 1.959963984540054  # of 95 %, two-sided


def categories_section(record: RunRecord, found: Categories, about: Form | None = ABOUT) -> Section:
    """The table of a view, and of the owner view what `other` is. about: as `categories_table` has it"""
    assert record.profile is not None
    # As it is published: a workload reads, or writes; a target may do both or neither.
    whole = found.view == "owner" and record.target is None
    title = f"{where_it_goes(record)} ({found.view} view: {_RULE if whole else found.description})"
    table = categories_table(
        found, record.profile.unit, title, found.view, cores=record.metrics.get("cores"), whole=whole, about=about
    )
    if found.view != "owner":
        return [table]
    words = [cost_words(record, found), other_words(found)]
    if found.other_frames and found.total_weight:
        frames = found.other_frames[:_FRAMES_SHOWN]
        named = (f"{frame.frame}\u00a0{100 * frame.weight / found.total_weight:.2f}%" for frame in frames)
        words.append(f"its leaf frames: {', '.join(named)}")
    return [table, *filter(None, words)]


def cost_words(record: RunRecord, found: Categories) -> str:
    """How the cost of a row was worked out."""
    if record.profile is not None and any(row.us_per_query is not None for row in found.rows):
        metric = MODE_METRIC[record.profile.mode]
        words = f"us = share of weight in the perf window x {title_of(metric)} of the baseline windows"
        return f"{words}, per query and per read."
    if record.target is None:
        return "Costs are not shown: the baseline windows have no CPU per query."
    return (
        "cores = share of weight in the perf window x cores of the baseline windows. There is no us per query: nothing "
        "counts the queries (--count)."
    )


def categories_table(
    found: Categories,
    unit: str,
    title: str,
    name: str = "",
    *,
    cores: float | None = None,
    whole: bool = False,
    about: Form | None = ABOUT,
    hues: Mapping[str, str] | None = None,
    more: str = "",
) -> Table[Category]:
    """A view, the heaviest row first and `other` last.

    unit:  of the weights that the shares are of; cores: CPUs in use by all rows together, None where not known
    whole: as the rules have it: in their order, and with the rows without weight
    about: how it is written what each row is, None: on the page alone; hues: classes of the bars on a page, by row
    """
    rows = found.rows
    printed = dict(zip((row.name for row in rows), percentages([row.weight for row in rows]), strict=True))
    counts = [row.samples for row in rows]
    samples = sum(count or 0 for count in counts) if rows and None not in counts else None
    every = Category(
        "all", "", found.total_weight, 100.0, samples,
        us_per_query=_sum(row.us_per_query for row in rows), us_per_read=_sum(row.us_per_read for row in rows),
    )  # fmt: skip
    printed[every.name] = "100.00" if found.total_weight else "0.00"

    def interval(row: Category) -> tuple[float, float] | None:
        """Of the share in percent: over the seconds where there are enough, by the number of samples otherwise."""
        if row.interval is not None:
            return row.interval.low, row.interval.high
        low, high = wilson(row.share / 100, samples or 0)
        return (100 * low, 100 * high) if samples and row is not every else None

    def in_use(row: Category) -> float | None:
        return None if cores is None else row.share / 100 * cores

    def of_cost(row: Category) -> tuple[float, float] | None:
        if row.us_interval is not None:
            return row.us_interval.low, row.us_interval.high
        whole_cost = cores if every.us_per_query is None else every.us_per_query
        ends = interval(row)
        return None if whole_cost is None or ends is None else (
            whole_cost * ends[0] / 100, whole_cost * ends[1] / 100
        )  # fmt: skip

    most = max((ends[1] if (ends := interval(row)) else row.share for row in rows), default=100.0)

    def with_bar(row: Category) -> str:
        if row is every:
            return printed[row.name]
        ends = interval(row)
        whisker = None if ends is None else (ends[0] / 100, ends[1] / 100)
        bar = share_bar(row.share / 100, whisker, most / 100, (hues or {}).get(row.name, "h0"))
        return element("div", bar, element("span", printed[row.name]), class_="share")

    top = max((row.share for row in rows), default=0.0) or 1.0
    columns = [
        Column[Category]("category", "category", TITLE, lambda row: row.name),
        Column("", "short", WORDS, _short, measured=True),
        tsv_only(f"weight_{unit}", lambda row: row.weight),
        tsv_only("share_percent", lambda row: row.share),
        tsv_only("share_low_percent", lambda row: row.interval.low if row.interval else None),
        tsv_only("share_high_percent", lambda row: row.interval.high if row.interval else None),
        tsv_only("us_per_query_low", lambda row: row.us_interval.low if row.us_interval else None),
        tsv_only("us_per_query_high", lambda row: row.us_interval.high if row.us_interval else None),
        Column("", share_head(unit), PERCENT_2, lambda row: printed[row.name], on="screen"),
        Column("", share_head(unit), PERCENT_2, with_bar, on="page"),
        Column("", "95 %", PERCENT_2, _range(interval, 2), measured=True),
        Column("", "cores", _US, in_use, measured=True),
        Column("us_per_query", "us/query", _US, lambda row: row.us_per_query, measured=True),
        Column("", "95 %", _US, _range(of_cost, 3), on="page", measured=True),
        Column("us_per_read", "us/read", _US, lambda row: row.us_per_read, measured=True),
        Column("", "steal", PERCENT_2, _range(lambda row: row.bounds, 2), measured=True),
        Column("samples", "n", COUNT, lambda row: row.samples, measured=True),
        Column("", "", BAR, lambda row: None if row is every else row.share / top, on="screen"),
        Column("about", "what it is", about or ABOUT, lambda row: row.label, on=None if about else "page"),
    ]
    other = rows[-1] if rows else every
    notes = [
        (_OVER_SECONDS if any(row.interval for row in rows) else _OVER_SAMPLES if samples else ""),
        _STEAL * any(row.bounds is not None for row in rows),
        "" if whole else without_weight(found),
    ]
    return Table(
        name, title, columns, rows, [every], " ".join(filter(None, notes)), more,
        where=None if whole else lambda row: bool(row.weight) or row is other,
        order=None if whole else lambda row: (row is other, -row.weight),
    )  # fmt: skip


def share_head(unit: str) -> str:
    """Of a column of shares of a profile in this unit."""
    return "CPU %" if unit in _OF_CPU else f"% of {unit}"


def _short(row: Category) -> str | None:
    """The name by which rules, TSV and the store have it, where that is another."""
    return None if title_of(row.name) == row.name else row.name


def without_weight(found: Categories) -> str:
    empty = [title_of(row.name) for row in found.rows[:-1] if not row.weight]
    return f"Without weight: {', '.join(empty)}." if empty else ""


def _range(of: Callable[[Category], tuple[float, float] | None], digits: int) -> Callable[[Category], str | None]:
    def text(row: Category) -> str | None:
        ends = of(row)
        return None if ends is None else f"{ends[0]:.{digits}f}..{ends[1]:.{digits}f}"

    return text


def _sum(figures: Iterable[float | None]) -> float | None:
    """None where one of them is not known."""
    known = list(figures)
    return math.fsum(figure for figure in known if figure is not None) if None not in known and known else None


def wilson(share: float, n: int) -> tuple[float, float]:
    """The 95 % interval of Wilson around `share` (0 to 1) seen in `n` samples, taken as independent draws;
    (0, 1) where there are none."""
    if n <= 0:
        return 0.0, 1.0
    share = min(max(share, 0.0), 1.0)
    square = _Z * _Z
    middle = (share + square / (2 * n)) / (1 + square / n)
    half = _Z / (1 + square / n) * math.sqrt(share * (1 - share) / n + square / (4 * n * n))
    return max(0.0, min(middle - half, share)), min(1.0, max(middle + half, share))
