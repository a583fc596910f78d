"""Files of a directory by what their names say: an engine's patterns, or a service's."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from ground.errors import UsageError, error_of_system
from ground.results.stored_files import StoredFile, StoredFiles

__all__ = ("files_below", "joined", "kind_of", "names_below")

_OTHER = "other"


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
    """Names of regular files, "/" between folders. notes: gets a line for each folder that may not be read."""
    if not directory.is_dir():
        raise UsageError(f"{directory} is no directory", means="it holds no database")
    seen = set()
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            # By its inode: a link to a folder above would never end.
            status = (directory / folder).stat()
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(directory / folder) as entries:
                for entry in entries:
                    if entry.is_dir():
                        waiting.append(f"{folder}{entry.name}/")
                    elif entry.is_file():
                        yield f"{folder}{entry.name}"
        except FileNotFoundError:
            continue  # a database at work deletes folders
        except OSError as error:
            if not folder:
                raise error_of_system(error, directory) from None
            notes.append(f"{directory / folder}: {error.strerror}: its files are not known")


def joined(before: StoredFiles, after: StoredFiles) -> StoredFiles:
    """Files of two readings, each once, as the later one has them."""
    files = {file.name: file for file in (*before.files, *after.files)}
    return StoredFiles(
        tuple(files[name] for name in sorted(files)), tuple(dict.fromkeys((*before.notes, *after.notes)))
    )
