"""The symbols that a run's recordings need, kept beside it in the form of perf's build-id cache.

DIR/.debug/.build-id/ab/cdef.../elf       a mapped file: its code and constants are zeros, its tables are as they were
                               /debug     its debug file, where one is here
                               /kallsyms  the kernel's symbols
                               /vdso
DIR/.debug/packed-files                   device, inode and build id of what lies at each path
DIR/usr/bin/...                           a file without a build id, below its path

Files of several containers, and a file before and after an upgrade, may have one path, for which perf notes one build
id. Only the inode shows which of them is at that path, and only on this machine; packed-files records it for others.
stackfold reads all of it below `--symfs`; `perf --buildid-dir DIR/.debug report` reads the cache.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ground.results.files_at_paths import PACKED, FileAtPath, write_files_at_paths
from ground.system.elf import build_id, build_id_of_notes, debug_file, sections

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
    build_id: str = ""


def keep_symbols(objects: Iterable[str], mapped: Path, out: Path) -> list[KeptFile]:
    """Keeps symbols of the objects, which are named by the paths that they were mapped under, in `out`.

    mapped: copies of some, which come first. Where it has the symbols of a packed run, nothing is kept: the files of
    such a run lie on the machine where it was packed.
    """
    if (mapped / CACHE).is_dir():
        return []
    kept, cache = [], out / CACHE
    for path in sorted(set(objects)):
        if path.startswith("/"):
            kept.append(_keep_file(path, mapped, out))
        elif path == "[kernel.kallsyms]":
            kept.append(_keep_kernel(path, cache))
    if vdso := _own_vdso():
        _write(cache, build_id(vdso), "vdso", vdso)
    cache.mkdir(parents=True, exist_ok=True)
    write_files_at_paths(cache / PACKED, (file for one in kept if (file := _file_at(one)) is not None))
    return kept


def _file_at(kept: KeptFile) -> FileAtPath | None:
    try:
        file = Path(kept.path).stat()
    except OSError:
        return None
    return FileAtPath(kept.path, os.major(file.st_dev), os.minor(file.st_dev), file.st_ino, kept.build_id)


def _keep_file(path: str, mapped: Path, out: Path) -> KeptFile:
    copy, cache = mapped / path.lstrip("/"), out / CACHE
    for place in (copy, Path(path)):
        try:
            content = place.read_bytes()
        except OSError as error:
            why = f"nothing: {error.strerror}"
            continue
        number = build_id(content)
        if not number:
            if place != copy and not _keep_by_path(path, content, out):
                why = "nothing: it has no build id, and is no ELF file"
                continue
            return KeptFile(path, "symbols", len(content))
        size = _write(cache, number, "elf", _without_code(content))
        debug = debug_file(number)
        if debug is None:
            return KeptFile(path, "symbols", size, number)
        size += _write(cache, number, "debug", debug.read_bytes())
        return KeptFile(path, "symbols, debug information", size, number)
    return KeptFile(path, why)


def _keep_by_path(path: str, content: bytes, out: Path) -> bool:
    """Whether it was kept: of another kind of file it is not known what is code. A recording may hold any path."""
    if not any(sections(content)) or ".." in Path(path).parts:
        return False
    place = out / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(_without_code(content))
    return True


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
