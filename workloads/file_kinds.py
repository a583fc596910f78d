"""Files of a directory by what their names say: an engine's patterns, or a service's."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from ground.errors import UsageError, error_of_system
from ground.results.jobs import Jobs
from ground.results.stored_files import StoredFile, StoredFiles

_OTHER = "other"


class FilesReader(Protocol):
    """Who knows the files of a database: an engine, or a service's description. As `Engine` describes them."""

    def stored_files(self, directory: Path) -> StoredFiles: ...

    def stored_files_of_window(self, before: StoredFiles, after: StoredFiles) -> StoredFiles: ...

    def jobs(self, directory: Path, begin: float, end: float) -> Jobs | None: ...


def kind_of(name: str, kinds: Mapping[str, str]) -> str:
    """What a file is: by the first pattern that its whole name below the directory fits, "other" where none does."""
    return next((kind for pattern, kind in kinds.items() if re.fullmatch(pattern, name)), _OTHER)


def files_below(directory: Path, kinds: Mapping[str, str]) -> StoredFiles:
    """Every regular file below a directory, by name; links to directories are followed.

    UsageError where `directory` is none, or may not be read; a folder below it that may not be read is a note.
    """
    notes: list[str] = []
    files = tuple(StoredFile(name, kind_of(name, kinds)) for name in sorted(names_below(directory, notes)))
    return StoredFiles(files, tuple(notes))


def names_below(directory: Path, notes: list[str]) -> Iterator[str]:
    """Names of regular files, "/" between folders; UsageError where `directory` is none.

    notes: gets a line for each folder that may not be read.
    """
    if not directory.is_dir():
        raise UsageError(
            f"{directory} is not a directory",
            means="it holds no database",
            mend=f"ls -la {shlex.quote(str(directory.parent))}   (to find it)",
        )
    seen = set()
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            status = (directory / folder).stat()
            entries = list(os.scandir(directory / folder))
        except FileNotFoundError:
            continue  # a database in use deletes folders
        except OSError as error:
            if not folder:
                raise error_of_system(error, directory) from None
            notes.append(f"{directory / folder}: {error.strerror}: its files are not known")
            continue
        # By its inode: a link to a folder above would never end.
        if (status.st_dev, status.st_ino) in seen:
            continue
        seen.add((status.st_dev, status.st_ino))
        for entry in entries:
            with contextlib.suppress(OSError):  # a link to itself
                if entry.is_dir():
                    waiting.append(f"{folder}{entry.name}/")
                elif entry.is_file():
                    yield f"{folder}{entry.name}"


def joined(before: StoredFiles, after: StoredFiles) -> StoredFiles:
    """Files of two readings, each once, as the later one has them."""
    files = {file.name: file for file in (*before.files, *after.files)}
    return StoredFiles(
        tuple(files[name] for name in sorted(files)), tuple(dict.fromkeys((*before.notes, *after.notes)))
    )


def with_kinds(files: StoredFiles, kinds: Mapping[str, str]) -> StoredFiles:
    """The same, with a kind by its name for each that had none."""
    told = (replace(file, kind=kind_of(file.name, kinds)) if file.kind == _OTHER else file for file in files.files)
    return replace(files, files=tuple(told))
