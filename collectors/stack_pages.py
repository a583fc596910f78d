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
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from ground.system.proc_stat import stat_fields

# The kernel gives no stack pointer of a thread that runs or waits for a CPU; one that reads from a device soon waits
# for it again, on a quiet host.
_PATIENCE_SECONDS = 0.1
_READABLE = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) r", re.MULTILINE)
# glibc has no name for it.
_GET_ROBUST_LIST = {"x86_64": 274, "aarch64": 100}.get(os.uname().machine)
_START_OF_STACK = 25  # field 28 of /proc/PID/stat, as `stat_fields` counts


def touch_stacks(pid: int, reach: int) -> None:
    """Reads what perf may copy of each thread's stack.

    reach: bytes that perf copies of a stack. They are read around each stack pointer that the kernel tells, and twice
    as many below where each thread began, whether it runs or not. Nothing is stopped, and nothing of what is read is
    kept. OSError without the rights to trace the process, or when it has ended.
    """
    areas = [(pointer - reach, pointer, pointer + reach) for pointer in _stack_pointers(pid)]
    areas += [(begin - 2 * reach, begin - 1, begin) for begin in _beginnings(pid)]
    maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
    mapped = [(int(start, 16), int(end, 16)) for start, end in _READABLE.findall(maps)]
    starts = [start for start, _ in mapped]
    page = os.sysconf("SC_PAGESIZE")
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    try:
        for first, within, last in areas:
            start, end = mapped[bisect_right(starts, within) - 1] if mapped else (0, 0)
            if not start <= within < end:
                continue
            # Of a thread that has ended meanwhile the stack may be gone.
            with contextlib.suppress(OSError):
                for address in range(max(first - first % page, start), min(last, end), page):
                    os.pread(memory, 1, address)
    finally:
        os.close(memory)


def _beginnings(pid: int) -> Iterator[int]:
    """Near where each thread's stack begins: of the first by the kernel, of the others by their list of robust mutexes,
    which glibc keeps in what it has of a thread, above its first frame. musl has one only once it is needed."""
    if begin := int(stat_fields(f"/proc/{pid}/stat")[_START_OF_STACK]):
        yield begin
    if _GET_ROBUST_LIST is None:
        return
    import ctypes  # only where it is needed: it takes a while

    libc, head, size = ctypes.CDLL(None), ctypes.c_void_p(), ctypes.c_size_t()
    for thread in Path(f"/proc/{pid}/task").iterdir():
        if int(thread.name) != pid:
            libc.syscall(_GET_ROBUST_LIST, int(thread.name), ctypes.byref(head), ctypes.byref(size))
            if head.value:
                yield head.value
            head.value = None


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
