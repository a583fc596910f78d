"""The files of a store: which belong to it, which are skipped and why, and how a new one is put there whole.

STORE/v1/<table>/day=YYYY-MM-DD/<run>.parquet. A file says in its footer of which table and version it is, so one that
was cut off, that another program made, or that a newer ioflame made is known without reading it. A merged file replaces
those that the list beside it names: a reader that sees it leaves them out, whether or not they are there still. Of
two merged files whose lists share names, as copies of two stores have them, one is read without the rows of these.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TypeVar

import msgspec

from ground.errors import MeasurementError, error_of_system
from ground.system.atomic_files import read_json, write_json

_File = TypeVar("_File")

SCHEMA = 1
# Written before all others, and shared: a run brings only what the store does not know yet, and others rely on it.
DICTIONARIES = ("stacks", "frames")
_LOCK = "merging.lock"
# Held by every writer, together with others: what was left while nobody holds it was left by one that was killed.
_WRITING = "writing.lock"
_LIST = ".replaces.json"
_AT_ONCE = 16
_MAGIC = b"PAR1"
_SAYS = re.compile(rb"ioflame_store.{1,8}?v(\d+):(\w+);", re.DOTALL)
_LARGEST_FOOTER = 64 << 20
# A row of an imported table is a run of its own, in the file of all of them.
FILE_OF_RUN = "split_part(run, '.', 1)"


@dataclass(frozen=True)
class Skipped:
    """A file that is not read, and why."""

    path: Path
    why: str


def footer_words(table: str) -> str:
    """What a file of this table says of itself, for KV_METADATA."""
    return f"v{SCHEMA}:{table};"


class StoreFiles:
    """The files of a store now. by_table: the files that are read; skipped: those that are not.

    left: partial files of writers that were killed or are still writing
    merged_away: files whose rows a merged file also holds, and lists of merged files that are gone
    twice: by file that is read, the runs whose rows another file has as well

    without: files damaged inside; before: files it has checked are not checked again, for a file never changes
    """

    def __init__(
        self, root: Path, tables: Sequence[str], without: Sequence[Path] = (), before: StoreFiles | None = None
    ) -> None:
        self._good: set[Path] = set()
        self._seen = before._good if before else self._good
        self.by_table: dict[str, list[Path]] = {}
        self.skipped: list[Skipped] = []
        self.left: list[Path] = []
        self.merged_away: list[Path] = []
        self.twice: dict[Path, set[str]] = {}
        for table in tables:
            found: dict[Path, list[str]] = {}
            for directory in _days(root / table):
                found |= self._of_day(directory, table)
            held = {path: names for path, names in found.items() if path not in without}
            self.by_table[table] = list(held)
            if table not in DICTIONARIES:
                self.twice |= held_twice(held)

    def _of_day(self, directory: Path, table: str) -> dict[Path, list[str]]:
        """The files that are read, with the names of those that each holds."""
        paths = sorted(directory.iterdir())
        self.left += [path for path in paths if path.suffix == ".part"]
        good: dict[Path, list[str]] = {}
        for path in paths:
            if path.suffix == ".parquet":
                why = "" if path in self._seen else _why_not(path, table)
                held: list[str] | None = []
                if not why and path.stem.startswith("merged-") and table not in DICTIONARIES:
                    held = replaced_by(path)
                    why = "" if held is not None else f"{_list_of(path).name} beside it cannot be read: copied in part"
                if why:
                    self.skipped.append(Skipped(path, why))
                else:
                    good[path] = held or []
                    self._good.add(path)
        replaced = {name for names in good.values() for name in names}
        names = {path.name for path in paths} - replaced
        self.merged_away += [path for path in good if path.name in replaced]
        self.merged_away += [
            path
            for path in paths
            if path.name.endswith(_LIST) and f"{path.name.removesuffix(_LIST)}.parquet" not in names
        ]
        return {path: [path.name, *names] for path, names in good.items() if path.name not in replaced}


def held_twice(held: Mapping[_File, Collection[str]]) -> dict[_File, set[str]]:
    """Of files that hold what others hold as well, the runs that are not read from them. held: names of files by the
    one that holds their rows"""
    seen: set[str] = set()
    found: dict[_File, set[str]] = {}
    for file, names in held.items():
        if again := seen.intersection(names):
            found[file] = {name.removesuffix(".parquet") for name in again}
        seen.update(names)
    return found


def _days(table: Path) -> list[Path]:
    return sorted(path for path in table.glob("day=*") if path.is_dir()) if table.is_dir() else []


def _why_not(path: Path, table: str) -> str:
    """Why a file is not read; "" for one that is."""
    try:
        footer = _footer(path)
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    if footer is None:
        return "it is cut short, or no Parquet file"
    said = _SAYS.search(footer)
    if said is None:
        return "another program wrote it"
    if int(said[1]) > SCHEMA:
        return f"it has schema {int(said[1])}, of a newer ioflame; this one reads schema {SCHEMA}"
    if said[2].decode() != table:
        return f"it holds {said[2].decode()} and lies among {table}"
    return ""


def _footer(path: Path) -> bytes | None:
    """None where the file does not begin and end as a Parquet file does."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size < 12:
            return None
        file.seek(size - 8)
        end = file.read(8)
        length = int.from_bytes(end[:4], "little")
        file.seek(0)
        if end[4:] != _MAGIC or file.read(4) != _MAGIC or length > min(size - 12, _LARGEST_FOOTER):
            return None
        file.seek(size - 8 - length)
        return file.read(length)


def _list_of(merged: Path) -> Path:
    return merged.with_suffix(_LIST)


def replaced_by(merged: Path) -> list[str] | None:
    """None where the list beside it is missing or broken: what it holds as well would count twice."""
    try:
        return list(read_json(_list_of(merged), dict[str, list[str]])["files"])
    except (MeasurementError, KeyError, msgspec.ValidationError):
        return None


@contextlib.contextmanager
def locked(root: Path) -> Iterator[None]:
    """One process at a time merges or removes: two that merged the same files would leave their rows twice."""
    with _held(root / _LOCK, os.O_RDWR, fcntl.LOCK_EX):
        yield


@contextlib.contextmanager
def writing(root: Path) -> Iterator[None]:
    """Within: what we have written in part is ours, and nobody takes it for what a killed writer left."""
    # Of another user, who made it, it may be ours to read alone.
    with _held(root / _WRITING, os.O_RDONLY, fcntl.LOCK_SH):
        yield


@contextlib.contextmanager
def _held(lock: Path, access: int, how: int) -> Iterator[None]:
    try:
        with os.fdopen(os.open(lock, access | os.O_CREAT | os.O_CLOEXEC, 0o666), "rb") as file:
            fcntl.flock(file, how)
            yield
    except OSError as error:
        raise error_of_system(error, Path(error.filename or lock.parent)) from None


@contextlib.contextmanager
def _nobody_writing(root: Path) -> Iterator[bool]:
    """Within, where it is True: no process writes; one that begins waits."""
    with contextlib.ExitStack() as held:
        try:
            file = held.enter_context((root / _WRITING).open("rb"))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            nobody = True
        except FileNotFoundError:
            nobody = True
        except OSError:
            # A process holds it, or that is unknown.
            nobody = False
        yield nobody


def writing_now(root: Path) -> bool:
    with _nobody_writing(root) as nobody:
        return not nobody


def remove_left(root: Path, files: StoreFiles) -> int:
    """Within `locked`: removes what killed merges left, and what killed writers left unless one is writing now; the
    number of those files."""
    with _nobody_writing(root) as nobody:
        left = files.merged_away + (files.left if nobody else [])
        for path in left:
            path.unlink(missing_ok=True)
    return len(left)


def put_in_place(partial: Mapping[Path, Path]) -> None:
    """Gives files their names once all of them are on the disk; the last one's makes them a run, so it comes last.

    OSError where that fails; then those that have their names are taken away again, but for the dictionaries'.
    """
    if not partial:
        return
    *others, last = partial
    _sync(partial.values())
    try:
        for path in others:
            partial[path].replace(path)
        _sync({place for path in partial for place in (path.parent, path.parent.parent)})
        partial[last].replace(last)
    except BaseException:
        for path in others:
            if path.parent.parent.name not in DICTIONARIES:
                path.unlink(missing_ok=True)
        raise
    _sync([last.parent])


def _sync(paths: Collection[Path]) -> None:
    """Brings files and directories to the disk, all at once: the file system commits them together, where one after
    another each waits for a commit of its own.
    """

    def sync(path: Path) -> None:
        held = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(held)
        finally:
            os.close(held)

    with ThreadPoolExecutor(min(len(paths), _AT_ONCE)) as pool:
        list(pool.map(sync, paths))


def write_replaced(merged: Path, replaced: Sequence[Path], removed: Collection[str] = ()) -> None:
    """Written before `merged` is there, so that nobody ever counts what both hold twice. What those replaced stays
    named, for a copy of a store may bring it back; but for files whose runs are all removed, which may be added again.

    A dictionary needs none: what two of its files hold is one row.
    """
    if merged.parent.parent.name in DICTIONARIES:
        return
    names = {name for path in replaced for name in (path.name, *(replaced_by(path) or []))} - {merged.name}
    write_json(_list_of(merged), {"files": sorted(n for n in names if n.removesuffix(".parquet") not in removed)})


def select_from(
    paths: Sequence[Path], twice: Mapping[Path, Collection[str]] | None = None, columns: str = "* EXCLUDE (day)"
) -> str:
    """What to select from; without the day of their directories, which is no column of a table. twice: of StoreFiles"""
    without = {path: twice[path] for path in paths if path in twice} if twice else {}
    parts = [("", [path for path in paths if path not in without])]
    parts += [(f" WHERE {FILE_OF_RUN} NOT IN ({listed(sorted(runs))})", [path]) for path, runs in without.items()]
    read = "SELECT {} FROM read_parquet([{}], hive_partitioning = true){}"
    return f"({' UNION ALL '.join(read.format(columns, listed(some), where) for where, some in parts if some)})"


def listed(values: Sequence[Path] | Sequence[str]) -> str:
    return ", ".join(map(quoted, values))


def quoted(value: Path | str) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def stored_query(name: str) -> str:
    """A query that lies beside this module, as SQL."""
    return resources.files("ground.results.store").joinpath(name).read_text(encoding="utf-8")
