"""The run directory: the one place where rooms meet.

`run.json` is a `RunRecord`. Each stage reads what earlier stages wrote and replaces only its own files, so that any
stage can be run again alone. A run directory is always new, and nobody else may read it: recordings hold copies of the
target's stacks. `latest` beside it points to the newest.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ground.errors import IoflameError, MeasurementError, UsageError, error_of_system
from ground.results.database_facts import DatabaseFacts
from ground.results.files import Files
from ground.results.record import SCHEMA, RunRecord, Window
from ground.settings import Setting
from ground.system.atomic_files import read_json, write_json, write_whole

_T = TypeVar("_T")


class Run:
    """A run directory being made: its path and its record."""

    def __init__(self, directory: Path, record: RunRecord) -> None:
        self.directory = directory
        self.record = record

    @classmethod
    def create(cls, out: Path, record: RunRecord) -> Run:
        """A new directory `OUT/<time>-<workload>-t<threads>`; UsageError when OUT cannot be written to."""
        run = cls(new_directory(out, f"{record.workload}-t{record.threads}"), record)
        run.save()
        return run

    def path(self, name: str) -> Path:
        return self.directory / name

    def save(self) -> None:
        """Writes `run.json` whole or not at all, so that a reader never sees half a record."""
        write_json(
            self.path(Files.RECORD), {**msgspec.to_builtins(self.record), "database": self.record.database.as_text()}
        )

    def save_windows(self, windows: list[Window], series: list[Window]) -> None:
        """Keeps the windows so far, and in `series.json` their counters second by second, for plots and intervals."""
        self.record.windows = windows
        self.save()
        write_whole(self.path(Files.SERIES), msgspec.json.encode(series) + b"\n")

    def series(self) -> list[Window]:
        """What `save_windows` kept; empty where nothing was."""
        path = self.path(Files.SERIES)
        if not path.exists():
            return []
        return read_json(path, list[Window], "a series of windows")

    def point_latest(self, out: Path | None = None) -> None:
        """Lets `OUT/latest` point to this run, which is in or below OUT; left alone where `latest` is not a link of
        ours."""
        link = (out or self.directory.parent) / "latest"
        if link.exists() and not link.is_symlink():
            return
        partial = link.with_name(f"latest.{os.getpid()}")
        try:
            partial.unlink(missing_ok=True)
            partial.symlink_to(self.directory.relative_to(link.parent))
            partial.replace(link)
        except OSError as error:
            raise error_of_system(error, link) from None


def new_directory(out: Path, name: str) -> Path:
    """A new directory `OUT/<time>-<name>`, numbered where there is one already; UsageError when there can be none."""
    stem = f"{time.strftime('%Y%m%dT%H%M%S')}-{name}"
    try:
        out.mkdir(parents=True, exist_ok=True)
        for suffix in ("", *(f"-{n}" for n in range(2, 100))):
            directory = out / (stem + suffix)
            with contextlib.suppress(FileExistsError):
                directory.mkdir(0o700)
                return directory
    except OSError as error:
        raise _unwritable(out, error) from None
    raise UsageError(f"{out} already holds 99 directories named {stem}", mend=Setting.OUT.to("<another directory>"))


def check_writable(out: Path) -> None:
    """UsageError unless files can be made in `out`. Where it is not there it is not there afterwards, either."""
    import tempfile  # it brings all packers along; who reads runs needs none

    made = [directory for directory in (out, *out.parents) if not directory.exists()]
    try:
        out.mkdir(parents=True, exist_ok=True)
        # A new file that has no name, or none that anybody could know: where others may write, a link may wait for it.
        with tempfile.TemporaryFile(dir=out) as probe:
            probe.write(b"x")
    except OSError as error:
        raise _unwritable(out, error) from None
    finally:
        for directory in made:
            with contextlib.suppress(OSError):
                directory.rmdir()


def _unwritable(out: Path, error: OSError) -> UsageError:
    return UsageError(
        f"{Setting.OUT.to(out)} cannot be written to: {error.strerror}",
        means="a run keeps its files there; nothing was started",
        mend=f"{Setting.OUT.to('<a directory you own>')}, for example {Setting.OUT.to('$HOME/ioflame-runs')}",
    )


def open_run(directory: Path) -> Run:
    """The run in `directory`; UsageError when there is none, MeasurementError when its record is broken or of another
    schema, or where it holds names that nobody hashes any more."""
    path = directory / Files.RECORD
    try:
        path.stat()
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}",
            means=f"{directory} is no run directory: each has its record in {Files.RECORD}",
            mend=f"give the directory of a run, such as {shlex.quote(_nearest_run(directory))}",
        ) from None
    if (directory / Files.SALT).exists() and _is_abandoned(directory):
        raise MeasurementError(
            f"{directory} is of an ioflame attach --redact that was killed: names in it are not hashed",
            means="the next ioflame attach with the same --out removes what holds any",
            mend=shlex.join(["rm", "-r", str(directory)]),
        )
    record = read_record(path)
    if record.schema != SCHEMA:
        raise MeasurementError(f"{path} has schema {record.schema}; this ioflame reads schema {SCHEMA}")
    return Run(directory, record)


def _is_abandoned(directory: Path) -> bool:
    from ground.results.redaction import is_abandoned  # it locks, hashes and knows processes: of few runs

    return is_abandoned(directory)


def read_record(path: Path) -> RunRecord:
    """Of any schema. MeasurementError as `read_json` has it."""
    what = f"a run record of schema {SCHEMA}"
    found = read_json(path, dict[str, Any], what)
    try:
        text = msgspec.convert(found.pop("database", {}), dict[str, str])
        record = msgspec.convert(found, RunRecord)
        record.database = DatabaseFacts.of_text(text)
    except ValueError as error:  # msgspec's are such
        raise MeasurementError(f"{path} is not {what}: {error}") from None
    return record


def _nearest_run(directory: Path) -> str:
    """The run that may have been meant: of a like name, or the latest in `directory` or beside it, or by default."""
    import difflib

    beside = [] if directory.exists() else [path.parent.name for path in directory.parent.glob(f"*/{Files.RECORD}")]
    for name in difflib.get_close_matches(directory.name, beside, 1):
        return str(directory.with_name(name))
    for place in (directory, directory.parent):
        if (place / "latest" / Files.RECORD).is_file():
            return str(place / "latest")
    return "runs/latest"


def read_or_none(path: Path, reader: Callable[[Path], _T]) -> _T | None:
    """None where there is no file, or none that can be read: a check, or its own part, says so."""
    with contextlib.suppress(IoflameError):
        return reader(path)
    return None
