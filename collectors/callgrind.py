"""valgrind's callgrind: how a program is started under it, and what its counts depend on besides the program."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

from collectors.repeatable import facts_of_program, repeatable, repeatable_command
from ground.system.process import Child, capture

_CALLGRIND = (
    "-q", "--tool=callgrind", "--combine-dumps=yes", "--separate-threads=yes", "--separate-callers=80",
    "--branch-sim=yes", "--collect-bus=yes", "--collect-systime=nsec",
)  # fmt: skip
# Each process has a file; what a process did before it forks is in its own alone, as its counts begin anew there.
_OF_EACH_PROCESS = ("--trace-children=yes", "--dump-before=fork", "--dump-before=vfork")
# Of our client, which says when counting begins.
_ASKED_FOR = "--instr-atstart=no"


def counting_argv(
    valgrind: str, argv: Sequence[str], counts: str, directory: Path, padding: int, preload: Path | None
) -> list[str]:
    """The command line that counts `argv`, as `repeatable` starts it; its output is the file `counts` there.

    valgrind: the program
    """
    counting = [valgrind, *_CALLGRIND, _ASKED_FOR, f"--callgrind-out-file={counts}", *argv]
    return repeatable(counting, directory, padding, preload)


def counting_command(valgrind: str, argv: Sequence[str], counts: Path, padding: int) -> list[str]:
    """The command line that counts a command of the user's from its start, in its own directory and environment.

    counts: an existing directory, which gets a file of each process that it starts, called by its id
    """
    escaped = str(counts).replace("%", "%%")
    return repeatable_command(
        [valgrind, *_CALLGRIND, *_OF_EACH_PROCESS, f"--callgrind-out-file={escaped}/%p", *argv], padding
    )


def counted_program(counts: Path) -> str:
    """The program of the process whose counts a file holds; "?" where it does not say."""
    with counts.open("rb") as file:
        found = next((line[5:].split() for line in file if line.startswith(b"cmd: ")), [])
    return found[0].decode("utf-8", "replace") if found else "?"


def probed_by_others(child: Child) -> tuple[str, str]:
    """What it means that a counted program ended by SIGTRAP, and what mends it; empty for another end.

    A uprobe that names no process is written into the code of all that map its file, and valgrind translates what is
    in memory: the breakpoint, which the kernel takes for its own only where it runs at the probe's own address.
    """
    if child.returncode != -signal.SIGTRAP:
        return "", ""
    return (
        "its code has a breakpoint, most likely of a tracer that has a uprobe in the same program or library for all "
        "processes (bpftrace, perf probe): valgrind does not run over it",
        "end that tracer, and count again   (which there are: bpftool link; cat /sys/kernel/tracing/uprobe_events)",
    )


def depends_on(valgrind: str, client: Path, allocator: str) -> dict[str, str]:
    """What decides how many instructions are counted, besides the engine: names, and versions or build ids."""
    version = capture([valgrind, "--version"], timeout=20).text.strip()
    return {"valgrind": version.removeprefix("valgrind-"), **facts_of_program(client, allocator)}
