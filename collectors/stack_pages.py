"""Stacks brought into memory whole, so that perf can copy them.

The kernel copies a user stack (`--call-graph dwarf`) with page faults off: the copy ends at the first page that is not
in memory. A page in the middle of a stack may never have been: a buffer of 5,000 bytes in a frame of RocksDB's block
fetcher is not written to while blocks are larger than it, and the frames that lead to the thread's start are above it.
A third of a profile's weight was cut there. Reading such a page through /proc/PID/mem maps the kernel's page of zeros
in its place: for the process its content is the same as before.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

# The kernel gives no stack pointer of a running thread; one that reads from a device soon waits again.
_PATIENCE_SECONDS = 0.1
_MAPPED = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) r", re.MULTILINE)


def touch_stacks(pid: int, reach: int) -> int:
    """Reads each thread's stack from `reach` bytes below its stack pointer to as many above it. How many were read.

    reach: bytes that perf copies of a stack. Nothing is stopped, and nothing of what is read is kept. Threads that run
    without a pause are left out. OSError without the rights to trace the process, or when it has ended.
    """
    pointers = _stack_pointers(pid)
    maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
    mapped = [(int(start, 16), int(end, 16)) for start, end in _MAPPED.findall(maps)]
    page = os.sysconf("SC_PAGESIZE")
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    try:
        for pointer in pointers:
            for start, end in (area for area in mapped if area[0] <= pointer < area[1]):
                first = max(start, pointer - reach)
                for address in range(first - first % page, min(end, pointer + reach), page):
                    os.pread(memory, 1, address)
    finally:
        os.close(memory)
    return len(pointers)


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
