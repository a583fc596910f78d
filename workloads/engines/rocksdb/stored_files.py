"""The files of RocksDB's databases, and of LevelDB's: levels by the MANIFEST, parts by the tables' ends, jobs by LOG.

Nothing is locked or written: a database in use keeps running meanwhile. So names are listed first and the MANIFEST is
read after them, and files that it has beyond the list are looked for once more.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ground.errors import IoflameError
from ground.results.stored_files import StoredFile, StoredFiles
from workloads.engines.rocksdb.manifest import Edit, Edits, Version, current_manifest
from workloads.engines.rocksdb.options import newest_options
from workloads.engines.rocksdb.table_sections import table_sections
from workloads.file_kinds import kind_of, names_below

# Tables, and blobs; both are numbered from one counter.
_NUMBERED = re.compile(r"(\d+)\.(sst|ldb|blob)")
_CURRENT, _LOG = "CURRENT", "LOG"
DEFAULT_FAMILY = 0


@dataclass(frozen=True)
class Form:
    """What differs between engines. kinds: of files, by patterns; default_family: its name; suffix: of a table file"""

    kinds: Mapping[str, str]
    default_family: str
    suffix: str


@dataclass(frozen=True)
class LogPlace:
    """A LOG as it was: its path, its inode (it is renamed at each start), and its size, B."""

    path: Path
    inode: int
    size: int


@dataclass(frozen=True)
class Database:
    """A database at the moment of a reading.

    folder: its own; prefix: the same below the directory that was read, "" or with "/" at its end
    position: up to where `manifest` was read, B; log: None where it has none
    """

    folder: Path
    prefix: str
    manifest: Path
    position: int
    version: Version
    log: LogPlace | None


@dataclass(frozen=True)
class DatabaseFiles(StoredFiles):
    """A reading. databases: by their prefixes; at: when it was made, Unix seconds"""

    databases: Mapping[str, Database] = field(default_factory=dict)
    at: float = 0.0


def database_prefixes(names: Iterable[str]) -> list[str]:
    """Of the databases among files by their names below a directory: "", or with "/" at the end."""
    return [name.removesuffix(_CURRENT) for name in names if name.rpartition("/")[2] == _CURRENT]


def file_name(number: int, version: Version, form: Form) -> str:
    """As the engine names a table file, or a blob file."""
    return f"{number:06}.{'blob' if number in version.blobs else form.suffix}"


def number_of(name: str, prefix: str) -> int | None:
    """Of a table's or blob's file of the database with this prefix; None for any other name."""
    match = _NUMBERED.fullmatch(name.removeprefix(prefix)) if name.startswith(prefix) else None
    return int(match[1]) if match else None


def read_database_files(directory: Path, form: Form) -> DatabaseFiles:
    """All files below a directory, which is a database or holds some; UsageError where it is none or may not be read.

    A database whose MANIFEST cannot be read is a note, and its files have no level.
    """
    at = time.time()
    notes: list[str] = []
    names = sorted(names_below(directory, notes))
    prefixes = database_prefixes(names)
    if not prefixes:
        notes.append(f"{directory} and the folders below it hold no {_CURRENT}: it is no database of this engine")
    own: dict[str, list[str]] = {prefix: [] for prefix in sorted(prefixes, key=len, reverse=True)}
    files = []
    for name in names:
        prefix = next((prefix for prefix in own if name.startswith(prefix)), None)
        if prefix is None:
            files.append(StoredFile(name, kind_of(name, form.kinds)))
        else:
            own[prefix].append(name.removeprefix(prefix))
    databases = {}
    for prefix, inside in own.items():
        reader = _Reader(directory / prefix, prefix, form, notes)
        database = reader.database(inside)
        if database is not None:
            databases[prefix] = database
        files += reader.files(inside, database)
    return DatabaseFiles(tuple(sorted(files, key=lambda file: file.name)), tuple(notes), databases, at)


class _Reader:
    """Reads one database. notes: gets what is not known of it"""

    def __init__(self, folder: Path, prefix: str, form: Form, notes: list[str]) -> None:
        self._folder = folder
        self._prefix = prefix
        self._form = form
        self._notes = notes
        self._elsewhere = _elsewhere(folder, notes)

    def database(self, names: Iterable[str]) -> Database | None:
        """None where its MANIFEST cannot be read."""
        version = Version({DEFAULT_FAMILY: self._form.default_family}, kept=_numbers(names))
        try:
            manifest, edits = self._opened(version)
        except (IoflameError, OSError) as error:
            what = error.what if isinstance(error, IoflameError) else str(error)
            self._notes.append(f"{what}: levels and column families are not known")
            return None
        if edits.stopped:
            follows = "" if edits.torn else "; levels are those up to there"
            self._notes.append(f"{manifest}: {edits.stopped}{follows}")
        return Database(self._folder, self._prefix, manifest, edits.position, version, self._log())

    def _opened(self, version: Version) -> tuple[Path, Edits]:
        """The MANIFEST, read into `version`."""
        manifest = current_manifest(self._folder)
        while True:
            edits = Edits(manifest)
            try:
                for edit in edits:
                    version.apply(edit)
            except FileNotFoundError:
                # Replaced and deleted after CURRENT was read; else it is missing.
                newer = current_manifest(self._folder)
                if newer == manifest:
                    raise
                manifest = newer
            else:
                return manifest, edits

    def _log(self) -> LogPlace | None:
        path = self._elsewhere.log or self._folder / _LOG
        try:
            status = path.stat()
        except OSError:
            return None
        return LogPlace(path, status.st_ino, status.st_size)

    def files(self, names: Iterable[str], database: Database | None) -> Iterator[StoredFile]:
        """Of the database's folder, and those that it keeps elsewhere."""
        known = list(names)
        if database is not None:
            known += self._newer(known, database)
        for name in known:
            kind = kind_of(name, self._form.kinds)
            number = number_of(name, "")
            if number is None:
                yield StoredFile(self._prefix + name, kind)
                continue
            version = database.version if database else Version({})
            table = version.files.get(number) or version.gone.get(number)
            yield StoredFile(
                self._prefix + name,
                kind,
                table.level if table else None,
                version.family_of(number),
                sections=table_sections(self._folder / name),
            )
        for path, kind in self._elsewhere.files:
            yield StoredFile(str(path), kind)

    def _newer(self, names: Iterable[str], database: Database) -> list[str]:
        """Table files that the MANIFEST has and the list of names has not: made since, or in another folder."""
        version = database.version
        listed = _numbers(names)
        wanted = [number for number in version.files if number not in listed]
        newer = [file_name(number, version, self._form) for number in wanted]
        lacking = [number for number, name in zip(wanted, newer, strict=True) if not (self._folder / name).exists()]
        if lacking:
            # A file is deleted after the MANIFEST says so: one that it still has now lies somewhere else.
            removed = set().union(*(edit.removed for edit in _further_edits(database)))
            lacking = [number for number in lacking if number not in removed]
        if lacking:
            self._notes.append(
                f"{len(lacking)} table files of {database.manifest} are not in {self._folder}: db_paths or cf_paths "
                "name other folders, and no file states which; they are listed as if they were in it"
            )
        return newer


def _further_edits(database: Database) -> list[Edit]:
    """Those since the reading; none where a new MANIFEST has taken the place of this one."""
    try:
        return list(Edits(database.manifest, database.position))
    except OSError:
        return []


def _numbers(names: Iterable[str]) -> set[int]:
    return {number for name in names if (number := number_of(name, "")) is not None}


@dataclass(frozen=True)
class _Elsewhere:
    """What a database keeps outside of its folder. log: its LOG, where it is there; files: paths, with their kinds"""

    log: Path | None
    files: tuple[tuple[Path, str], ...]


def log_of(folder: Path) -> Path:
    """Where the LOG of the database in `folder` is, or would be."""
    return _elsewhere(folder, []).log or folder / _LOG


def _elsewhere(folder: Path, notes: list[str]) -> _Elsewhere:
    """As the newest OPTIONS states it: wal_dir and db_log_dir, which it leaves out where they are the folder itself."""
    try:
        options = newest_options(folder)
    except (IoflameError, OSError) as error:
        notes.append(f"{error}: whether write-ahead logs and LOG lie in another folder is not known")
        options = None
    if options is None or not options.has_section("DBOptions"):
        return _Elsewhere(None, ())
    stated = options["DBOptions"]
    root = _root_of(folder)
    found: list[tuple[Path, str]] = []
    wal_dir = _other_folder(folder, root, stated.get("wal_dir", ""))
    if wal_dir is not None:
        found += [(path, "wal") for path in sorted(wal_dir.rglob("*.log"))]
    log_dir = _other_folder(folder, root, stated.get("db_log_dir", ""))
    log = None
    if log_dir is not None:
        # file/filename.cc's GetInfoLogPrefix: the folder's path, with "_" for what is no letter, digit or of "-_.".
        flat = re.sub(r"[^a-zA-Z0-9._-]", "_", str(folder.absolute().relative_to(root)))
        log = log_dir / f"{flat}_LOG"
        found += [(path, "log") for path in sorted(log_dir.glob(f"{flat}_LOG*"))]
    for name, place in (("wal_dir", wal_dir), ("db_log_dir", log_dir)):
        if place is not None and not os.access(place, os.R_OK | os.X_OK):
            notes.append(
                f"{place}, which is {name} in OPTIONS, may not be read or is not there: its files are not known"
            )
    return _Elsewhere(log, tuple(found))


def _root_of(folder: Path) -> Path:
    """/proc/PID/root of a path that goes through it, which is a process's own root; else /."""
    parts = folder.absolute().parts
    return Path(*parts[:4]) if parts[1:2] == ("proc",) and parts[3:4] == ("root",) else Path("/")


def _other_folder(folder: Path, root: Path, stated: str) -> Path | None:
    """None where it is the database's own, or below it."""
    if not stated:
        return None
    other = root / stated.lstrip("/")
    with contextlib.suppress(OSError):
        if other.samefile(folder):
            return None
    return None if other.is_relative_to(folder.absolute()) else other
