"""The files of a database as its engine names them: kind, level, column family, and where the parts of each lie.

An engine says it (`Engine.stored_files`), and whoever gives requests of the device to files uses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ground.results.ranges import Amount, Count


@dataclass(frozen=True)
class FileSection:
    """A part of a file: from the end of the part before it (0 for the first) to `end`, in bytes.

    holds: "data", "filter", "index" ...
    """

    end: Count
    holds: str


@dataclass(frozen=True)
class StoredFile:
    """A file of a database, by its name below the database's directory, "/" between folders; by its whole path where it
    lies elsewhere.

    kind:          by what it is for the engine: "sst", "wal", "manifest", "blob", "table" ...; "other" where unknown
    level:         of the LSM tree, None where it has none or where it is unknown
    column_family: by name, "" where there is none or where it is unknown
    title:         what its users call it, where the name does not say it (a relation of PostgreSQL); else ""
    sections:      in their order; none where they are not known
    moved_from:    the level it had at the beginning of the window, where it was moved within it
    moved_at:      when it left that one, as a part of the window from 0 to 1; None where nobody says it
    made_by:       "flush", "compaction", "load" ...; "" where it is unknown
    """

    name: str
    kind: str
    level: Count | None = None
    column_family: str = ""
    title: str = ""
    sections: Sequence[FileSection] = ()
    moved_from: Count | None = None
    moved_at: Amount | None = None
    made_by: str = ""


@dataclass(frozen=True)
class StoredFiles:
    """The files of a database at one moment, or all that were there in a window.

    notes: what is not known of them and why, in sentences for a reader; none where all is known
    """

    files: Sequence[StoredFile]
    notes: Sequence[str] = ()
