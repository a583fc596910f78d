"""The line of a stage that runs, on a terminal: it moves with the clock, and is gone when the stage is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.progress_bar import ProgressBar

from ground.text.columns import escaped

# Columns of a stage's line beside its words: spinner, bar of 20, clock, and a blank after each.
_BESIDE = 32


class _ClockColumn(ProgressColumn):
    """A bar that moves with the clock: a stage is a wait on another process, with a known length, or a download."""

    max_refresh = 0.2

    def render(self, task: Task) -> ProgressBar:
        elapsed = task.elapsed or 0.0
        completed = task.completed or (min(elapsed, task.total) if task.total else 0.0)
        return ProgressBar(total=task.total, completed=completed, width=20, pulse=task.total is None)


class MovingLine:
    """stream: a terminal, as it takes escape sequences"""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False, soft_wrap=True)

    def write(self, text: str) -> None:
        """A line above it, which stays."""
        # Texts hold paths and brackets, which are no style tags.
        self._console.print(escaped(text), markup=False)

    @contextmanager
    def moving(self, what: str, estimate: str, expected: float | None) -> Iterator[Callable[[float, float], None]]:
        """Within: a bar, full after `expected` seconds, and the time that went by.

        What it gives takes how much is done, and of how much: from then on the bar shows that.
        """
        with Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            _ClockColumn(),
            TimeElapsedColumn(),
            TextColumn(estimate.strip(), markup=False),
            console=self._console,
            transient=True,
        ) as bar:
            task = bar.add_task(fitted(escaped(what), self._console.width - len(estimate)), total=expected)
            yield lambda done, whole: bar.update(task, completed=done, total=whole)


def fitted(what: str, width: int) -> str:
    """`what`, cut so that spinner, bar and clock stay on its line of `width` columns; never below 20."""
    room = max(width - _BESIDE, 20)
    return what if len(what) <= room else what[: room - 1] + "\u2026"
