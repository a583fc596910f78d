"""Which processes have a RocksDB database open: by the files that they have open, whatever they are called."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from ground.system.descendants import having_open
from ground.system.held_process import HeldProcess

# One of these is open as long as a database is; LevelDB's are called so as well.
_OF_A_DATABASE = re.compile(r"LOCK|MANIFEST-\d+|\d{6,}\.(sst|log|blob)")
# What RocksDB alone keeps beside them.
_OPTIONS = "OPTIONS-*"
_VERSION = re.compile(r"RocksDB version: (\S+)")
_HEAD_BYTES = 4096


def open_database(process: HeldProcess) -> Path | None:
    """The directory of the RocksDB database that it has open; None where it has none, or may not be looked into."""
    known: dict[str, bool] = {}
    with contextlib.suppress(OSError):
        for descriptor in os.listdir(process.path("fd")):  # noqa: PTH208 - names, not paths
            with contextlib.suppress(OSError):
                directory, _, name = str(process.path(f"fd/{descriptor}").readlink()).rpartition("/")
                if _OF_A_DATABASE.fullmatch(name) and directory not in known:
                    known[directory] = any(process.path(f"root{directory}").glob(_OPTIONS))
                if known.get(directory):
                    return Path(directory)
    return None


def has_open(process: HeldProcess, file: Path | None) -> bool:
    return file is not None and bool(having_open(file, [process.pid]))


def argv_of(process: HeldProcess) -> list[str]:
    """Its command line; empty once it has ended."""
    try:
        words = process.path("cmdline").read_bytes().rstrip(b"\0")
    except OSError:
        return []
    return [word.decode("utf-8", "surrogateescape") for word in words.split(b"\0")] if words else []


def working_directory(process: HeldProcess) -> Path:
    """Its working directory."""
    try:
        return process.path("cwd").readlink()
    except OSError:
        return Path("/")


def thread_names(process: HeldProcess) -> dict[int, str]:
    """By tid, of those that have not ended meanwhile."""
    names: dict[int, str] = {}
    for tid in process.threads():
        with contextlib.suppress(OSError):
            names[tid] = process.path(f"task/{tid}/comm").read_text(encoding="utf-8", errors="replace")
    return names


def version_in(database: Path) -> str:
    """The version that its own log begins with; "" where it has none."""
    with contextlib.suppress(OSError), (database / "LOG").open("rb") as log:
        found = _VERSION.search(log.read(_HEAD_BYTES).decode("utf-8", "replace"))
        return found[1] if found else ""
    return ""
