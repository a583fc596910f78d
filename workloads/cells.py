"""Experiments of cells: the same steps once for each cell, which differ in flags, in their tree or in their binary.

An experiment's file names its cells, the columns of its table and what is expected; nothing here names any of them.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from workloads.curves import Curve
from workloads.scales import DatabaseShape, Scale

# A step of no engine: fio reads the database's own files, as the engine reads them.
BASELINE = "fio"
# Nor is this one: a command line of the user's, run and watched as `ioflame run` does it.
COMMAND = "command"
# Of the client, by name.
Flags = dict[str, int | float | bool | str]
# What a size that scales with the data is at least: below it a level is too small to be one.
_FLOOR = 256 << 10


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """What every cell's database is like.

    published_keys: of the database that the sizes in `scaled` belong to; these shrink with the number of keys
    tree:           further flags, as they are
    database:       `own`: made for the cell and removed after it; `shared`: loaded once for all cells, by nobody's
                    flags, and kept; `grown`: made by the cells that are run once, further by each, and kept;
                    `none`: a directory that holds nothing
    """

    database: Literal["own", "shared", "grown", "none"] = "own"
    published_keys: int = 0
    key_size: int = 20
    value_size: int = 400
    block_size: int = 8192
    bloom_bits: int = 10
    block_align: bool = True
    compression: str = "none"
    scaled: dict[str, int] = {}
    tree: Flags = {}


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A column of the table: the sum of the figures `part` over the sum of those of `per`, `times` a number.

    A figure is called after its step, `load.compacted_gb`, of a cell's last step `last.compacted_gb`, and where steps
    are rows `own.compacted_gb`; one with a minus before its name is taken off.
    off:    a figure that the value is compared with: it is shown in percent above that; "" shows the value itself
    form:   `ratio` as said, or `filled`: 1 - exp(-ratio), the share of keys that so many random writes a key have made
    about:  its line in the legend
    metric: where builds are compared, what it is: `qps` (a rate, more is better) or `cpuPer` (a cost); "" not compared
    drifts: a figure of fio's runs: a difference that is no larger than theirs may be the device's; chart: it has one
    """

    name: str
    about: str
    part: list[str]
    per: list[str] = []
    times: float = 1.0
    digits: int = 1
    off: str = ""
    form: Literal["ratio", "filled"] = "ratio"
    metric: Literal["", "qps", "cpuPer"] = ""
    drifts: str = ""
    chart: bool = False

    @property
    def figures(self) -> list[str]:
        """All that it is worked out of."""
        return [name.removeprefix("-") for name in (*self.part, *self.per)] + [self.off] * bool(self.off)

    def at(self, step: str) -> Column:
        """Where the step is a row of the table: `own.` is that step's."""
        part, per = ([name.replace("own.", f"{step}.", 1) if step else name for name in names]
                     for names in (self.part, self.per))  # fmt: skip
        return msgspec.structs.replace(self, part=part, per=per)

    def value(self, figures: Mapping[str, float]) -> float | None:
        """Infinite where something is divided by nothing, None where a figure is missing.

        `filled` is the share of n keys that came up in w random draws, the limit of 1 - (1 - 1/n)^w.
        """

        def total(names: Sequence[str]) -> float:
            return sum(-figures[name[1:]] if name.startswith("-") else figures[name] for name in names)

        if not all(name in figures for name in self.figures):
            return None
        whole, top = total(self.per) if self.per else 1.0, total(self.part)
        ratio = top / whole if whole else math.inf
        value = self.times * (-math.expm1(-ratio) if self.form == "filled" else ratio)
        return 100 * (value / figures[self.off] - 1) if self.off else value


class Breakdown(msgspec.Struct, frozen=True, kw_only=True):
    """A table of a step: of a measured one the CPU us per query by `role` of its threads or by a view of categories, or
    of any an account of `accounts.json`, which of a load is `jobs` alone.

    step: `last` for the last one of each cell
    """

    step: str
    by: str


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """What is expected of the table: a proof by name, the column and cells that it looks at, and its bounds.

    when, otherwise: a figure that has to be 1 for the proof to be one, and what is said where it is not
    least_keys: with fewer it is not judged
    """

    what: str
    proof: str
    column: str
    cells: list[str] = []
    other: str = ""
    low: float = 0.0
    high: float = 0.0
    when: str = ""
    otherwise: str = ""
    least_keys: int = 0


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """A cell: its flags over those of every step, or of some; its tree over the layout's. published: its figures.

    configuration: the engine's, under the flags; "" for its first
    limited:       its workloads, and the page cache that they fill, have no more memory than the scale says
    build, of:     where several builds are run: which of them, and the cell that it was made of
    threads:       that send queries; 0 for as many as were asked for
    cache:         of its block cache, as a part of the data; 0 for what scale and configuration say
    block_size:    of its database; 0 for the layout's
    since:         the engine's first version that has what it needs; an older one leaves the cell out
    engine, client: its own; "" for those that were asked for
    keys:          of its database, as a multiple of the scale's
    once:          it makes what the cells after it find of a grown database: no row of the table, in one round alone
    levels:        non-empty levels that its workloads have to find; "" for what each says itself
    command:       a command line that is run in place of steps; its figures are called `command.NAME`
    """

    name: str
    engine: str = ""
    client: str = ""
    keys: int = 1
    threads: int = 0
    cache: float = 0.0
    block_size: int = 0
    since: str = ""
    build: str = ""
    of: str = ""
    configuration: str = ""
    limited: bool = False
    once: bool = False
    levels: Literal["", "any", "several", "one"] = ""
    tree: Flags = {}
    flags: Flags = {}
    step_flags: dict[str, Flags] = {}
    compression: str = ""
    steps: list[str] = []
    command: str = ""
    published: dict[str, float] = {}


class Factor(msgspec.Struct, frozen=True):
    """What cells differ in: every level of every factor is combined with all others, as `level, level`."""

    levels: list[Cell]


class ComparedEngine(msgspec.Struct, frozen=True, kw_only=True):
    """An engine that is compared as a build is.

    client:    that drives it, "" for its default; flags: of every step
    published: its figures, by cell and column
    """

    client: str = ""
    flags: dict[str, int | bool | str] = {}
    published: dict[str, dict[str, float]] = {}


class Cells(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment of cells as its file has it.

    cannot:  what it does not show on a small machine; curve: what was published of versions
    factors: whose combinations are cells before those in `cells`
    rows:    the steps that are rows of the table, each of every cell, as `cell: step`; none where a cell is a row
    same:    facts of builds without which a difference between two of them says nothing of what is compared
    engines: every cell is run once with each, by name; the first is the base
    observe: by step that is measured, what watches it besides, in a window of its own
    scale:   none where those of `ioflame profile` hold, with all its options, and each cell is run with each of USERS
    spread:  of a value: the quarters of a cell's runs, or the 95 % interval by `bootstrap` over runs and their seconds
    """

    about: str
    shows: str
    cannot: str
    columns: list[Column]
    holds: list[Hold]
    scale: dict[str, Scale] = {}
    spread: Literal["quarters", "bootstrap"] = "quarters"
    cells: list[Cell] = []
    factors: list[Factor] = []
    rows: list[str] = []
    breakdowns: list[Breakdown] = []
    observe: dict[str, tuple[str, ...]] = {}
    same: tuple[str, ...] = ("assertions",)
    engines: dict[str, ComparedEngine] = {}
    steps: list[str] = []
    layout: Layout = Layout()
    curve: Curve | None = None
    name: str = ""

    def table_rows(self) -> list[CellRow]:
        """The rows of the table."""
        cells = [cell for cell in self.cells if not cell.once]
        if not self.rows:
            return [CellRow(cell.name, cell, "", cell.published) for cell in cells]
        return [CellRow(f"{cell.name}: {step}", cell, step, {}) for step in self.rows for cell in cells]

    def at(self, scale: str) -> Cells:
        """With the cells of a scale, and the proofs that look at none but them."""
        names = self.scale[scale].cells
        if not names:
            return self
        cells = [cell for cell in self.cells if cell.name in names]
        rows = {row.name for row in msgspec.structs.replace(self, cells=cells).table_rows()}
        holds = [hold for hold in self.holds if rows.issuperset(hold.cells)]
        return msgspec.structs.replace(self, cells=cells, holds=holds)

    def steps_of(self, cell: Cell) -> list[str]:
        return [COMMAND] if cell.command else cell.steps or self.steps

    def tree_before(self, cell: Cell) -> list[str]:
        """The steps that made what a cell finds of a grown database: of the cells before it that are run once."""
        before = itertools.takewhile(lambda one: one.name != cell.name, self.cells)
        return [step for one in before if one.once for step in self.steps_of(one)]

    def shape(self, cell: Cell, num_keys: int) -> DatabaseShape:
        """The database of a cell; sizes in `scaled` are those of the published one, by the number of keys."""
        layout, num_keys = self.layout, num_keys * cell.keys
        part = num_keys / layout.published_keys if layout.published_keys else 1.0
        scaled = {name: max(int(size * part), _FLOOR) for name, size in layout.scaled.items()}
        own = {
            name: value.format(num_keys=num_keys, **_parts(num_keys)) if isinstance(value, str) else value
            for name, value in {**layout.tree, **cell.tree}.items()
        }
        return DatabaseShape(
            num_keys, layout.key_size, layout.value_size, cell.block_size or layout.block_size, layout.block_align,
            cell.compression or layout.compression, layout.bloom_bits, {**scaled, **own},
        )  # fmt: skip

    def combined(self) -> Cells:
        """With every combination of its factors as a cell."""
        combined = list(_combined(self.factors)) if self.factors else []
        return msgspec.structs.replace(self, cells=[*combined, *self.cells])

    def of_engines(self) -> Cells:
        """Every cell once for each engine, as `CELL, ENGINE`; unchanged where the file names none."""
        if not self.engines:
            return self
        cells = [
            msgspec.structs.replace(
                cell, name=f"{cell.name}, {name}", of=cell.name, build=name, engine=name, client=engine.client,
                flags={**engine.flags, **cell.flags}, published=engine.published.get(cell.name, cell.published),
            )
            for cell in self.cells
            for name, engine in self.engines.items()
        ]  # fmt: skip
        return msgspec.structs.replace(self, cells=cells)

    def of_builds(self, names: Sequence[str]) -> Cells:
        """Every cell and every proof once for each build; unchanged where there is one build, which has no name."""
        if len(names) < 2:
            return self
        found = self._with_each({name: {"build": name} for name in names})
        cells = [
            cell if cell.once else msgspec.structs.replace(cell, of=cell.name.removesuffix(f", {cell.build}"))
            for cell in found.cells
        ]
        return msgspec.structs.replace(found, cells=cells)

    def of_users(self, users: Sequence[int]) -> Cells:
        """Every cell with each number of threads, but for those that are run once, and so every proof."""
        return self._with_each({f"{count} user{'s' * (count != 1)}": {"threads": count} for count in users})

    def _with_each(self, ways: Mapping[str, Mapping[str, Any]]) -> Cells:
        """Every cell, but for those that are run once, in each way, as `CELL, WAY`, with the fields that make it one;
        every proof of the cells of each."""
        cells = [
            cell if cell.once else msgspec.structs.replace(cell, name=f"{cell.name}, {way}", **fields)
            for cell in self.cells
            for way, fields in list(ways.items())[: 1 if cell.once else None]
        ]
        rows = {row.name: row.cell.name for row in self.table_rows()}
        holds = [
            msgspec.structs.replace(
                hold, what=f"{way}: {hold.what}",
                cells=[f"{rows[name]}, {way}{name.removeprefix(rows[name])}" for name in hold.cells or rows],
            )
            for hold in self.holds
            for way in ways
        ]  # fmt: skip
        return msgspec.structs.replace(self, cells=cells, holds=holds)

    @property
    def builds(self) -> list[str]:
        """Those that are compared, the base first; empty where one alone is run."""
        return [build for build in dict.fromkeys(cell.build for cell in self.cells) if build]

    def runs(self, rounds: int) -> Iterator[CellRun]:
        """Every cell in every round; each round begins with another one, so that a drift is nobody's.

        A cell of several builds is run with one after the other, with the base first and last. All rounds of the cells
        before one that is run once come before that.
        """
        for _, block in itertools.groupby(self.cells, lambda cell: cell.once and cell.name):
            groups: dict[str, list[Cell]] = {}
            turns: Counter[str] = Counter()
            for cell in block:
                groups.setdefault(cell.of or cell.name, []).append(cell)
            order = [[*group, *group[:1]] if len(group) > 1 else group for group in groups.values()]
            for turn in range(1 if order[0][0].once else rounds):
                first = turn % len(order)
                for cell in (cell for group in [*order[first:], *order[:first]] for cell in group):
                    turns[cell.name] += 1
                    yield CellRun(cell, turns[cell.name], turn + 1)


@dataclass(frozen=True)
class CellRun:
    """One run of a cell. turn: which of its runs it is; round: of the whole experiment; both from 1 on"""

    cell: Cell
    turn: int
    round: int


@dataclass(frozen=True)
class CellRow:
    """A row of the table: of a cell, or of one of its steps, with what was published of it, by column."""

    name: str
    cell: Cell
    step: str
    published: Mapping[str, float]


def _combined(factors: Sequence[Factor]) -> Iterator[Cell]:
    """Every combination of their levels; what a later factor says goes over what an earlier one does."""
    for levels in itertools.product(*(factor.levels for factor in factors)):
        cell = levels[0]
        for level in levels[1:]:
            own = {n: v for n, v in msgspec.structs.asdict(level).items() if v != _NONE[n]}
            tables = {n: {**getattr(cell, n), **v} for n, v in own.items() if isinstance(v, dict)}
            cell = msgspec.structs.replace(cell, **{**own, **tables, "name": f"{cell.name}, {level.name}"})
        yield cell


_NONE = msgspec.structs.asdict(Cell(name=""))


def _parts(num_keys: int) -> Mapping[str, int]:  # `{keys_2}`, `{keys_8}` ...: the number of keys over so many
    return {f"keys_{parts}": num_keys // parts for parts in (2, 4, 8, 16, 32, 64)}
