"""Which build ran: what distinguishes one build of a client from another, whatever its path and version are.

A rebuild in place keeps both, but its SHA-256 changes. The same bits under two paths are one artifact.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from elftools.common.exceptions import DWARFError, ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection

from ground.system.atomic_files import file_sha256
from workloads.build import EngineBuild

# The producer of most of the code is that of most of these.
_UNITS = 50
# Larger debug information takes seconds to load; .comment has the compiler's name as well.
_LARGEST_DEBUG = 1 << 30
# Symbols that only one allocator defines.
_ALLOCATORS = {b"\0je_malloc\0": "jemalloc", b"\0tc_malloc\0": "tcmalloc", b"\0mi_malloc\0": "mimalloc"}
_ALLOCATOR_FILE = re.compile(r"lib(jemalloc|tcmalloc|mimalloc)")
_NOTES = ("$", "Copyright")
# Switches that say where it was built and not how.
_PLACES = re.compile(r" -f(?:debug|macro|file|canon)-prefix-map=\S+| -(?:isystem|I|iquote) ?\S+")


def artifact_facts(build: EngineBuild) -> dict[str, str]:
    """The build as `tools` of a run keeps it.

    engine_artifact: of client and library together: two builds of one are the same bits
    """
    facts = {f"engine_{name}": value for name, value in build_facts(build.path).items()}
    whole = facts["engine_sha256"]
    if build.code != build.path.resolve():
        library = build_facts(build.code)
        facts["engine_library"] = str(build.code)
        facts |= {f"engine_library_{name}": library[name] for name in ("sha256", "build_id")}
        # Of the engine's code, which is what is measured.
        facts |= {f"engine_{name}": library[name] for name in ("compiler", "flags", "lto", "debug")}
        whole += library["sha256"]
    share = build.frame_pointers
    kept = "unknown" if share is None else "kept" if share >= 0.3 else "omitted"
    return {
        "engine_artifact": hashlib.sha256(whole.encode()).hexdigest()[:16],
        **facts,
        **build.released,
        "engine_frame_pointers": kept,
    }


def build_facts(path: Path) -> dict[str, str]:
    """SHA-256, build id, compilers, flags, link-time optimisation and debug information of an ELF file.

    `not recorded` for what the file does not say.
    """
    facts = {"sha256": _sha256(path), "build_id": build_id(path) or "none"}
    compiler = flags = ""
    lto, debug = "not recorded", "none"
    with contextlib.suppress(OSError, ELFError, DWARFError), path.open("rb") as file:
        elf = ELFFile(file)
        comment, switches = _data(elf, ".comment"), _data(elf, ".GCC.command.line")
        # Libraries that are linked in leave other notes there.
        compiler = ", ".join(dict.fromkeys(word for word in _words(comment) if not word.startswith(_NOTES)))
        flags = " ".join(dict.fromkeys(_words(switches)))
        names = _data(elf, ".strtab") + _data(elf, ".dynstr")
        if b".lto_priv" in names:
            lto = "gcc"
        elif b".llvm." in names:
            lto = "clang, thin"
        elif _data(elf, ".strtab"):
            lto = "not detected"
        if elf.get_section_by_name(".debug_info") is not None:
            debug = "there"
            producer = _producer(elf)
            flags = flags or producer
            lto = "yes" if "-flto" in producer or "GIMPLE" in producer else lto
    return {
        **facts,
        "compiler": compiler or "not recorded",
        "flags": _PLACES.sub("", flags) or "not recorded",
        "lto": lto,
        "debug": debug,
    }


def build_id(path: Path) -> str:
    """The linker's build id, in hex; "" where there is none."""
    with contextlib.suppress(OSError, ELFError), path.open("rb") as file:
        for section in ELFFile(file).iter_sections():
            if isinstance(section, NoteSection):
                for note in section.iter_notes():
                    if note["n_type"] == "NT_GNU_BUILD_ID":
                        return str(note["n_desc"])
    return ""


def loaded_libraries(pid: int, build: EngineBuild) -> dict[str, str]:
    """What else is mapped as code into a running client: its libraries by build id, libc and allocator among them.

    Empty where its maps cannot be read any more.
    """
    found: dict[str, str] = {}
    for path in dict.fromkeys(_mapped(pid)):
        if ".so" in path.name and path.resolve() not in (build.code, build.path.resolve()):
            name = re.sub(r"(\.so).*", r"\1", path.name)
            found[f"library {name}"] = f"{path.name} {build_id(path)[:16] or _sha256(path)[:16]}"
    if not found:
        return {}
    return {"allocator": _allocator(found, build), **dict(sorted(found.items()))}


def _mapped(pid: int) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and "x" in fields[1] and fields[5].startswith("/"):
                yield Path(fields[5].removesuffix(" (deleted)"))


def _allocator(libraries: Mapping[str, str], build: EngineBuild) -> str:
    for value in libraries.values():
        named = _ALLOCATOR_FILE.match(value)
        if named:
            return named[1]
    for file in (build.path, build.code):
        with contextlib.suppress(OSError, ELFError), file.open("rb") as opened:
            elf = ELFFile(opened)
            names = b"\0" + _data(elf, ".strtab") + _data(elf, ".dynstr")
            for symbol, name in _ALLOCATORS.items():
                if symbol in names:
                    return name
    return "libc"


def _sha256(path: Path) -> str:
    try:
        return file_sha256(path)
    except OSError:
        return "unreadable"


def _data(elf: ELFFile, name: str) -> bytes:
    section = elf.get_section_by_name(name)
    return bytes(section.data()) if section is not None else b""


def _words(data: bytes) -> list[str]:
    return [word.decode("utf-8", "replace").strip() for word in data.split(b"\0") if word]


def _producer(elf: ELFFile) -> str:
    """DW_AT_producer of most units: the compiler and, of gcc, its switches. "" where there is none to be read."""
    if sum(section["sh_size"] for section in elf.iter_sections() if section.name.startswith(".debug")) > _LARGEST_DEBUG:
        return ""
    producers: Counter[str] = Counter()
    for unit in islice(elf.get_dwarf_info(relocate_dwarf_sections=False).iter_CUs(), _UNITS):
        told = unit.get_top_DIE().attributes.get("DW_AT_producer")
        if told is not None:
            producers[bytes(told.value).decode("utf-8", "replace")] += 1
    return producers.most_common(1)[0][0] if producers else ""
