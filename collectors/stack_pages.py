"""Stacks brought into memory whole, so that perf can copy them.

The kernel copies a user stack (`--call-graph dwarf`) with page faults off: the copy ends at the first page that is not
in memory. A page in the middle of a stack may never have been: a buffer of 5,000 bytes in a frame of RocksDB's block
fetcher is not written to while blocks are larger than it, and the frames that lead to the thread's start are above it.
A third of a profile's weight was cut there. Reading such a page through /proc/PID/mem maps the kernel's page of zeros
in its place: for the process its content is the same as before.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

# The kernel gives no stack pointer of a thread that runs or waits for a CPU; one that reads from a device soon waits
# for it again, on a quiet host.
_PATIENCE_SECONDS = 0.1
_MAPPED = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ (\d+)", re.MULTILINE)


def touch_stacks(pid: int, reach: int) -> None:
    """Reads what perf may copy of each thread's stack.

    reach: bytes that perf copies of a stack. Around the stack pointers that the kernel tells, and of each mapping above
    a guard page (so glibc and musl lay out a thread's stack) twice as much of its top, where the thread began: its own
    data, of some KiB, are above its first frame. Nothing is stopped, and nothing of what is read is kept. OSError
    without the rights to trace the process, or when it has ended.
    """
    pointers = _stack_pointers(pid)
    mapped = list(_mapped(Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")))
    areas = [(max(start, end - 2 * reach), end) for start, end, above_guard in mapped if above_guard]
    for pointer in pointers:
        holds = ((start, end) for start, end, _ in mapped if start <= pointer < end)
        areas += [(max(start, pointer - reach), min(end, pointer + reach)) for start, end in holds]
    page = os.sysconf("SC_PAGESIZE")
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    try:
        for first, end in areas:
            # Of a thread that has ended meanwhile the stack may be gone.
            with contextlib.suppress(OSError):
                for address in range(first - first % page, end, page):
                    os.pread(memory, 1, address)
    finally:
        os.close(memory)


def _mapped(maps: str) -> Iterator[tuple[int, int, bool]]:
    """Start and end of each mapping of /proc/PID/maps that can be read; whether a guard page is right below it."""
    guarded = -1
    for start_text, end_text, rights, inode in _MAPPED.findall(maps):
        start, end = int(start_text, 16), int(end_text, 16)
        if rights == "---p":
            guarded = end
        elif rights[0] == "r":
            yield start, end, start == guarded and rights == "rw-p" and inode == "0"


def _stack_pointers(pid: int) -> list[int]:
    """Of the threads that wait, or do so soon: the last word but one of /proc/PID/task/TID/syscall."""
    found = []
    threads = list(Path(f"/proc/{pid}/task").iterdir())
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while threads and time.monotonic() < deadline:
        running = []
        for thread in threads:
            try:
                words = (thread / "syscall").read_text(encoding="utf-8").split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if words[:1] == ["running"]:
                running.append(thread)
            elif len(words) > 2:
                found.append(int(words[-2], 16))
        threads = running
    return found
