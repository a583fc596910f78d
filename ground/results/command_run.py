"""A command line of the user's that was watched: its directory holds the runs, one for each benchmark of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ground.results.files import Files
from ground.results.run import new_directory
from ground.results.study import StudyRun
from ground.text.file_name import file_name

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass
class CommandRecord:
    """`command.json`.

    argv:     as it was given; added: words that were added to it
    runs:     directories of what was watched, in its order
    left_out: what was not, and why
    end:      how it ended; "" while it runs
    """

    ioflame: str
    created: str
    argv: list[str]
    added: list[str] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    end: str = ""
    schema: int = 1


class CommandRun(StudyRun[CommandRecord]):
    """The directory of a command."""

    file = Files.COMMAND
    form = CommandRecord
    what = "a command"

    @classmethod
    def begin(cls, out: Path, program: str, ioflame: str, argv: list[str]) -> Self:
        """A new directory `OUT/<time>-run-<program>`; UsageError when OUT cannot be written to."""
        created = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        run = cls(new_directory(out, f"run-{file_name(program)}"), CommandRecord(ioflame, created, argv))
        run.save()
        return run
