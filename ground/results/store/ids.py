"""Ids of frames and stacks, made of their content: the same anywhere, so files of several stores merge by union.

BLAKE2b (RFC 7693), which every language has: 64 bits of a frame, 128 of a stack.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Sequence
from pathlib import PurePosixPath

from ground.results.frame_marks import MARK

# What a compiler adds to the name of a function that it cloned, split or made local.
_CLONE = re.compile(r"(?:\.(?:isra|constprop|part|cold|lto_priv|llvm|localalias|cfi)(?:\.\d+)*|@@?[A-Z]\w*_[\d.]+)+$")
# async-profiler's marks tell how a function of Java was compiled: each is a frame of its own, and one function.
_OF_ANY_PROFILER = re.compile(r"_\[([ki])\]$")
# What each run has anew in the name of a file, as stackfold's `without_random` has it: a JVM's librocksdbjni16405...so.
_RANDOM = re.compile(r"\d{15,}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def canonical_name(name: str) -> str:
    """The name without marks (kernel, inlined, how compiled) and what a compiler adds: of all builds the same."""
    return _CLONE.sub("", MARK.sub("", name))


class FrameTable:
    """Frames and stacks as they are met, each once; `frames` and `stacks` are rows for the store."""

    def __init__(self) -> None:
        self.frames: dict[int, dict[str, object]] = {}
        self.stacks: dict[tuple[int, int], dict[str, object]] = {}
        self._known: dict[tuple[str, str, str, int], int] = {}

    def frame(self, name: str, obj: str = "", file: str = "", line: int = 0) -> int:
        """The id of a frame; `_[k]` and `_[i]` at a name's end say that it is the kernel's, or inlined."""
        key = (name, obj, file, line)
        if key in self._known:
            return self._known[key]
        mark = _OF_ANY_PROFILER.search(name)
        kernel, inlined = bool(mark and mark[1] == "k"), bool(mark and mark[1] == "i")
        plain, base = _OF_ANY_PROFILER.sub("", name), _RANDOM.sub("*", PurePosixPath(obj).name)
        # Only some profiles have file and line; in those, a frame of another line is another frame.
        whole = "\0".join((plain, base, str(kernel), str(inlined), file, str(line) if line else ""))
        number: int
        (number,) = struct.unpack(
            "<q", hashlib.blake2b(whole.encode("utf-8", "surrogateescape"), digest_size=8).digest()
        )
        self.frames[number] = {
            "frame": number, "name": name, "canonical": canonical_name(name), "object": obj, "kernel": kernel,
            "inlined": inlined, "file": file, "line": line or None,
        }  # fmt: skip
        self._known[key] = number
        return number

    def stack(self, frames: Sequence[int]) -> tuple[int, int]:
        """The id of a stack of frames, the root first."""
        packed = struct.pack(f"<{len(frames)}q", *frames)
        high, low = struct.unpack("<2q", hashlib.blake2b(packed, digest_size=16).digest())
        if (high, low) not in self.stacks:
            self.stacks[high, low] = {"stack_hi": high, "stack_lo": low, "frames": list(frames)}
        return high, low
