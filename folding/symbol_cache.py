"""The symbols that a run's recordings need, kept beside it in the form of perf's build-id cache.

DIR/.build-id/ab/cdef.../elf       a mapped file: its code and constants are zeros, its tables are as they were
                        /debug     its debug file, where one is here
                        /kallsyms  the kernel's symbols
                        /vdso

stackfold reads it below `--symfs` (crates/symbolize), and so does `perf --buildid-dir DIR report`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ground.system.elf import build_id, build_id_of_notes, debug_file, sections

__all__ = ("CACHE", "KeptFile", "keep_symbols")

CACHE = ".debug"
# What a program computes with, and no table of it.
_CONSTANTS = re.compile(r"\.(l?rodata|l?data|tdata|init_array|fini_array)(\..*)?$")
# The stubs of calls into libraries: what they jump to is in their code.
_STUBS = re.compile(r"\.plt(\..*)?$")


@dataclass(frozen=True)
class KeptFile:
    """What was kept of a mapped object. held: "symbols", "symbols, debug information"; or why nothing was"""

    path: str
    held: str
    size: int = 0


def keep_symbols(objects: Iterable[str], mapped: Path, cache: Path) -> list[KeptFile]:
    """Keeps those of objects by the paths that they were mapped under; mapped: copies of some, which come first."""
    kept = []
    for path in sorted(set(objects)):
        if path.startswith("/"):
            kept.append(_keep_file(path, mapped, cache))
        elif path == "[kernel.kallsyms]":
            kept.append(_keep_kernel(path, cache))
    if vdso := _own_vdso():
        _write(cache, build_id(vdso), "vdso", vdso)
    return kept


def _keep_file(path: str, mapped: Path, cache: Path) -> KeptFile:
    for place in (mapped / path.lstrip("/"), Path(path)):
        try:
            content = place.read_bytes()
        except OSError as error:
            why = f"nothing: {error.strerror}"
            continue
        number = build_id(content)
        if not number:
            why = "nothing: it has no build id"
            continue
        size = _write(cache, number, "elf", _without_code(content))
        debug = debug_file(number)
        if debug is None:
            return KeptFile(path, "symbols", size)
        size += _write(cache, number, "debug", debug.read_bytes())
        return KeptFile(path, "symbols, debug information", size)
    return KeptFile(path, why)


def _keep_kernel(path: str, cache: Path) -> KeptFile:
    try:
        number = build_id_of_notes(Path("/sys/kernel/notes").read_bytes())
        symbols = Path("/proc/kallsyms").read_bytes()
    except OSError as error:
        return KeptFile(path, f"nothing: {error.strerror}")
    if symbols.startswith(b"0000000000000000 "):
        return KeptFile(path, "nothing: /proc/kallsyms hides its addresses from this user")
    return KeptFile(path, "symbols", _write(cache, number, "kallsyms", symbols))


def _write(cache: Path, number: str, name: str, content: bytes) -> int:
    place = cache / ".build-id" / number[:2] / number[2:] / name
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


def _without_code(content: bytes) -> bytes:
    """The same with zeros for what is executed or computed with; where everything lies stays."""
    left = bytearray(content)
    for section in sections(content):
        code = section.executable and not _STUBS.match(section.name)
        if section.in_file and (code or _CONSTANTS.match(section.name)):
            end = min(section.offset + section.size, len(left))
            left[section.offset : end] = bytes(max(end - section.offset, 0))
    return bytes(left)
