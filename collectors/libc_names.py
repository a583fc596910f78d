"""Whether the C library's own functions have names here: many distributions put them into a package of their own."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from ground.results.checks import Check, Verdict
from ground.system.elf import build_id, debug_file, sections

_LIBC = re.compile(r"\s(/\S*/(?:libc\.so\.6|libc-[\d.]+\.so|ld-musl-\S+))$", re.MULTILINE)
# A full table of symbols, or a packed one (Fedora, RHEL).
_TABLES = (".symtab", ".gnu_debugdata")


def own_libc() -> str:
    """The C library of this process; empty where it has none."""
    found = _LIBC.search(Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace"))
    return found[1] if found else ""


def libc_names_check(library: str) -> Check:
    if not library:
        return Check("names of libc", Verdict.NOTE, "not known", "this process has no C library")
    content = Path(library).read_bytes()
    tables = [section.name for section in sections(content) if section.name in _TABLES]
    if tables:
        return Check("names of libc", Verdict.OK, f"{library} has them ({tables[0]})")
    number = build_id(content)
    if (debug := debug_file(number)) is not None:
        return Check("names of libc", Verdict.OK, str(debug))
    by_apt = "sudo apt-get install libc6-dbg"
    by_hand = f"debuginfod-find debuginfo {number}   (with DEBUGINFOD_URLS of your distribution)"
    return Check(
        "names of libc",
        Verdict.NOTE,
        f"{library} has only those that it exports",
        "its other frames are [libc.so.6]: by leaf, the inside of malloc and the copies have no rows of their own; "
        "categories by owner and whether stacks are whole do not depend on it",
        by_apt if shutil.which("apt-get") else by_hand,
    )
