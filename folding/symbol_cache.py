"""The symbols that a run's recordings need, kept beside it in the form of perf's build-id cache.

DIR/.build-id/ab/cdef.../elf       a mapped file: its code and constants are zeros, its tables are as they were
                        /debug     its debug file, where one is here
                        /kallsyms  the kernel's symbols
                        /vdso

stackfold reads it below `--symfs` (crates/symbolize), and so does `perf --buildid-dir DIR report`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ("CACHE", "KeptFile", "keep_symbols")

CACHE = ".debug"
_DEBUG_FILES = Path("/usr/lib/debug/.build-id")
# Of a section header of ELF64 (elf.h): name, type, flags, address, offset, size.
_SECTION = struct.Struct("<IIQQQQ")
_NOTE, _NO_BITS, _EXECUTABLE = 7, 8, 4
# What a program computes with, and no table of it.
_CONSTANTS = re.compile(r"\.(l?rodata|l?data|tdata|init_array|fini_array)(\..*)?$")
# The stubs of calls into libraries: what they jump to is in their code.
_STUBS = re.compile(r"\.plt(\..*)?$")
_GNU_BUILD_ID = 3


@dataclass(frozen=True)
class KeptFile:
    """What was kept of a mapped object. held: "symbols", "symbols, debug information"; or why nothing was"""

    path: str
    held: str
    size: int = 0


@dataclass(frozen=True)
class _Section:
    name: str
    kind: int
    flags: int
    offset: int
    size: int


def keep_symbols(objects: Iterable[str], mapped: Path, cache: Path) -> list[KeptFile]:
    """Keeps those of objects by the paths that they were mapped under; mapped: copies of some, which come first."""
    kept = []
    for path in sorted(set(objects)):
        if path.startswith("/"):
            kept.append(_keep_file(path, mapped, cache))
        elif path == "[kernel.kallsyms]":
            kept.append(_keep_kernel(path, cache))
    if vdso := _own_vdso():
        _write(cache, _build_id(vdso), "vdso", vdso)
    return kept


def _keep_file(path: str, mapped: Path, cache: Path) -> KeptFile:
    for place in (mapped / path.lstrip("/"), Path(path)):
        try:
            content = place.read_bytes()
        except OSError as error:
            why = f"nothing: {error.strerror}"
            continue
        build_id = _build_id(content)
        if not build_id:
            why = "nothing: it has no build id"
            continue
        size = _write(cache, build_id, "elf", _without_code(content))
        debug = _debug_file(build_id)
        if debug is None:
            return KeptFile(path, "symbols", size)
        return KeptFile(path, "symbols, debug information", size + _write(cache, build_id, "debug", debug))
    return KeptFile(path, why)


def _keep_kernel(path: str, cache: Path) -> KeptFile:
    try:
        build_id = _of_notes(Path("/sys/kernel/notes").read_bytes())
        symbols = Path("/proc/kallsyms").read_bytes()
    except OSError as error:
        return KeptFile(path, f"nothing: {error.strerror}")
    if symbols.startswith(b"0000000000000000 "):
        return KeptFile(path, "nothing: /proc/kallsyms hides its addresses from this user")
    return KeptFile(path, "symbols", _write(cache, build_id, "kallsyms", symbols))


def _debug_file(build_id: str) -> bytes | None:
    """Where stackfold would find it, too."""
    own = Path.home() / CACHE / ".build-id" / build_id[:2] / build_id[2:] / "debug"
    for path in (_DEBUG_FILES / build_id[:2] / f"{build_id[2:]}.debug", own):
        if path.exists():
            return path.read_bytes()
    return None


def _write(cache: Path, build_id: str, name: str, content: bytes) -> int:
    place = cache / ".build-id" / build_id[:2] / build_id[2:] / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    return len(content)


def _own_vdso() -> bytes:
    for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.endswith("[vdso]"):
            start, end = (int(word, 16) for word in line.split()[0].split("-"))
            with Path("/proc/self/mem").open("rb", buffering=0) as memory:
                memory.seek(start)
                return memory.read(end - start)
    return b""


def _sections(content: bytes) -> Iterator[_Section]:
    """Of a little-endian ELF64 file; none of anything else."""
    if content[:6] != b"\x7fELF\x02\x01":
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
        text = content[texts + name : content.find(b"\0", texts + name)]
        yield _Section(text.decode("utf-8", "replace"), kind, flags, offset, size)


def _build_id(content: bytes) -> str:
    for section in _sections(content):
        if section.kind == _NOTE and (found := _of_notes(content[section.offset : section.offset + section.size])):
            return found
    return ""


def _of_notes(notes: bytes) -> str:
    """The build id among notes, each: length of name, length of value, type; name and value padded to 4 bytes."""
    at = 0
    while at + 12 <= len(notes):
        name, value, kind = struct.unpack_from("<III", notes, at)
        begin = at + 12 + (name + 3) // 4 * 4
        if kind == _GNU_BUILD_ID and notes[at + 12 : at + 16] == b"GNU\0":
            return notes[begin : begin + value].hex()
        at = begin + (value + 3) // 4 * 4
    return ""


def _without_code(content: bytes) -> bytes:
    """The same with zeros for what is executed or computed with; where everything lies stays."""
    left = bytearray(content)
    for section in _sections(content):
        code = section.flags & _EXECUTABLE and not _STUBS.match(section.name)
        if section.kind != _NO_BITS and (code or _CONSTANTS.match(section.name)):
            end = min(section.offset + section.size, len(left))
            left[section.offset : end] = bytes(max(end - section.offset, 0))
    return bytes(left)
