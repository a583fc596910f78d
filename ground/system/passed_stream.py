"""An output stream of a command that passes through us, byte for byte, while its lines are read."""

from __future__ import annotations

import os
import re
import select
import threading
import time
from collections.abc import Callable

_CHUNK = 1 << 16
# A longer line is no line of progress: what of it is kept is its end.
_LONGEST = 1 << 12
# Progress that is written over itself ends with a carriage return.
_ENDS = re.compile(rb"[\r\n]")


class PassedStream:
    """A pipe whose one end a command has as its output; what comes out of the other goes where ours goes.

    given: the end for the command
    """

    def __init__(self, descriptor: int, seen: Callable[[str, int], None]) -> None:
        """descriptor: of ours, 1 or 2; seen: gets each line, and the moment it came (CLOCK_MONOTONIC ns)"""
        self._descriptor, self._seen = descriptor, seen
        self._source, self.given = os.pipe()
        self._given_open = True
        self._begun_ns = 0
        self._line = b""
        self._thread = threading.Thread(target=self._pass, name="passed-stream", daemon=True)

    def start(self) -> None:
        """Once the command has its end: ours of it is closed, so that the end of file is seen."""
        self._close_given()
        self._thread.start()

    def finish(self, seconds: float) -> None:
        """All of it has come once the command has ended, and what it started. seconds: to wait for it at most"""
        if self._thread.ident is None:  # it was never started
            self._close_given()
            os.close(self._source)
            return
        self._thread.join(seconds)

    def _close_given(self) -> None:
        if self._given_open:
            self._given_open = False
            os.close(self.given)

    def _pass(self) -> None:
        try:
            while chunk := os.read(self._source, _CHUNK):
                moment = time.monotonic_ns()
                self._write(chunk)
                self._take(chunk, moment)
        except OSError:
            pass  # nobody reads ours any more: the command's own next write fails
        finally:
            os.close(self._source)

    def _write(self, chunk: bytes) -> None:
        left = memoryview(chunk)
        while left:
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError:  # whoever gave it to us has made it so
                select.select([], [self._descriptor], [])

    def _take(self, chunk: bytes, moment: int) -> None:
        *lines, rest = _ENDS.split(chunk)
        for number, line in enumerate(lines):
            whole = self._line + line if number == 0 else line
            # Of a line that is complete only now, the moment is that of its last byte.
            came = self._begun_ns if number == 0 and not line else moment
            if whole:
                self._seen(whole[-_LONGEST:].decode("utf-8", "replace"), came)
            self._line = b""
        if rest:
            self._line, self._begun_ns = (self._line + rest)[-_LONGEST:], moment
