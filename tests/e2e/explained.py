"""What `ioflame explain` prints, beside what a run was started with."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from ground.results.record import RunRecord
from ioflame.cli import main


def command_lines(out: str) -> list[list[str]]:
    """Those that `explain` printed."""
    text = "\n".join(line for line in out.splitlines() if not line.startswith("#")).replace("\\\n", " ")
    return [shlex.split(line) for line in text.splitlines() if line.strip()]


def explained(*words: str | Path) -> list[list[str]]:
    """The command lines that `explain` prints with these words."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(["explain", *map(str, words)]) == 0
    return command_lines(out.getvalue())


def comparable(argv: Sequence[str]) -> list[str]:
    """Without what every run has for itself: the seed, its directory, and the memory group that it is in."""
    words = [re.sub(r"^(--report_?file=).*/", r"\1", word) for word in argv[4 if argv[0] == "sh" else 0 :]]
    return [word for word in words if not word.startswith("--seed=")]


def assert_explained(record: RunRecord, *words: str | Path) -> None:
    """Among what `explain` prints with these words is the command line of the run that was made with them.

    The workload's length is left out: it is longer on a busy host, and another moment is as busy as another.
    """

    def without_length(argv: Sequence[str]) -> list[str]:
        return [word for word in comparable(argv) if not word.startswith("--duration=")]

    (ran,) = (command.argv for command in record.commands if command.pid == record.pid)
    assert len(without_length(ran)) == len(comparable(ran)) - 1
    assert without_length(ran) in [without_length(argv) for argv in explained(*words)]
