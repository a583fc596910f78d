"""The names of PostgreSQL's relations, for the files that hold them: asked of the server by psql."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

from ground.errors import MeasurementError
from ground.results.stored_files import StoredFiles
from ground.system.process import Output, capture, tool_path

_DATABASES = "SELECT datname FROM pg_database WHERE datallowconn"
# The path below the data directory without segment and fork, and database.schema.relation. What is shared by all
# databases (global/) is in each. A TOAST table is named after the table whose long values it holds.
_RELATIONS = """
SET client_encoding = 'UTF8';
SELECT pg_relation_filepath(c.oid),
       CASE WHEN c.relisshared THEN '' ELSE current_database() || '.' END
       || coalesce(n2.nspname || '.' || owner.relname || ' (toast)', n.nspname || '.' || c.relname)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     LEFT JOIN pg_class owner ON owner.reltoastrelid = c.oid
     LEFT JOIN pg_namespace n2 ON n2.oid = owner.relnamespace
WHERE pg_relation_filepath(c.oid) IS NOT NULL;
"""
# base/5/16384, 16384.1 (the second GiB), 16384_fsm, 16384_vm, 16384_init
_FILE = re.compile(r"(.*/\d+)(?:_(fsm|vm|init))?(?:\.\d+)?")
_FORKS = {"fsm": "free space map", "vm": "visibility map", "init": "init fork"}
_SECONDS = 60


def relation_of(name: str) -> tuple[str, str]:
    """The path that the server gives a file's relation, and the fork, "" for the main one; "" twice for other files."""
    match = _FILE.fullmatch(name)
    return (match[1], match[2] or "") if match else ("", "")


def titled(files: StoredFiles, connection: str) -> StoredFiles:
    """Files with the names of their relations: database.schema.relation, and the fork.

    connection: as psql takes it for a database's name: `host=/run/postgresql user=app`, or a URI. HostError where there
    is no psql, MeasurementError where the server does not answer. A relation that was dropped, or made since, has none;
    a database that may not be asked is a note.
    """
    psql = tool_path("psql", "postgresql-client")
    listed = _asked(psql, connection, f"{_DATABASES};\n")
    if listed.returncode != 0:
        raise MeasurementError(
            f"psql did not say which databases there are: {listed.errors[-300:] or 'no error output'}",
            means="relations have no names; their files are named by path",
            mend=shlex.join(["psql", "-Xw", "-d", connection, "-c", _DATABASES]),
        )
    titles: dict[str, str] = {}
    notes = list(files.notes)
    for name in listed.text.split("\0")[:-1]:
        found = _asked(psql, connection, f"\\connect -reuse-previous=on {_quoted(name)}\n{_RELATIONS}")
        if found.returncode != 0:
            notes.append(f"database {name}: its relations have no names: {found.errors[-300:]}")
        fields = found.text.split("\0")
        titles |= zip(fields[::2], fields[1::2], strict=False)
    told = []
    for file in files.files:
        path, fork = relation_of(file.name)
        title = titles.get(path, "")
        told.append(replace(file, title=f"{title} ({_FORKS[fork]})" if title and fork else title))
    return replace(files, files=tuple(told), notes=tuple(notes))


def _asked(psql: str, connection: str, script: str) -> Output:
    # -z and -0: fields and records end with a byte that no name can hold.
    argv = [psql, "-XAtqwz0", "-v", "ON_ERROR_STOP=1", "-d", connection, "-f", "-"]
    return capture(argv, timeout=_SECONDS, stdin=script.encode())


def _quoted(name: str) -> str:
    """A database's name as psql's \\connect takes it: as a connection string, in psql's quotes, each with its own."""
    value = name.replace("\\", "\\\\").replace("'", "\\'")
    text = f"dbname='{value}'".replace("\\", "\\\\").replace("'", "''")
    return f"'{text}'"
