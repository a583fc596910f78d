"""Whether the C library's own functions have names here: many distributions put them into a package of their own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from ground.results.checks import Check, Verdict

__all__ = ("libc_names_check", "own_libc")

_LIBC = re.compile(r"\s(/\S*/(?:libc\.so\.6|libc-[\d.]+\.so|ld-musl-\S+))$", re.MULTILINE)
_BUILD_ID = re.compile(r"Build ID: ([0-9a-f]{4,})")
# A full table of symbols, or a packed one (Fedora, RHEL).
_TABLES = (".symtab", ".gnu_debugdata")


def own_libc() -> str:
    """The C library of this process; empty where it has none."""
    found = _LIBC.search(Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace"))
    return found[1] if found else ""


def libc_names_check(library: str) -> Check:
    """Whether a library has all its names; stackfold looks in the same places (crates/symbolize, files.rs)."""
    if not library or shutil.which("readelf") is None:
        return Check("names of libc", Verdict.NOTE, "not known", "no C library here, or no readelf")
    done = subprocess.run(["readelf", "-nSW", library], capture_output=True, text=True, check=False)
    for table in _TABLES:
        if f" {table} " in done.stdout:
            return Check("names of libc", Verdict.OK, f"{library} has them ({table})")
    build_id = found[1] if (found := _BUILD_ID.search(done.stdout)) else ""
    for path in _debug_files(build_id):
        if path.exists():
            return Check("names of libc", Verdict.OK, str(path))
    return Check(
        "names of libc",
        Verdict.NOTE,
        f"{library} has only those that it exports",
        "its other frames are [libc.so.6]: by leaf, the inside of malloc and the copies have no rows of their own; "
        "categories by owner and whether stacks are whole do not depend on it",
        _mend(build_id),
    )


def _debug_files(build_id: str) -> list[Path]:
    if not build_id:
        return []
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    fetched = Path(os.environ.get("DEBUGINFOD_CACHE_PATH") or f"{cache}/debuginfod_client")
    below = Path(".build-id", build_id[:2])
    return [
        Path("/usr/lib/debug") / below / f"{build_id[2:]}.debug",
        Path.home() / ".debug" / below / build_id[2:] / "debug",
        fetched / build_id / "debuginfo",
    ]


def _mend(build_id: str) -> str:
    if shutil.which("apt-get"):
        return "sudo apt-get install libc6-dbg"
    return f"debuginfod-find debuginfo {build_id}   (of elfutils; with DEBUGINFOD_URLS of your distribution)"
