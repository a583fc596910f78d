"""Counts as they are shown, on the screen and on the page: figures per operation, by arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

NOT_COUNTED = (
    "Not counted: the kernel, caches, real branch prediction, the width of vector instructions, waiting, contention."
)
NOT_COUNTED_BY_PROCESSOR = "Not counted: the kernel, caches, waiting, contention; locked instructions, categories."
_NONE = "-"
# Arms whose difference has a column.
_TWO = 2


@dataclass(frozen=True)
class Block:
    """A table: rows by label, of each arm's figure, None where it has none. stacks: its rows add up to a whole"""

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

    def table(self, block: Block) -> list[list[str]]:
        """Heads and the rows that have counts, of two arms with the change; empty where none has."""
        heads = [block.title, *self.arms, *(["change"] if len(self.arms) == _TWO else [])]
        rows = [[label, *map(figure, cells), *change(cells)] for label, cells in block.counted.items()]
        return [heads, *rows] if rows else []

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
