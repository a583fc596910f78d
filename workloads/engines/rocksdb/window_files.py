"""The files of a database over a window: its edits between two readings, and what LOG says of the same time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from ground.results.stored_files import StoredFile, StoredFiles
from workloads.engines.rocksdb.log_events import LoggedTable, Running, log_texts, logged_tables, moves, running
from workloads.engines.rocksdb.manifest import Edit, Edits, Version
from workloads.engines.rocksdb.stored_files import (
    DEFAULT_FAMILY,
    Database,
    DatabaseFiles,
    Form,
    LogPlace,
    file_name,
    number_of,
)
from workloads.file_kinds import joined, kind_of

# So much of LOG before the window is read with it: jobs that ran at its beginning say there what they are.
_BEFORE = 1 << 20
_TABLE = "sst"


class _Every:
    """Holds any number."""

    def __contains__(self, number: object) -> bool:
        return True


_EVERY = _Every()


@dataclass
class _History:
    """What happened to a database's table and blob files within a window, by their numbers.

    version: at its end; begun: levels at its beginning; made_by: of what was made in it; logged, moved_at: as LOG has
    them, the second in Unix seconds; running: jobs at its end
    """

    version: Version
    begun: dict[int, int]
    made_by: dict[int, str] = field(default_factory=dict)
    logged: dict[int, LoggedTable] = field(default_factory=dict)
    running: Running = field(default_factory=Running)
    moved_at: dict[int, float] = field(default_factory=dict)


def files_of_window(before: StoredFiles, after: StoredFiles, form: Form) -> StoredFiles:
    """Every file that was there at any moment of the window, also those that were made and deleted in it.

    level: at its end, or the last it had; moved_from, moved_at: of a file that moved in it; made_by: of one that was
    made in it, where the MANIFEST or LOG says it.
    """
    both = joined(before, after)
    if not isinstance(before, DatabaseFiles) or not isinstance(after, DatabaseFiles):
        return both  # readings that were kept as files alone
    notes = list(both.notes)
    files = {file.name: file for file in both.files}
    for file in before.files:
        # A file of which it was read while it was there.
        if file.sections and not files[file.name].sections:
            files[file.name] = replace(files[file.name], sections=file.sections)
    for prefix in sorted({*before.databases, *after.databases}):
        history = _history(before.databases.get(prefix), after.databases.get(prefix), form, before.at, notes)
        named = {number: name for name in files if (number := number_of(name, prefix)) is not None}
        for number in {*named, *history.version.files, *history.version.gone, *history.made_by}:
            name = named.get(number) or prefix + file_name(number, history.version, form)
            file = files.get(name) or StoredFile(name, kind_of(name.removeprefix(prefix), form.kinds))
            files[name] = _told(file, number, history, before.at, after.at)
    return StoredFiles(tuple(files[name] for name in sorted(files)), tuple(notes))


def _told(file: StoredFile, number: int, history: _History, begin: float, end: float) -> StoredFile:
    """A table or blob file with what its history says."""
    version, logged = history.version, history.logged.get(number)
    table = version.files.get(number) or version.gone.get(number)
    if table is None and logged is None and file.kind == _TABLE and not file.sections:
        return _being_written(file, number, history.running)
    level = table.level if table else file.level
    begun = history.begun.get(number)
    moved = begun if begun is not None and begun != level else None
    at = history.moved_at.get(number)
    return replace(
        file,
        level=logged.level if level is None and logged else level,
        column_family=version.family_of(number) or file.column_family or (logged.family if logged else ""),
        sections=file.sections or (logged.sections if logged else ()),
        moved_from=moved,
        moved_at=(at - begin) / (end - begin) if moved is not None and at is not None and begin < at < end else None,
        made_by=history.made_by.get(number, ""),
    )


def _being_written(file: StoredFile, number: int, running: Running) -> StoredFile:
    """A file that no edit has yet, and no event: of a flush by its number, else of a compaction where one runs."""
    if number in running.flushed:
        return replace(file, level=0, made_by="flush")
    if not running.levels:
        return file
    return replace(file, level=min(running.levels) if len(running.levels) == 1 else None, made_by="compaction")


def _history(before: Database | None, after: Database | None, form: Form, begin: float, notes: list[str]) -> _History:
    """begin: of the window, Unix seconds. notes: gets what was lost"""
    empty = Version({DEFAULT_FAMILY: form.default_family})
    version = (before.version if before else empty).copy(kept=_EVERY)
    history = _History(version, {number: table.level for number, table in version.files.items()})
    if after is not None:
        whole = before is None
        if before is not None and before.manifest == after.manifest:
            whole = _replay(history, Edits(after.manifest, before.position, after.position))
        elif before is not None:
            # A new MANIFEST begins with all files that there are: what the old one said last is in it alone.
            whole = _replay(history, Edits(before.manifest, before.position))
        if before is None or before.manifest != after.manifest:
            # It is numbered as files are: those of a higher number were made after its beginning.
            _replay(history, Edits(after.manifest, 0, after.position), 0 if whole else _number_of(after.manifest))
        if not whole:
            notes.append(
                f"{before.manifest if before else after.manifest} was deleted within the window: of files that were "
                "made and deleted in it before that, some may lack"
            )
        _settle(version, after.version)
    _read_logs(history, before.log if before else None, after.log if after else None, begin)
    return history


def _number_of(manifest: Path) -> int:
    return int(manifest.name.rpartition("-")[2])


def _replay(history: _History, edits: Iterable[Edit], since: int = 0) -> bool:
    """False where the MANIFEST is gone. since: files from this number on were made by the edit that has them first"""
    version = history.version
    try:
        for edit in edits:
            new = [new.number for new in edit.added if not version.knows(new.number)]
            made = [number for number in (*new, *edit.blobs) if number >= since]
            history.made_by |= dict.fromkeys(made, edit.made_by)
            version.apply(edit)
    except OSError:
        return False
    return True


def _settle(version: Version, last: Version) -> None:
    """What was lost of the edits between is made good: at the end there is what the last reading has."""
    for number in version.files.keys() - last.files.keys():
        version.gone[number] = version.files.pop(number)
    version.files.update(last.files)
    version.families.update(last.families)
    version.blobs.update(last.blobs)


def _read_logs(history: _History, before: LogPlace | None, after: LogPlace | None, begin: float) -> None:
    for text in _log_texts(before, after, begin):
        history.running = running(text)  # of the last process
        for table in logged_tables(text).values():
            known = history.version.knows(table.number)
            # Not an earlier file of the same number, from another process's LOG.
            if table.at >= begin or known:
                history.logged[table.number] = table
            if table.at >= begin and (table.made_by or not known):
                history.made_by[table.number] = table.made_by
        for move in moves(text):
            if move.at >= begin:
                history.moved_at.setdefault(move.number, move.at)


def _log_texts(before: LogPlace | None, after: LogPlace | None, begin: float) -> Iterator[str]:
    """What LOG got within the window, with a part of what it had before; each process has one of its own."""
    if after is None:
        return
    skip = {before.inode: max(0, before.size - _BEFORE)} if before else {}
    yield from log_texts(after.path, begin, skip)
