"""What runs now and how long it will take: a moving line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from ground.text.columns import escaped
from ground.text.steps import Steps
from ground.text.terminal import steering_stderr
from ground.text.units import format_seconds


def terminal_width(stream: TextIO) -> int | None:
    """Columns of the terminal that `stream` writes to; None when it writes to none: then lines are left whole."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


# Takes how much has come, and of how much, MB.
Arrived = Callable[[float, float], None]

# What usually takes less is not spoken of.
_PATIENCE_SECONDS = 3.0


class Reporter:
    """Tells the user, on standard error, what runs; results go to standard output.

    quiet: print only warnings
    keep:  a stage that is over leaves a line with how long it took
    moves: the line moves on a terminal; not where others write to it meanwhile
    """

    def __init__(self, *, quiet: bool = False, keep: bool = True, moves: bool = True) -> None:
        self.quiet = quiet
        self._keep = keep
        self._started = time.monotonic()
        self._beside = self._left = False
        self._steps: Steps | None = None
        self._stream = steering_stderr()
        self._live = None
        if self._stream.isatty() and not quiet and moves:
            # rich takes 50 ms of CPU to import: only where somebody looks on.
            from ground.text.moving_line import MovingLine

            self._live = MovingLine(self._stream)

    @classmethod
    def on_terminal(cls) -> Reporter:
        """One that moves where somebody looks on, leaves nothing, and is quiet elsewhere: for what takes seconds."""
        return cls(quiet=not sys.stderr.isatty(), keep=False)

    def plan(self, steps: Iterable[tuple[str, float]]) -> None:
        """What a run will do: stages that are such steps say which they are, and how long all of it takes yet.

        steps: name and seconds of each
        """
        self._steps = Steps(list(steps))

    def line(self, text: str) -> None:
        """One plain line, with the seconds since the start."""
        if not self.quiet:
            self._write(f"[{time.monotonic() - self._started:4.0f} s] {text}")

    def show(self, text: str) -> None:
        """Text that what is printed at the end replaces: on a terminal it stands above the moving line until then."""
        if self._live is None:
            self.line(text)
        else:
            self._live.above = text

    def keep_shown(self) -> None:
        """Nothing will replace it."""
        if self._live is not None and self._live.above:
            self._live.write(self._live.above)
            self._live.above = ""

    def warn(self, text: str) -> None:
        """A line that is printed even when quiet."""
        self._write(f"warning: {text}")

    @contextmanager
    def beside_others(self) -> Iterator[None]:
        """Within: others write to our stream as well, and may be in the middle of a line, or have written one that
        they will write over (`... finished 1000 ops\\r`)."""
        self._beside, self._left = True, False
        try:
            yield
        finally:
            self._left = True  # what they wrote last is there still

    def _line_begin(self) -> str:
        """What leads to the beginning of an empty line, wherever the cursor is."""
        if not self._beside:
            return ""
        self._beside = not self._left
        width = terminal_width(self._stream)
        # As many blanks as a terminal has columns end in its next line, or make the one that they began empty.
        return "\n" if width is None else " " * width + "\r"

    def _write(self, text: str) -> None:
        if self._live is None:
            # One write: the timer thread of `waits_for` prints here too.
            self._stream.write(f"{self._line_begin()}{escaped(text)}\n")
            self._stream.flush()
        else:
            self._live.write(text)

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
    def stage(self, what: str, expected: float | None = None, step: str = "") -> Iterator[Arrived]:
        """A stage that runs; `expected` in seconds, where it is known. What it gives is told how far it is.

        step: of those that were planned
        """
        steps = self._steps if self._steps is not None and self._steps.begin(step, expected) else None
        said = [f"about {format_seconds(expected)}"] if expected else []
        if self._live is None:
            said += [str(steps)] if steps else []
            self.line(what + f" ({'; '.join(said)})" * bool(said))
            yield self._arriving(self._quarters(), steps)
            return
        begun = time.monotonic()
        with self._live.moving(what, "".join(f"({one})" for one in said), expected, steps) as arrived:
            yield self._arriving(arrived, steps)
        if self._keep:
            self.line(f"{what}: {format_seconds(time.monotonic() - begun)}")

    def _arriving(self, shown: Arrived, steps: Steps | None) -> Arrived:
        """What shows how far a stage is; a step's time left follows from how long that took."""
        begun = time.monotonic()

        def arrived(done: float, whole: float) -> None:
            if steps is not None and done:
                steps.expect((time.monotonic() - begun) * max(whole / done - 1, 0))
            shown(done, whole)

        return arrived

    def _quarters(self) -> Arrived:
        """A line for each quarter that has come, where none moves."""
        said = 0

        def arrived(done: float, whole: float) -> None:
            nonlocal said
            if (quarters := int(4 * done / whole)) > said:
                said = quarters
                left = f" ({self._steps})" if self._steps is not None and self._steps.place else ""
                self.line(f"{done:.0f} of {whole:.0f} MB{left}")

        return arrived


def shown_path(path: Path) -> str:
    """Relative to where the user is, where that is shorter."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
