"""A command line of the user's that was watched: its directory holds the runs, one for each benchmark of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from ground.results.files import Files
from ground.results.run import new_directory
from ground.system.atomic_files import read_json, write_json
from ground.text.file_name import file_name


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


class CommandRun:
    """The directory of a command."""

    def __init__(self, directory: Path, record: CommandRecord) -> None:
        self.directory = directory
        self.record = record

    @classmethod
    def create(cls, out: Path, program: str, ioflame: str, argv: list[str]) -> CommandRun:
        """A new directory `OUT/<time>-run-<program>`; UsageError when OUT cannot be written to."""
        created = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        named = file_name(program)
        run = cls(new_directory(out, f"run-{named}"), CommandRecord(ioflame, created, argv))
        run.save()
        return run

    def save(self) -> None:
        write_json(self.directory / Files.COMMAND, msgspec.to_builtins(self.record))

    @staticmethod
    def is_in(directory: Path) -> bool:
        return (directory / Files.COMMAND).exists()

    @classmethod
    def open(cls, directory: Path) -> CommandRun:
        """MeasurementError where it is broken, or of another schema."""
        return cls(directory, read_json(directory / Files.COMMAND, CommandRecord, "the record of a command"))
