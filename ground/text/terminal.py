"""The two streams that people read: what is printed there cannot steer a terminal, and one that cannot be written to is
no traceback.

Names of symbols, threads and files come from whoever made them. Escape sequences in them would move the cursor, set the
window's title or answer for the user.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TextIO, cast

from ground.errors import MeasurementError
from ground.text.columns import escaped


class ReaderGoneError(Exception):
    """Who read our standard output went away (`| head`): nobody wants the rest."""


class _Stream:
    """A stream of text whose control characters are escaped; everything else of it is the stream's own.

    paint: puts colours into what is escaped already
    """

    def __init__(self, stream: TextIO, paint: Callable[[str], str] | None = None) -> None:
        self.stream = stream
        self._paint = paint

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        shown = escaped(text)
        with self._failing():
            self.stream.write(shown if self._paint is None else self._paint(shown))
        return len(text)

    def flush(self) -> None:
        with self._failing():
            self.stream.flush()

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            # What is left in its buffer would fail again when the interpreter ends.
            with contextlib.suppress(OSError):
                number = self.stream.fileno()
                descriptor = os.open(os.devnull, os.O_WRONLY)
                os.dup2(descriptor, number)
                os.close(descriptor)
            self._failed(error)

    def _failed(self, error: OSError) -> None:
        if isinstance(error, BrokenPipeError):
            raise ReaderGoneError from None
        raise MeasurementError(
            f"standard output cannot be written to: {error.strerror}",
            means="the result is not shown; files that were written are kept",
            mend="the same command with its output elsewhere",
        ) from None


class _Errors(_Stream):
    """Standard error: its failure cannot be reported anywhere, and ends no measurement."""

    def _failed(self, error: OSError) -> None:
        pass


class _Steering(_Errors):
    """Standard error for the moving line, which is made of escape sequences; its words are escaped before."""

    def write(self, text: str) -> int:
        with self._failing():
            self.stream.write(text)
        return len(text)


def steering_stderr() -> TextIO:
    """Standard error as it takes escape sequences of our own."""
    stream = sys.stderr.stream if isinstance(sys.stderr, _Stream) else sys.stderr
    return cast(TextIO, _Steering(stream))


# What a terminal has, as rich calls it.
Colours = Literal["STANDARD", "EIGHT_BIT", "TRUECOLOR"]


def colours_of(stream: TextIO, environment: Mapping[str, str] = os.environ) -> Colours | None:
    """The colours that text for `stream` may have, None for none.

    NO_COLOR and CLICOLOR=0 turn them off; FORCE_COLOR and CLICOLOR_FORCE turn them on where no terminal is.
    """
    term = environment.get("TERM", "")
    forced = any(environment.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE"))
    shown = stream.isatty() and term not in ("", "dumb", "unknown") and environment.get("CLICOLOR") != "0"
    if environment.get("NO_COLOR") or not (forced or shown):
        return None
    if environment.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return "TRUECOLOR"
    return "EIGHT_BIT" if "256color" in term else "STANDARD"


@contextlib.contextmanager
def on_terminal(paint: Callable[[str, Colours], str] | None = None) -> Iterator[None]:
    """Within: standard output and standard error are streams of this module.

    paint: puts colours into text for standard output, where it takes any
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            _hold(name)
    # A bar or a name that the user's encoding lacks is printed as `?`, and is no end of a measurement.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    colours = colours_of(sys.stdout)
    out = _Stream(sys.stdout, None if paint is None or colours is None else lambda text: paint(text, colours))
    err = _Errors(sys.stderr)
    with contextlib.redirect_stdout(cast(TextIO, out)), contextlib.redirect_stderr(cast(TextIO, err)):
        yield


def _hold(name: str) -> None:
    """Takes the number of a stream that was closed (the lowest that is free), so that no file of ours gets it, and with
    it what is printed. Writing fails as before."""
    descriptor = os.open(os.devnull, os.O_RDONLY)
    setattr(sys, name, open(descriptor, "r" if name == "stdin" else "w", encoding="utf-8", closefd=False))  # noqa: SIM115
