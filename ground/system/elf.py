"""What an ELF file says of itself, and where its debug information is kept, as far as Python needs it.

Little-endian files of 64 bits; of anything else nothing is said. stackfold has all of it (crates/symbolize).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Of a section header (elf.h): name, type, flags, address, offset, size.
_SECTION = struct.Struct("<IIQQQQ")
_NOTE, _NO_BITS, _EXECUTABLE = 7, 8, 4
_GNU_BUILD_ID = 3
_HEADER_BYTES = 64


@dataclass(frozen=True)
class Section:
    """offset, size: of its bytes in the file; in_file: a debug file keeps names of sections whose bytes it lacks"""

    name: str
    kind: int
    offset: int
    size: int
    in_file: bool
    executable: bool


def sections(content: bytes) -> Iterator[Section]:
    if content[:6] != b"\x7fELF\x02\x01" or len(content) < _HEADER_BYTES:
        return
    start, entry, count, names = struct.unpack_from("<Q10xHHH", content, 40)
    headers = []
    for at in range(start, start + entry * count, entry or 1):
        if at + _SECTION.size > len(content):
            return
        headers.append(_SECTION.unpack_from(content, at))
    if names >= len(headers):
        return
    texts = headers[names][4]
    for name, kind, flags, _, offset, size in headers:
        text = content[texts + name : content.find(b"\0", texts + name)].decode("utf-8", "replace")
        yield Section(text, kind, offset, size, kind != _NO_BITS, bool(flags & _EXECUTABLE))


def build_id(content: bytes) -> str:
    """In hex; empty where there is none."""
    for section in sections(content):
        notes = content[section.offset : section.offset + section.size]
        if section.kind == _NOTE and (found := build_id_of_notes(notes)):
            return found
    return ""


def build_id_of_notes(notes: bytes) -> str:
    """Each note: length of name, length of value, type; name and value are padded to 4 bytes (elf(5))."""
    at = 0
    while at + 12 <= len(notes):
        name, value, kind = struct.unpack_from("<III", notes, at)
        begin = at + 12 + (name + 3) // 4 * 4
        if kind == _GNU_BUILD_ID and notes[at + 12 : at + 16] == b"GNU\0":
            return notes[begin : begin + value].hex()
        at = begin + (value + 3) // 4 * 4
    return ""


def debug_file(of_build_id: str) -> Path | None:
    """Where stackfold finds it, too: of a package, in perf's cache, in that of debuginfod's client."""
    if not of_build_id:
        return None
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    fetched = Path(os.environ.get("DEBUGINFOD_CACHE_PATH") or f"{cache}/debuginfod_client")
    below = Path(".build-id", of_build_id[:2])
    candidates = (
        Path("/usr/lib/debug") / below / f"{of_build_id[2:]}.debug",
        Path.home() / ".debug" / below / of_build_id[2:] / "debug",
        fetched / of_build_id / "debuginfo",
    )
    return next((path for path in candidates if path.exists()), None)
