"""A program of the tests that carries out orders: a line in, a line out."""

from __future__ import annotations

import subprocess
from pathlib import Path

__all__ = ("OrderedProgram",)


class OrderedProgram:
    """Started, and ready for its first order."""

    def __init__(self, *argv: str | Path) -> None:
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        assert self.answer() == "ready"

    @property
    def pid(self) -> int:
        return self._process.pid

    def order(self, words: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(words + "\n")

    def answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()
