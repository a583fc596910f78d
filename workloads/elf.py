"""What an ELF file tells of a build: symbols, and whether its functions keep frame pointers."""

from __future__ import annotations

import re
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

__all__ = ("asserts", "frame_pointer_share", "symbol_kind")

# How a function that keeps a frame pointer begins, after an optional landing pad (endbr64 / bti c).
_PROLOGUES = {
    "EM_X86_64": (b"\x55\x48\x89\xe5", b"\xf3\x0f\x1e\xfa"),  # push %rbp; mov %rsp,%rbp
    "EM_AARCH64": (b"\xfd\x7b", b"\x5f\x24\x03\xd5"),  # stp x29, x30, [sp, #imm]!
}


def symbol_kind(path: Path) -> str:
    """`debug info`, `symbol table`, `exported names only` or `not an ELF file`."""
    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            if elf.get_section_by_name(".debug_info") or elf.get_section_by_name(".zdebug_info"):
                return "debug info"
            return "symbol table" if elf.get_section_by_name(".symtab") else "exported names only"
    except (OSError, ELFError):
        return "not an ELF file"


def asserts(path: Path, namespace: str) -> bool:
    """Whether C++ code of `namespace` in the file was built with assertions: each keeps the signature of its function.

    Who calls `__assert_fail` may as well be a library that is linked in (Snappy and Zstandard in rocksdbjni).
    """
    signature = re.compile(rb"(?<![\w:])%s::[^\0(]*\([^\0]*\)" % namespace.encode())
    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            table, constants = elf.get_section_by_name(".dynsym"), elf.get_section_by_name(".rodata")
            if not isinstance(table, SymbolTableSection) or constants is None:
                return False
            return bool(table.get_symbol_by_name("__assert_fail")) and signature.search(constants.data()) is not None
    except (OSError, ELFError):
        return False


def frame_pointer_share(path: Path, beginning: str = "", *, limit: int = 4000) -> float | None:
    """Share (0..1) of the first `limit` functions in the symbol tables that set up a frame pointer at once.

    beginning: of the names of those that count

    Leaf functions and those that save registers first count as without, so a build with frame pointers shows well
    below 1: 0.5 and more means kept, a few hundredths means omitted. None where there is nothing to count.
    """
    try:
        with path.open("rb") as file:
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
                if symbol["st_info"]["type"] == "STT_FUNC"
                and symbol["st_size"] >= 64
                and symbol.name.startswith(beginning)
            )
            seen = kept = 0
            for start in starts:
                if not 0 <= start < len(code):
                    continue
                head = code[start : start + 64]
                seen += 1
                kept += prologue in head.removeprefix(landing_pad)
                if seen >= limit:
                    break
            return kept / seen if seen else None
    except (OSError, ELFError):
        return None
