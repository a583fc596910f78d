"""valgrind's callgrind: how a program is started under it, and what its counts depend on besides the program.

In a fixed environment it counts the same each time: time decides nothing, neither when jemalloc gives memory back nor,
by its size, how libc copies. Where that is not so, ../docs/counting.md says why.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from pathlib import Path

from ground.errors import HostError
from ground.system.elf import build_id
from ground.system.process import capture

__all__ = ("ALLOCATORS", "allocator_library", "counting_argv", "counting_command", "depends_on")

ALLOCATORS = ("jemalloc", "libc")
_CALLGRIND = (
    "-q", "--tool=callgrind", "--combine-dumps=yes", "--separate-threads=yes", "--separate-callers=80",
    "--branch-sim=yes", "--collect-bus=yes", "--collect-systime=nsec",
)  # fmt: skip
# Of our client, which says when counting begins.
_ASKED_FOR = "--instr-atstart=no"
# Copies by `rep movsb` count each byte as an instruction.
_TUNABLES = ":".join(f"glibc.cpu.x86_rep_{of}_threshold=1000000000" for of in ("movsb", "stosb"))
_JEMALLOC = "dirty_decay_ms:-1,muzzy_decay_ms:-1"
_PADDING = "IOFLAME_PADDING"


def counting_argv(
    valgrind: str, argv: Sequence[str], counts: str, directory: Path, padding: int, preload: Path | None
) -> list[str]:
    """The command line that counts `argv`, in `directory`; its output is the file `counts` there.

    padding: bytes by which the environment is longer, so that stacks lie elsewhere
    preload: the library of an allocator; valgrind: the program
    """
    environment = {"PATH": "/usr/bin:/bin", "LANG": "C", "GLIBC_TUNABLES": _TUNABLES, _PADDING: "x" * padding}
    if preload is not None:
        environment |= {"LD_PRELOAD": str(preload), "MALLOC_CONF": _JEMALLOC}
    fixed = ["env", "-i", f"--chdir={directory}", *(f"{name}={value}" for name, value in environment.items())]
    return [*fixed, valgrind, *_CALLGRIND, _ASKED_FOR, f"--callgrind-out-file={counts}", *argv]


def counting_command(valgrind: str, argv: Sequence[str], counts: Path, padding: int) -> list[str]:
    """The command line that counts a command of the user's from its start, in its own directory and environment."""
    added = [f"GLIBC_TUNABLES={_TUNABLES}", f"{_PADDING}={'x' * padding}"]
    return ["env", *added, valgrind, *_CALLGRIND, f"--callgrind-out-file={counts}", *argv]


def allocator_library(name: str) -> Path | None:
    """That is loaded before the program: of jemalloc; None for libc's own. HostError where it is not installed."""
    if name == "libc":
        return None
    found = _loaded_as(f"{name}.so")
    if found is None:
        raise HostError(
            f"lib{name} is not installed",
            means="with libc's allocator counts differ by what was freed before (a scan by 0.6 %)",
            mend=f"sudo apt-get install lib{name}2, or --allocator libc",
        )
    return found


def _loaded_as(name: str) -> Path | None:
    """The path of a shared library by the loader's list."""
    listed = capture(["ldconfig", "-p"], timeout=20).text
    match = re.search(rf"^\s*lib{re.escape(name)}[.\d]* \(.*=> (\S+)$", listed, re.MULTILINE)
    return Path(match[1]).resolve() if match else None


def depends_on(valgrind: str, client: Path, allocator: str) -> dict[str, str]:
    """What decides how many instructions are counted, besides the engine: names, and versions or build ids."""
    preload = allocator_library(allocator)
    libc = _loaded_as("c.so")
    version = capture([valgrind, "--version"], timeout=20).text.strip()
    return {
        "valgrind": version.removeprefix("valgrind-"),
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
