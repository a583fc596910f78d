"""Counts as they are shown, on the screen, on the page and in a pull request: figures per operation, by arm."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from viz.table import Block as Shown
from viz.table import Section, Table, of_cells
from viz.tables.relative import markdown_row

NOT_COUNTED = (
    "Not counted: the kernel, caches, real branch prediction, the width of vector instructions, waiting, contention."
)
NOT_COUNTED_BY_PROCESSOR = "Not counted: the kernel, caches, waiting, contention; locked instructions, categories."
_NONE = "-"
# Arms whose difference has a column.
_TWO = 2


@dataclass(frozen=True)
class Block:
    """A table: rows by label, of each arm's figure, None where it has none. head: what a row is

    stacks: its rows add up to a whole
    """

    head: str
    title: str
    rows: Mapping[str, Sequence[float | None]]
    stacks: bool = False

    @property
    def counted(self) -> dict[str, Sequence[float | None]]:
        """The rows in which any arm has a count."""
        return {label: cells for label, cells in self.rows.items() if any(cells)}


@dataclass(frozen=True)
class OperationView:
    """instructions: by arm; verdicts: of each arm but the base; lacks: by arm, why it was not counted"""

    name: str
    about: str
    per: str
    instructions: Sequence[float | None]
    verdicts: Sequence[str]
    lacks: Mapping[str, str]
    blocks: Sequence[Block]


@dataclass(frozen=True)
class CountView:
    """arms: the base first; facts: what counts depend on besides the engine; notes: what a reader has to know first

    unseen: what counts of this kind do not see
    """

    title: str
    arms: Sequence[str]
    facts: Mapping[str, str]
    operations: Sequence[OperationView]
    notes: Sequence[str] = ()
    unseen: str = NOT_COUNTED

    @property
    def against(self) -> Table[Sequence[str]]:
        """Each arm against the base."""
        rows = [[one.name, *one.verdicts] for one in self.operations] if len(self.arms) > 1 else []
        return of_cells(f"Against {self.arms[0]}", ["operation", *self.arms[1:]], rows, words=True)

    @property
    def table(self) -> Table[Sequence[str]]:
        """Instructions of each operation by arm."""
        rows = [[one.name, *map(figure, one.instructions), one.per, one.about] for one in self.operations]
        return of_cells(self.title, ["operation", *self.arms, "per", "what it is"], rows, noted=True)

    def block(self, block: Block, title: str) -> Table[Sequence[str]]:
        """The rows that have counts, of two arms with the change."""
        heads = [block.head, *self.arms, *(["change"] if len(self.arms) == _TWO else [])]
        rows = [[label, *map(figure, cells), *change(cells)] for label, cells in block.counted.items()]
        return of_cells(title, heads, rows)

    @property
    def sentence(self) -> str:
        """What the last arm is against the base; of one arm, what it takes."""
        told = [
            f"{one.name} {one.verdicts[-1] if one.verdicts else figure(one.instructions[0])}" for one in self.operations
        ]
        against = f" against {self.arms[0]}" if len(self.arms) > 1 else ", instructions"
        return f"{self.arms[-1]}{against}: {'; '.join(told)}"


def figure(value: float | None) -> str:
    """Whole from 100 on, else to two decimals."""
    if value is None:
        return _NONE
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}".rstrip("0").rstrip(".")


def change(cells: Sequence[float | None]) -> list[str]:
    """Of two arms, a cell with their difference; of more, none."""
    if len(cells) != _TWO:
        return []
    before, after = cells
    shown = figure(abs(after - before)) if before is not None and after is not None else "0"
    if shown == "0" or before is None or after is None:
        return [""]
    return [f"{'-' if after < before else '+'}{shown}"]


def count_section(view: CountView, whole: Collection[str] = ()) -> Section:
    """Instructions of each operation by arm, and each arm against the base. whole: operations with all their blocks"""
    notes = [*view.notes, view.unseen]
    blocks = (block for one in view.operations if one.name in whole for block in _of(view, one))
    return [view.table, view.against, *notes, *blocks]


def _of(view: CountView, one: OperationView) -> Iterator[Shown]:
    yield f"\n{one.name}: {one.about}; per {one.per}"
    yield from (f"{arm}: not counted; {why}" for arm, why in one.lacks.items())
    yield from (view.block(block, block.title or "events") for block in one.blocks)


def render_count_markdown(view: CountView) -> str:
    """A line an operation: what each arm takes, and the verdict on each but the base."""
    base, *others = view.arms
    heads = ["operation", *view.arms, *(f"{arm} against {base}" for arm in others)]
    rows = [markdown_row(heads), markdown_row(["---", *["---:"] * len(view.arms), *["---"] * len(others)])]
    rows += [markdown_row([one.name, *map(figure, one.instructions), *one.verdicts]) for one in view.operations]
    facts = ", ".join(f"{name} {value}" for name, value in view.facts.items())
    words = " ".join([f"{view.title}; {facts}.", *view.notes, view.unseen])
    return "\n".join([f"**{view.sentence}**", "", *rows, "", words, ""])
