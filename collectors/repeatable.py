"""How a program is started that is to do the same each time, and what its counts depend on besides the program.

Time decides nothing: neither when jemalloc gives memory back nor, by its size, how libc copies. Where that is not so,
../docs/counting.md says why.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from pathlib import Path

from ground.errors import HostError
from ground.system.elf import build_id
from ground.system.process import capture

ALLOCATORS = ("jemalloc", "libc")
# Copies by `rep movsb` count each byte as an instruction.
_TUNABLES = ":".join(f"glibc.cpu.x86_rep_{of}_threshold=1000000000" for of in ("movsb", "stosb"))
_JEMALLOC = "dirty_decay_ms:-1,muzzy_decay_ms:-1"
_PADDING = "IOFLAME_PADDING"


def repeatable(argv: Sequence[str], directory: Path, padding: int, preload: Path | None) -> list[str]:
    """The command line of `argv`, in `directory` and an environment that is the same everywhere.

    padding: bytes by which the environment is longer, so that stacks lie elsewhere
    preload: the library of an allocator
    """
    environment = {"PATH": "/usr/bin:/bin", "LANG": "C", "GLIBC_TUNABLES": _TUNABLES, _PADDING: "x" * padding}
    if preload is not None:
        environment |= {"LD_PRELOAD": str(preload), "MALLOC_CONF": _JEMALLOC}
    return ["env", "-i", f"--chdir={directory}", *(f"{name}={value}" for name, value in environment.items()), *argv]


def repeatable_command(argv: Sequence[str], padding: int) -> list[str]:
    """The same of a command of the user's, in its own directory and environment."""
    return ["env", f"GLIBC_TUNABLES={_TUNABLES}", f"{_PADDING}={'x' * padding}", *argv]


def allocator_library(name: str) -> Path | None:
    """That is loaded before the program: of jemalloc; None for libc's own. HostError where it is not installed."""
    if name == "libc":
        return None
    found = _loaded_as(f"{name}.so")
    if found is None:
        package = allocator_package(name)
        raise HostError(f"{package} is not installed", mend=f"sudo apt-get install {package}, or --allocator libc")
    return found


def allocator_package(name: str) -> str:
    """Debian's, where the allocator has to be installed; "" where it is there, or is libc's own."""
    return f"lib{name}2" if name != "libc" and _loaded_as(f"{name}.so") is None else ""


def _loaded_as(name: str) -> Path | None:
    """The path of a shared library by the loader's list."""
    listed = capture(["ldconfig", "-p"], timeout=20).text
    match = re.search(rf"^\s*lib{re.escape(name)}[.\d]* \(.*=> (\S+)$", listed, re.MULTILINE)
    return Path(match[1]).resolve() if match else None


def facts_of_program(client: Path, allocator: str) -> dict[str, str]:
    """What decides how many instructions it takes, besides the engine: names, and build ids."""
    preload = allocator_library(allocator)
    libc = _loaded_as("c.so")
    return {
        "libc": _id(libc) if libc else "unknown",
        "allocator": f"{preload.name} {_id(preload)}" if preload else "libc",
        "client": _id(client),
        "processor": platform.machine(),
    }


def _id(path: Path) -> str:
    try:
        return build_id(path.read_bytes())[:16] or "without build id"
    except OSError:
        return "unknown"
