"""What an ELF file tells of a build: symbols, and whether its functions keep frame pointers."""

from __future__ import annotations

import contextlib
import os
import re
import struct
from itertools import islice
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

# How a function that keeps a frame pointer begins, after an optional landing pad (endbr64 / bti c).
_PROLOGUES = {
    "EM_X86_64": (b"\x55\x48\x89\xe5", b"\xf3\x0f\x1e\xfa"),  # push %rbp; mov %rsp,%rbp
    "EM_AARCH64": (b"\xfd\x7b", b"\x5f\x24\x03\xd5"),  # stp x29, x30, [sp, #imm]!
}

# By what the kernel calls the machine.
_MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}


def why_not_loadable(path: Path) -> str:
    """Why a file is no library of this machine, as the end of a sentence; "" where it is one.

    A loader maps a file that was cut short and dies of the page that is not there.
    """
    if not path.is_file():
        return "is a directory" if path.is_dir() else "does not exist"
    try:
        with path.open("rb") as file:
            return _of_another_kind(ELFFile(file), path.stat().st_size)
    except (ELFError, struct.error, KeyError, TypeError):
        return "is no whole ELF file"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _of_another_kind(elf: ELFFile, size: int) -> str:
    header, machine = elf.header, _MACHINES.get(os.uname().machine, "")
    if header["e_type"] != "ET_DYN":
        return "is no shared library"
    if header["e_machine"] != machine:
        return f"is a library for {header['e_machine']}; this host is {machine or os.uname().machine}"
    ends = [segment["p_offset"] + segment["p_filesz"] for segment in elf.iter_segments()]
    end = max(*ends, header["e_shoff"] + header["e_shentsize"] * header["e_shnum"])
    return f"is cut short: {size} bytes of {end}" if end > size else ""


def exports(path: Path, prefix: str) -> bool:
    """Whether a library exports a function whose symbol begins so."""
    with contextlib.suppress(OSError, ELFError), path.open("rb") as file:
        elf = ELFFile(file)
        table = elf.get_section_by_name(".dynsym")
        return isinstance(table, SymbolTableSection) and any(
            symbol.name.startswith(prefix) and symbol["st_shndx"] != "SHN_UNDEF" for symbol in table.iter_symbols()
        )
    return False


def symbol_kind(path: Path) -> str:
    """`debug info`, `symbol table`, `exported names only` or `not an ELF file`."""
    with contextlib.suppress(OSError, ELFError), path.open("rb") as file:
        elf = ELFFile(file)
        if elf.get_section_by_name(".debug_info") or elf.get_section_by_name(".zdebug_info"):
            return "debug info"
        return "symbol table" if elf.get_section_by_name(".symtab") else "exported names only"
    return "not an ELF file"


def asserts(path: Path, namespace: str) -> bool:
    """Whether C++ code of `namespace` in the file was built with assertions: each keeps the signature of its function.

    Who calls `__assert_fail` may as well be a library that is linked in (Snappy and Zstandard in rocksdbjni).
    """
    signature = re.compile(rb"(?<![\w:])%s::[^\0(]*\([^\0]*\)" % namespace.encode())
    with contextlib.suppress(OSError, ELFError), path.open("rb") as file:
        elf = ELFFile(file)
        table, constants = elf.get_section_by_name(".dynsym"), elf.get_section_by_name(".rodata")
        if isinstance(table, SymbolTableSection) and constants is not None:
            return bool(table.get_symbol_by_name("__assert_fail")) and signature.search(constants.data()) is not None
    return False


def frame_pointer_share(path: Path, beginning: str = "", *, limit: int = 4000) -> float | None:
    """Share (0..1) of the first `limit` functions in the symbol tables that set up a frame pointer at once.

    beginning: of the names of those that count

    Leaf functions and those that save registers first count as without, so a build with frame pointers shows well
    below 1: 0.5 and more means kept, a few hundredths means omitted. None where there is nothing to count.
    """
    with contextlib.suppress(OSError, ELFError), path.open("rb") as file:
        elf = ELFFile(file)
        known = _PROLOGUES.get(elf["e_machine"])
        text = elf.get_section_by_name(".text")
        table = elf.get_section_by_name(".symtab") or elf.get_section_by_name(".dynsym")
        if known is None or text is None or not isinstance(table, SymbolTableSection):
            return None
        prologue, landing_pad = known
        code, base = text.data(), text["sh_addr"]
        starts = (
            symbol["st_value"] - base
            for symbol in table.iter_symbols()
            if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_size"] >= 64 and symbol.name.startswith(beginning)
        )
        within = islice((start for start in starts if 0 <= start < len(code)), limit)
        kept = [prologue in code[start : start + 64].removeprefix(landing_pad) for start in within]
        return sum(kept) / len(kept) if kept else None
    return None
