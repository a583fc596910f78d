"""The line of a stage that runs, on a terminal: it moves with the clock, and is gone when the stage is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from rich.console import Console, RenderableType
from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.progress_bar import ProgressBar
from rich.text import Text

from ground.text.columns import escaped
from ground.text.steps import Steps

# Columns of a stage's line beside its words: spinner, bar of 20, clock, and a blank after each.
_BESIDE = 32


class _ClockColumn(ProgressColumn):
    """A bar that moves with the clock: a stage is a wait on another process, with a known length, or a download."""

    max_refresh = 0.2

    def render(self, task: Task) -> ProgressBar:
        elapsed = task.elapsed or 0.0
        completed = task.completed or (min(elapsed, task.total) if task.total else 0.0)
        return ProgressBar(total=task.total, completed=completed, width=20, pulse=task.total is None)


class _WordsColumn(ProgressColumn):
    """Words that change with the clock."""

    max_refresh = 0.5

    def __init__(self, words: Callable[[], str]) -> None:
        super().__init__()
        self._words = words

    def render(self, task: Task) -> Text:  # noqa: ARG002
        return Text(self._words())


class _Below(Progress):
    """A bar below a text that may change."""

    def __init__(self, above: Callable[[], str], *columns: ProgressColumn, **options: Any) -> None:
        self._text = above
        super().__init__(*columns, **options)

    def get_renderables(self) -> Iterator[RenderableType]:
        if text := self._text():
            yield Text(text, no_wrap=True, overflow="ellipsis")
        yield from super().get_renderables()


class MovingLine:
    """stream: a terminal, as it takes escape sequences

    above: text that stands above the line while a stage runs
    """

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False, soft_wrap=True)
        self.above = ""

    def write(self, text: str) -> None:
        """A line above it, which stays."""
        # Texts hold paths and brackets, which are no style tags.
        self._console.print(escaped(text), markup=False)

    @contextmanager
    def moving(
        self, what: str, estimate: str, expected: float | None, steps: Steps | None = None
    ) -> Iterator[Callable[[float, float], None]]:
        """Within: a bar, full after `expected` seconds, and the time that went by; of a step what is left of all.

        What it gives takes how much is done, and of how much: from then on the bar shows that.
        """
        with _Below(
            self._above,
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            _ClockColumn(),
            TimeElapsedColumn(),
            _WordsColumn(lambda: str(steps) if steps is not None else estimate),
            console=self._console,
            transient=True,
            # What is measured has the CPUs to share with it.
            refresh_per_second=4,
        ) as bar:
            task = bar.add_task(
                fitted(escaped(what), self._console.width - len(estimate if steps is None else str(steps))),
                total=expected,
            )
            yield lambda done, whole: bar.update(task, completed=done, total=whole)

    def _above(self) -> str:
        """As much of it as leaves the terminal a line for the bar."""
        return "\n".join(escaped(self.above).splitlines()[: max(self._console.height - 2, 0)])


def fitted(what: str, width: int) -> str:
    """`what`, cut so that spinner, bar and clock stay on its line of `width` columns; never below 20."""
    room = max(width - _BESIDE, 20)
    return what if len(what) <= room else what[: room - 1] + "\u2026"
