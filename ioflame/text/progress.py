"""What runs now and how long it will take: a moving line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.progress_bar import ProgressBar

from ioflame.text.columns import escaped
from ioflame.text.terminal import steering_stderr
from ioflame.text.units import format_seconds

__all__ = ("Reporter", "fitted", "shown_path", "terminal_width")


def terminal_width(stream: TextIO) -> int | None:
    """Columns of the terminal that `stream` writes to; None when it writes to none: then lines are left whole."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


# What usually takes less is not spoken of.
_PATIENCE_SECONDS = 3.0
# Columns of a stage's line beside its words: spinner, bar of 20, clock, and a blank after each.
_BESIDE = 32


class _ClockColumn(ProgressColumn):
    """A bar that moves with the clock: a stage is a wait on another process, with a known length."""

    max_refresh = 0.2

    def render(self, task: Task) -> ProgressBar:
        elapsed = task.elapsed or 0.0
        completed = min(elapsed, task.total) if task.total else 0.0
        return ProgressBar(total=task.total, completed=completed, width=20, pulse=task.total is None)


class Reporter:
    """Tells the user, on standard error, what runs; results go to standard output.

    quiet: print nothing but warnings
    keep:  a stage that is over leaves a line with how long it took
    """

    def __init__(self, *, quiet: bool = False, keep: bool = True) -> None:
        self._quiet = quiet
        self._keep = keep
        self._console = Console(file=steering_stderr(), highlight=False, soft_wrap=True)
        self._started = time.monotonic()
        self._live = self._console.is_terminal and not quiet

    @classmethod
    def on_terminal(cls) -> Reporter:
        """One that moves where somebody looks on, leaves nothing, and is quiet elsewhere: for what takes seconds."""
        return cls(quiet=not sys.stderr.isatty(), keep=False)

    def line(self, text: str) -> None:
        """One plain line, with the seconds since the start."""
        if not self._quiet:
            self._write(f"[{time.monotonic() - self._started:4.0f} s] {text}")

    def warn(self, text: str) -> None:
        """A line that is printed even when quiet."""
        self._write(f"warning: {text}")

    def _write(self, text: str) -> None:
        # Stage texts hold paths and brackets, which are no style tags.
        self._console.print(escaped(text), markup=False)

    @contextmanager
    def waits_for(self, what: str) -> Iterator[None]:
        """Says what is waited for, once that lasts longer than it should."""
        timer = threading.Timer(_PATIENCE_SECONDS, self.line, [f"waiting for {what}"])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    @contextmanager
    def stage(self, what: str, expected: float | None = None) -> Iterator[None]:
        """A stage that runs; `expected` in seconds, where it is known."""
        estimate = f" (about {format_seconds(expected)})" if expected else ""
        if not self._live:
            self.line(f"{what}{estimate}")
            yield
            return
        begun = time.monotonic()
        with Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            _ClockColumn(),
            TimeElapsedColumn(),
            TextColumn(estimate.strip(), markup=False),
            console=self._console,
            transient=True,
        ) as bar:
            bar.add_task(fitted(escaped(what), self._console.width - len(estimate)), total=expected)
            yield
        if self._keep:
            self.line(f"{what}: {format_seconds(time.monotonic() - begun)}")


def fitted(what: str, width: int) -> str:
    """`what`, cut so that spinner, bar and clock stay on its line of `width` columns; never below 20."""
    room = max(width - _BESIDE, 20)
    return what if len(what) <= room else what[: room - 1] + "\u2026"


def shown_path(path: Path) -> str:
    """Relative to where the user is, where that is shorter."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
