"""An experiment as its page and its summary show it, whatever kind it is of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ground.results.cells import Heading, Judged, Value
from ground.results.differences import RelativeTable
from viz.breakdowns import Stacked
from viz.table import Table


@dataclass(frozen=True)
class MadeRun:
    """A run of a cell. links: what to read of it, each with its path relative to the page"""

    cell: str
    what: str
    outcome: str
    links: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Spread:
    """What the ends of a value are. about: in words, with a full stop; "" for none

    called: in a table; columns: in a file; beside: what the breakdowns are, as a heading
    """

    about: str = ""
    called: str = "25th to 75th percentile"
    columns: tuple[str, str] = ("q1", "q3")
    beside: str = "Where the CPU goes"


@dataclass(frozen=True)
class ExperimentView:
    """What page and terminal show of it.

    about, facts:      what it is; when, where and with what it was run
    values, published: by cell, then by column; spread: what the ends of a value are
    report_tsv:        its rows as benchmark.sh has them, as a file; "" where it has none
    charted:           columns that have a chart
    relative:          tables against a base, by what they are of
    curves:            ratios that were published of the same, by that, then by row and column
    stacked:           the CPU of a query by build
    builds:            facts of each build, by name
    failed:            checks and steps that failed; notes: what else has to be known
    """

    title: str
    about: str
    facts: str
    headings: Sequence[Heading]
    values: Mapping[str, Mapping[str, Value | None]]
    judged: Sequence[tuple[str, Judged]]
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    spread: Spread = Spread()
    report_tsv: str = ""
    charted: Sequence[str] = ()
    relative: Sequence[tuple[str, RelativeTable]] = ()
    curves: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    stacked: Sequence[Stacked] = ()
    breakdowns: Sequence[Table[Sequence[str]]] = ()
    runs: Sequence[MadeRun] = ()
    builds: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    failed: Sequence[str] = ()
    notes: Sequence[str] = ()
    cannot: str = ""
