"""A table as a subject makes it, once: the terminal, a page and TSV each write any of them by one function.

Table("stalls", "Stalls", [
    Column("cause", "held back by", WORDS, lambda row: row.cause),
    Column("all_seconds", "in all, ms", MS, lambda row: row.seconds),
], causes)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, Generic, Literal, TypeVar

from ground.results.histogram import Histogram
from ground.text.titles import title_of
from ground.text.tsv import Row
from ground.text.units import format_bytes
from viz.columns import bar, microseconds
from viz.printable import printable
from viz.svg.axes import us
from viz.svg.elements import element
from viz.svg.share_bar import share_bar

R = TypeVar("R")
Value = str | int | float | None
Medium = Literal["screen", "page"]

_BAR = 24
_PERCENTILES = (50.0, 90.0, 99.0, 99.9)
_MIB = 1 << 20
# What a page shows of a long table, for each row that the screen shows.
_PAGE_HAS = 4


@dataclass(frozen=True)
class Form:
    """How the values of a column are written. page: where it is another way than on the screen

    left: to the left, as words are; spare: left out where the screen has no room; beside: words that go below the table
    where the screen has no room beside it; both: cut to the room beside it
    """

    screen: Callable[[Any], str]
    page: Callable[[Any], str] | None = None
    left: bool = False
    spare: bool = False
    beside: bool = False

    def text(self, value: Value, medium: Medium) -> str:
        """`-` for a figure that was not measured; words stay as they are."""
        if value is None:
            return "" if self.left else "-"
        if isinstance(value, str) and not self.left:
            return value if medium == "page" else printable(value)
        return self.page(value) if medium == "page" and self.page is not None else self.screen(value)


def fixed(digits: int, sign: str = "") -> Form:
    """So many decimals. sign: `+` to print it always"""
    return Form(f"{{:{sign},.{digits}f}}".format)


def _words(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


# An em space indents.
WORDS = Form(lambda value: printable(str(value)).replace("\u2003", "  "), _words, left=True)
# A name that records keep.
TITLE = Form(lambda name: printable(title_of(name)), title_of, left=True)
# What a row is: long words.
ABOUT = Form(printable, _words, left=True, beside=True)
# The same, cut on the screen, and left out where it has no room beside the row.
CUT = Form(printable, _words, left=True, beside=True, spare=True)
# What is drawn already, as text or as markup.
DRAWN = Form(_words, _words, left=True)
# A path or a function, which a page may break anywhere.
NAME = Form(printable, lambda name: element("span", name, class_="name"), left=True)
COUNT = Form("{:,.0f}".format)
# Of a value in percent.
PERCENT, PERCENT_2 = fixed(1), fixed(2)
# Of a value in ns.
US = Form(microseconds, us)
MS = Form(lambda ns: f"{ns / 1e6:,.3f}")
# Of a value in bytes.
MIB, BYTES = Form(lambda size: f"{size / _MIB:,.1f}"), Form(format_bytes)
# Of a share, 0 to 1.
BAR = Form(lambda part: bar(part, _BAR), lambda part: share_bar(part, None, 1.0, "h0"), spare=True, left=True)


@dataclass(frozen=True)
class Column(Generic[R]):
    """A column: all that is to be said of it is here.

    key:  of the TSV: ends in its unit, one without is a count, a ratio or words; "": it is not in TSV
    head: for people; None: it is in TSV alone
    of:   the value of a row, in the unit of its key
    on:   the only medium that shows it
    measured: people see it only where a row has a value
    """

    key: str
    head: str | None
    form: Form
    of: Callable[[R], Value]
    on: Medium | None = None
    measured: bool = False


def tsv_only(key: str, of: Callable[[R], Value] | None = None) -> Column[R]:
    """Without `of` the field of a row that is called as the key."""
    return Column(key, None, WORDS, of or attrgetter(key))


def histogram_columns(of: Callable[[R], Histogram], *further: float, count: str | None = "n") -> list[Column[R]]:
    """The figures of a histogram. further: percentiles that only people see; count: its head"""

    def percentile(percent: float) -> Callable[[R], float | None]:
        return lambda row: of(row).percentile(percent)

    return [
        Column("count", count, COUNT, lambda row: of(row).count),
        tsv_only("sum_ns", lambda row: of(row).sum_ns),
        tsv_only("least_ns", lambda row: of(row).least_ns),
        tsv_only("most_ns", lambda row: of(row).most_ns),
        Column("mean_ns", "mean", US, lambda row: of(row).mean_ns),
        *(Column(f"p{percent:g}_ns", f"p{percent:g}", US, percentile(percent)) for percent in _PERCENTILES),
        *(Column("", f"p{percent:g}", US, percentile(percent)) for percent in further),
        Column("", "max", US, lambda row: of(row).most_ns if of(row).count else None),
    ]


@dataclass(frozen=True)
class Table(Generic[R]):
    """A table.

    name:   in TSV; "": it is not in it
    title:  above it; columns: in their order, in each medium
    rows:   of any type; sums: further ones for people, below: what the rows add up to
    legend: below it; more: what only a page has room for
    where:  the rows that people see; order: what they are sorted by for people
    most:   how many of them the screen has room for, which says how many more there are
    """

    name: str
    title: str
    columns: Sequence[Column[R]]
    rows: Sequence[R]
    sums: Sequence[R] = ()
    legend: str = ""
    more: str = ""
    where: Callable[[R], bool] | None = None
    most: int | None = None
    order: Callable[[R], Any] | None = None

    def records(self) -> list[Row]:
        """Of TSV."""
        columns = [column for column in self.columns if column.key]
        return [{column.key: column.of(row) for column in columns} for row in self.rows]

    @cached_property
    def seen(self) -> list[R]:
        """The rows that people see, however many."""
        rows = [row for row in self.rows if self.where is None or self.where(row)]
        return rows if self.order is None else sorted(rows, key=self.order)

    def shown(self, medium: Medium) -> list[Column[R]]:
        columns = [one for one in self.columns if one.head is not None and one.on in (None, medium)]
        return [one for one in columns if not one.measured or any(one.of(row) is not None for row in self.seen)]

    def cells(self, medium: Medium) -> list[list[str]]:
        """Heads, then the rows."""
        columns = self.shown(medium)
        rows = [*self.seen[: self._most(medium)], *self.sums]
        return [
            [column.head or "" for column in columns],
            *([column.form.text(column.of(row), medium) for column in columns] for row in rows),
        ]

    def left_out(self, medium: Medium) -> str:
        """How many rows are not shown; "" where all are."""
        most = self._most(medium)
        return "" if most is None or len(self.seen) <= most else f"And {len(self.seen) - most:,} more."

    def _most(self, medium: Medium) -> int | None:
        return self.most if self.most is None or medium == "screen" else _PAGE_HAS * self.most


def matrix(
    title: str,
    heads: Sequence[str],
    rows: Sequence[tuple[str, Sequence[Value]]],
    form: Form = COUNT,
    legend: str = "",
) -> Table[tuple[str, Sequence[Value]]]:
    """A table whose columns are named by what was measured: all are written in one way. rows: each with its name"""

    def cell(place: int) -> Callable[[tuple[str, Sequence[Value]]], Value]:
        return lambda row: row[1][place]

    first, *others = heads
    columns = [Column[tuple[str, Sequence[Value]]]("", first, WORDS, lambda row: row[0])]
    columns += [Column("", head, form, cell(place)) for place, head in enumerate(others)]
    return Table("", title, columns, rows, legend=legend)


def of_cells(
    title: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    legend: str = "",
    *,
    words: bool = False,
    noted: bool = False,
) -> Table[Sequence[str]]:
    """A table whose cells are text already. words: all of them are words, not the first alone; noted: the last is what
    the row is"""

    def cell(place: int) -> Callable[[Sequence[str]], str]:
        return lambda row: row[place]

    forms = [WORDS, *([WORDS if words else COUNT] * (len(heads) - 1))]
    if noted:
        forms[-1] = ABOUT
    columns = [Column("", head, form, cell(place)) for place, (head, form) in enumerate(zip(heads, forms, strict=True))]
    return Table("", title, columns, rows, legend=legend)


@dataclass(frozen=True)
class Records:
    """A table for programs alone."""

    name: str
    rows: Sequence[Row]


# A string is a paragraph of its own lines.
Block = str | Table[Any] | Records
Section = Sequence[Block]


def tsv_tables(section: Section) -> Mapping[str, Sequence[Row]]:
    """Those that programs read, by name."""
    blocks = (block for block in section if not isinstance(block, str) and block.name)
    return {block.name: block.records() if isinstance(block, Table) else block.rows for block in blocks}
