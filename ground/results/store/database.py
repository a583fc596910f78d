"""A store through DuckDB: runs are added whole or not at all, and every table is read with SQL.

A run is there once its file in `runs` is, which is written last: what a killed writer left of one is joined to nothing.
Writers share no file, so any number of them may add at once, and readers need no lock.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shlex
import sys
import tempfile
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ground.errors import HostError, IoflameError, MeasurementError, UsageError, error_of_system
from ground.results.store.parquet_files import (
    DICTIONARIES,
    FILE_OF_RUN,
    SCHEMA,
    Skipped,
    StoreFiles,
    footer_words,
    listed,
    locked,
    put_in_place,
    quoted,
    remove_left,
    replaced_by,
    select_from,
    stored_query,
    write_replaced,
    writing,
    writing_now,
)
from ground.system.scratch import scratch_directory, scratch_prefix

if TYPE_CHECKING:
    import duckdb

# How often files may be merged or removed by another process while they are asked for.
_TRIES = 3
# The version that the tests run with.
DUCKDB = "duckdb==2.0.0"
# What a row of these tables is known by: two writers may have written one at the same time.
_KEYS = {"runs": "run", "stacks": "stack_hi, stack_lo", "frames": "frame"}
# Of settings in JSON.
_LONGEST_ROW = 64 << 20
# Rows that are written together are in memory together, and those of `files` are whole files.
_GROUPS = {"files": f", ROW_GROUP_SIZE_BYTES {4 << 20}"}
_SORTED = {"samples": "stack_hi, stack_lo, second", "stacks": "stack_hi, stack_lo", "frames": "frame"}


@dataclass
class RunTables:
    """A run's rows by table. run: its name in the store; day: YYYY-MM-DD; rows of `files` hold bytes.

    Of a table that is imported it is many runs, whose names are `run` with a dot and a number.
    """

    run: str
    day: str
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, table: str, **row: Any) -> None:
        self.rows.setdefault(table, []).append({"run": self.run, **row})


@dataclass(frozen=True)
class Answer:
    """What a query gave."""

    columns: list[str]
    rows: list[tuple[Any, ...]]

    def as_dicts(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def _engine() -> Any:
    try:
        import duckdb
    except ImportError:
        raise HostError(
            "the store needs DuckDB, which is not installed",
            means="its files are Parquet, which DuckDB reads and writes; DuckDB 2 takes Python 3.11",
            mend=shlex.join([sys.executable, "-m", "pip", "install", DUCKDB]),
        ) from None
    return duckdb


class Store:
    """The store in a directory, as of its opening. HostError without DuckDB.

    memory: bytes that it may take, beyond which it spills into TMPDIR; None: those of the host, or of its control group
    skipped: files that are not read, and why
    """

    def __init__(self, directory: Path, *, create: bool = False, memory: int | None = None) -> None:
        self.directory = directory
        self._memory = memory
        self._root = directory / f"v{SCHEMA}"
        self._duckdb = _engine()
        if create:
            try:
                # As private as the runs in it; who shares one gives rights to a group.
                directory.parent.mkdir(parents=True, exist_ok=True)
                for place in (directory, self._root):
                    place.mkdir(0o700, exist_ok=True)
            except OSError as error:
                raise error_of_system(error, self._root) from None
        if not self._root.is_dir():
            raise UsageError(
                f"{directory} is no store of schema {SCHEMA}: it holds no {self._root.name}/",
                mend=f"ioflame store add {shlex.quote(str(directory))} RUN   (makes one)",
            )
        self._damaged: list[Skipped] = []
        self._files = StoreFiles(self._root, [])
        self._open()

    def _open(self) -> None:
        """A new connection, and the files that are there now."""
        # stale: files were added since; bound: the views are there, which take longer the more files there are
        self._stale = self._bound = False
        settings = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
        # Named as a scratch directory: what a killed command leaves the next one takes away.
        settings["temp_directory"] = f"{tempfile.gettempdir()}/{scratch_prefix()}{uuid.uuid4().hex}"
        if self._memory:
            # Not all that it takes counts: of the host's, too, DuckDB takes four fifths for its limit.
            settings["memory_limit"] = f"{self._memory * 4 // 5}B"
        self._connection: duckdb.DuckDBPyConnection = self._duckdb.connect(":memory:", config=settings)
        self._connection.execute("CREATE SCHEMA form; USE form")
        self._connection.execute(stored_query("schema.sql"))
        found = self._ask("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'form'").rows
        self._tables = [name for (name,) in found]
        self._connection.execute("USE memory.main")
        self._files = StoreFiles(self._root, self._tables, [one.path for one in self._damaged], self._files)

    def _bind(self) -> None:
        """A view for each table, and the ready views; what adds to a store needs none of them."""
        for table in sorted(self._tables, key=lambda name: name != "runs"):
            self._view(table)
        stacks = self._source("stacks")
        ready = stored_query("dialect.duckdb.sql") + stored_query("views.sql")
        self._connection.execute(f"CREATE VIEW every_stack AS FROM {stacks}; {ready}")
        self._bound = True

    def _source(self, table: str) -> str:
        paths = self._files.by_table[table]
        return select_from(paths, self._files.twice) if paths else f"form.{table}"

    def _view(self, table: str) -> None:
        key = _KEYS.get(table)
        once, joined = (f"DISTINCT ON ({key})", "") if key else ("", "SEMI JOIN runs USING (run)")
        # Every other is joined to runs, whose files are many and small: it is read once.
        kind = "TABLE" if table == "runs" else "VIEW"
        self._connection.execute(f"CREATE {kind} {table} AS SELECT {once} * FROM {self._source(table)} {joined}")

    @property
    def skipped(self) -> list[Skipped]:
        return [*self._files.skipped, *self._damaged]

    # ---- reading -----------------------------------------------------------------------------------------------------
    def query(self, sql: str, parameters: Sequence[object] = ()) -> Answer:
        """UsageError for SQL that is none. A file whose inside is damaged is found, named and left out."""
        if self._stale:
            self._open()
        for _ in range(_TRIES):
            try:
                if not self._bound:
                    self._bind()
                return self._ask(sql, parameters)
            except (self._duckdb.ParserException, self._duckdb.BinderException, self._duckdb.CatalogException) as error:
                raise UsageError(
                    f"DuckDB does not take this query: {error}", mend="ioflame store sql STORE 'SHOW TABLES'"
                ) from None
            except self._duckdb.Error as error:
                failed = error
                # Or one is damaged inside.
                if not self._find_damage() and not _vanished(error):
                    break
                self._open()
        raise MeasurementError(f"{self.directory}: the query failed: {failed}") from None

    def _ask(self, sql: str, parameters: Sequence[object] = ()) -> Answer:
        cursor = self._connection.execute(sql, list(parameters))
        columns = [one[0] for one in cursor.description or ()]
        return Answer(columns, cursor.fetchall() if columns else [])

    def _find_damage(self) -> bool:
        """Reads every file whole; whether one cannot be that is there still."""
        found = False
        for path in (path for paths in self._files.by_table.values() for path in paths):
            try:
                self._ask(f"SELECT bit_xor(hash(t)) FROM {select_from([path])} t")
            except self._duckdb.Error as error:
                if path.exists():
                    self._damaged.append(Skipped(path, f"it is damaged: {str(error).splitlines()[0]}"))
                    found = True
        return found

    def check(self) -> list[str]:
        """Everything that is wrong with it, a line each; reads all of it."""
        self._find_damage()
        self._open()
        self._bind()
        said = [f"skipped: {one.path}: {one.why}" for one in self.skipped]
        if not writing_now(self._root):
            left = [*self._files.left, *self._files.merged_away]
            said += [f"left by a writer that was killed, until the next compact: {path}" for path in left]
        for table in self._tables:
            if table in ("runs", *DICTIONARIES):
                continue
            orphans = self._ask(f"SELECT DISTINCT run FROM {self._source(table)} ANTI JOIN runs USING (run)").rows
            said += [f"{table} of {run}, which was never added whole: add it again" for (run,) in orphans]
            if self._files.by_table[table]:
                each = select_from(self._files.by_table[table], self._files.twice, "DISTINCT filename, run")
                twice = self._ask(f"SELECT run FROM {each} GROUP BY run HAVING count(*) > 1 ORDER BY run").rows
                said += [f"{table} of {run} is in several files: rm it, and add it again" for (run,) in twice]
        said += [f"{count:,} {what}" for count, what in self._ask(stored_query("contradictions.sql")).rows if count]
        return said

    # ---- writing -----------------------------------------------------------------------------------------------------
    def holds(self, run: str) -> bool:
        if self._stale:
            self._open()
        stems = {path.stem for path in self._files.by_table["runs"]}
        if run in stems:
            return True
        # A file of many runs: merged, or the rows of an imported table.
        many = any(stem.startswith("merged-") or run.startswith(f"{stem}.") for stem in stems)
        return many and bool(
            self.query("SELECT 1 FROM runs WHERE run = ? OR starts_with(run, ? || '.')", [run, run]).rows
        )

    def add(self, tables: RunTables) -> bool:
        """Whether it was new. HostError when the disk is full; what was written of it until then is taken away."""
        if self.holds(tables.run):
            return False
        for _ in range(_TRIES - 1):
            try:
                self._add(tables)
                return True
            except self._duckdb.Error as error:
                if not _vanished(error):
                    raise MeasurementError(f"{self.directory}: {tables.run} cannot be added: {error}") from None
                self._open()
        self._add(tables)
        return True

    def _add(self, tables: RunTables) -> None:
        order = sorted(tables.rows, key=lambda name: (name == "runs", name not in DICTIONARIES))
        partial: dict[Path, Path] = {}
        with scratch_directory() as scratch, writing(self._root), self._written(partial):
            for table in order:
                source = self._staged(table, tables.rows[table], scratch)
                if self._ask(f"SELECT 1 FROM {source} LIMIT 1").rows:
                    self._write(f"SELECT * FROM {source}", table, self._path(table, tables.day, tables.run), partial)
        self._stale = True

    def _staged(self, table: str, rows: Sequence[Mapping[str, Any]], scratch: Path) -> str:
        """The rows as something to select from; of a dictionary those that the store does not know."""
        name = f"new_{table}"
        self._ask(f"CREATE OR REPLACE TEMP TABLE {name} AS FROM form.{table} WHERE false")
        if table == "files":
            self._connection.executemany(
                f"INSERT INTO {name} VALUES (?, ?, ?)", [(row["run"], row["name"], row["data"]) for row in rows]
            )
            return name
        file = scratch / f"{table}.json"
        file.write_bytes(msgspec.json.Encoder().encode_lines(rows))
        forms = self._ask(f"DESCRIBE form.{table}").rows
        columns = ", ".join(f"'{column}': '{kind}'" for column, kind, *_ in forms)
        read = f"read_ndjson({quoted(file)}, columns={{{columns}}}, maximum_object_size={_LONGEST_ROW})"
        key = _KEYS[table] if table in DICTIONARIES else ""
        known = f" ANTI JOIN {self._source(table)} known USING ({key})" if key else ""
        once = f"DISTINCT ON ({key})" if key else ""
        self._ask(f"INSERT INTO {name} SELECT {once} * FROM {read}{known}")
        return name

    def _path(self, table: str, day: str, stem: str) -> Path:
        return self._root / table / f"day={day}" / f"{stem}.parquet"

    def _write(self, select: str, table: str, path: Path, partial: dict[Path, Path], groups: str = "") -> None:
        """A file beside its place, for `_written` to put there. groups: how large those of its rows are"""
        partial[path] = beside = path.with_name(f"{path.name}.{os.getpid()}.part")
        order = f" ORDER BY {_SORTED[table]}" if table in _SORTED else ""
        says = f"KV_METADATA {{ioflame_store: '{footer_words(table)}'}}"
        form = f"FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false{groups}, {says}"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._ask(f"COPY ({select}{order}) TO {quoted(beside)} ({form})")
        except (self._duckdb.Error, OSError) as error:
            if _vanished(error):
                raise
            raise self._refused(error, path) from None

    @contextlib.contextmanager
    def _written(self, partial: dict[Path, Path]) -> Iterator[None]:
        """Files that are written within, beside their places, get their names when all are whole; else none is left."""
        try:
            yield
            put_in_place(partial)
        except OSError as error:
            raise self._refused(error, self._root) from None
        finally:
            for path in partial.values():
                with contextlib.suppress(OSError):
                    path.unlink()

    def _refused(self, error: Exception, path: Path) -> IoflameError:
        if isinstance(error, OSError):
            return error_of_system(error, Path(error.filename or path))
        if "No space left" in str(error):
            return error_of_system(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)))
        return MeasurementError(f"{path} cannot be written: {error}")

    def remove(self, runs: Sequence[str]) -> None:
        """Takes runs out of every table, `runs` first. UsageError for one that is not there."""
        unknown = [run for run in runs if not self.holds(run)]
        if unknown:
            raise UsageError(f"{self.directory} holds no run {unknown[0]}", mend="ioflame store ls STORE")
        quoted_runs, stems = listed(runs), {run.partition(".")[0] for run in runs}
        named = f"(run IN ({quoted_runs}) OR {FILE_OF_RUN} IN ({quoted_runs}))"
        with locked(self._root):
            self._open()
            remove_left(self._root, self._files)
            # A file of which a row stays is not added again, nor read where it is copied in again.
            stay = self._ask(f"SELECT DISTINCT {FILE_OF_RUN} FROM {self._source('runs')} WHERE NOT {named}").rows
            gone = stems.difference(stem for (stem,) in stay)
            for table in sorted(set(self._tables) - set(DICTIONARIES), key=lambda name: name != "runs"):
                for path in self._files.by_table[table]:
                    if path.stem in gone:
                        path.unlink(missing_ok=True)
                    elif path.stem in stems or path.stem.startswith("merged-"):
                        source, names = select_from([path]), replaced_by(path) or []
                        lists = {name.removesuffix(".parquet") for name in names}
                        if gone & lists or self._ask(f"SELECT 1 FROM {source} WHERE {named} LIMIT 1").rows:
                            self._merge([path], f"SELECT * FROM {source} WHERE NOT {named}", table, gone, quoted_runs)
        self._stale = True

    def compact(self) -> int:
        """Merges the files of each day of each table into one, and takes away what killed writers left; how many files
        fewer there are. Sums stay as they are.
        """
        with locked(self._root):
            self._open()
            fewer = remove_left(self._root, self._files)
            for table in self._tables:
                by_day: dict[Path, list[Path]] = {}
                for path in self._files.by_table[table]:
                    by_day.setdefault(path.parent, []).append(path)
                for paths in by_day.values():
                    if len(paths) > 1:
                        once = f"DISTINCT ON ({_KEYS[table]})" if table in _KEYS else ""
                        self._merge(paths, f"SELECT {once} * FROM {select_from(paths, self._files.twice)}", table)
                        fewer += len(paths) - 1
        self._stale = True
        return fewer

    def _merge(
        self, paths: Sequence[Path], select: str, table: str, gone: Collection[str] = (), without: str = ""
    ) -> None:
        """gone: files of which no row stays; without: runs that were removed, for no two files have one name"""
        words = "\n".join(path.name for path in paths) + without
        named = hashlib.blake2b(words.encode(), digest_size=8).hexdigest()
        merged = paths[0].with_name(f"merged-{named}.parquet")
        partial: dict[Path, Path] = {}
        # What groups by their size take.
        self._ask("SET preserve_insertion_order = false")
        with writing(self._root):
            write_replaced(merged, paths, gone)
            with self._written(partial):
                self._write(select, table, merged, partial, _GROUPS.get(table, ""))
            for path in paths:
                path.unlink(missing_ok=True)
                path.with_suffix(".replaces.json").unlink(missing_ok=True)


def _vanished(error: Exception) -> bool:
    """Another process merged or removed files since they were listed."""
    return "No such file" in str(error) or "No files found" in str(error)


def stored_files(store: Store, run: str) -> Iterator[tuple[str, bytes]]:
    """The result files of a run, by name."""
    for name, data in store.query("SELECT name, data FROM files WHERE run = ?", [run]).rows:
        yield name, bytes(data)
