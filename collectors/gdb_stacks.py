"""The text of gdb's `thread apply all bt`, as stacks by thread."""

from __future__ import annotations

import re
from collections.abc import Collection

# `Thread 2 (Thread 0x7f21 (LWP 4711) "name"):`; `(LWP 4711)` or `(process 4711)` without a thread library.
_THREAD = re.compile(rb"Thread \d+ \((?:Thread 0x[0-9a-f]+ \()?(?:LWP|process) (\d+)\)?")
# `#1  0x00007f21 in read () from /lib/libc.so.6`; the first frame may have no address.
_FRAME = re.compile(rb"#\d+\s+(?:0x[0-9a-f]+ in )?(.*)")


def stacks_by_thread(text: bytes, threads: Collection[int]) -> dict[int, list[bytes]]:
    """The frames of each thread, root first.

    threads: those the process really has. The name of a thread is printed too, and may hold a line feed and anything
             that looks like another thread; whose number is none of these is no header.
    """
    found: dict[int, list[bytes]] = {}
    frames: list[bytes] | None = None
    for line in text.split(b"\n"):
        header = _THREAD.match(line)
        if header and int(header[1]) in threads:
            frames = found.setdefault(int(header[1]), [])
            continue
        frame = _FRAME.match(line)
        if frame and frames is not None:
            frames.append(frame_name(frame[1]))
    return {tid: frames[::-1] for tid, frames in found.items() if frames}


def frame_name(text: bytes) -> bytes:
    """`name (arguments) from FILE` as stackfold would name it: no arguments; `[file]` where there is no name."""
    call, _, origin = text.partition(b") from ")
    if not origin:
        call = re.sub(rb"\) at \S+:\d+$", b"", text)
    call = call.removesuffix(b")")
    name = call[: call.rfind(b" (")] if b" (" in call else call
    if name in (b"??", b""):
        name = b"[" + origin.strip().rpartition(b"/")[2] + b"]" if origin else b"[unknown]"
    return re.sub(rb"[\t\r]", b" ", _without_arguments(name)).replace(b";", b":")


def _without_arguments(name: bytes) -> bytes:
    """A C++ symbol carries the types of its arguments: all from the bracket that the last one closes."""
    end = name.removesuffix(b" const")
    if not end.endswith(b")") or end.endswith((b"(anonymous namespace)", b"operator()")):
        return name
    depth = 0
    for at in range(len(end) - 1, -1, -1):
        depth += {ord(")"): 1, ord("("): -1}.get(end[at], 0)
        if depth == 0:
            return end[:at] or name
    return name
