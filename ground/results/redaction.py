"""Names of a target that nobody else is to read, as hashes: of its functions, files, threads and commands.

What is kept is known to everybody: names of the kernel, of the C and C++ libraries and allocators, and of the engine.
One name has one hash within a run; the salt is a file of the run until all is written, and then nowhere. Until then who
hashes, and what it started, holds a lock on the directory, which the kernel takes back from a process that was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ground.results.files import Files
from ground.results.frame_marks import MARK
from ground.system.atomic_files import read_json, write_json, write_whole
from ground.system.process import inherited

_KERNEL = "_[k]"
_NAMELESS = ("[unknown]", "[no frames]")
# Of the objects that everybody has.
_LIBRARIES = (
    r"\[.*\]",  # the kernel, its modules, the vDSO
    r"ld(-linux[-\w]*|-musl[-\w]*|64)?[-.\d]*\.so[.\d]*",
    r"lib(c|m|dl|rt|pthread|resolv|stdc\+\+|c\+\+|c\+\+abi|gcc_s|unwind)(-[.\d]+)?\.so[.\d]*",
    r"lib(jemalloc|tcmalloc\w*|mimalloc[-\w]*)\.so[.\d]*",
)


@dataclass(frozen=True)
class Redaction:
    """salt: hexadecimal; the others are patterns of what is kept beside what everybody has.

    files:   names of files all of whose functions are the engine's
    frames:  functions of the engine, wherever they are linked into
    threads: names of threads
    """

    salt: str = field(default_factory=lambda: secrets.token_hex(16))
    files: list[str] = field(default_factory=list)
    frames: list[str] = field(default_factory=list)
    threads: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def within(self, directory: Path) -> Iterator[None]:
        """Within, and until `end_redaction`: profiles that are folded into the directory are redacted."""
        with _locked(directory) as lock, inherited(lock):
            write_json(directory / Files.SALT, self)
            yield

    def hidden(self, name: str) -> str:
        return (
            "h"
            + hashlib.blake2b(name.encode("utf-8", "replace"), key=bytes.fromhex(self.salt), digest_size=5).hexdigest()
        )

    def thread(self, name: str) -> str:
        return name if _matches((*self.threads, *self.files), name) else self.hidden(name)

    def file(self, path: str) -> str:
        """A mapped file, or a program: of one that everybody knows its name, never the directory that it is in."""
        return path.rpartition("/")[2] if not path or self._is_known(path) else self.hidden(path)

    def _is_known(self, path: str) -> bool:
        return _matches((*_LIBRARIES, *self.files), Path(path.removesuffix(" (deleted)")).name)

    def frame(self, frame: str, path: str) -> str:
        """path: of the object that it is in; "" where that is not known"""
        if frame.endswith(_KERNEL) or (path and self._is_known(path)):
            return frame
        mark = MARK.search(frame)
        name, end = (frame[: mark.start()], mark[0]) if mark else (frame, "")
        if name in _NAMELESS:
            return frame
        if name.startswith("[") and name.endswith("]"):  # no name, in this object
            return f"[{self.hidden(name[1:-1])}]{end}"
        if not _matches(self.frames, name):
            return self.hidden(name) + end
        # Arguments of a template may be of the application.
        outer, opened, inner = name.partition("<")
        return outer + (f"<{self.hidden(inner)}>" if opened else "") + end

    def redact(self, profile: Path, stacks: Iterable[Path], statistics: Path | None) -> None:
        """A profile as stackfold wrote it, and what it wrote beside it.

        stacks: lines that end with `comm;frame;frame WEIGHT` or with `<TAB>comm;frame;frame`; statistics: as JSON
        """
        content = json.loads(profile.read_bytes())
        names, objects = content["names"], content["objects"]
        shown: dict[str, str] = {name: name for name in content["states"]}
        for name, thing in zip(content["frames"]["name"], content["frames"]["object"], strict=True):
            found = self.frame(names[name], objects[thing])
            # A name that everybody knows may be in a file of the target's as well.
            if shown.get(names[name]) != names[name]:
                shown[names[name]] = found
        for name in (names[number] for number in content["threads"]["name"]):
            shown.setdefault(name, self.thread(name))
        content["names"] = [shown.get(name, self.hidden(name)) for name in names]
        content["objects"] = [self.file(path) for path in objects]
        for view in content["views"].values():
            for frame in view["report"]["other_frames"]:
                frame["frame"] = shown.get(frame["frame"], self.hidden(frame["frame"]))
        for event in (content["check"] or {"events": []})["events"]:
            for difference in event.get("differences", []):
                difference["symbol"] = shown.get(difference["symbol"], self.hidden(difference["symbol"]))
        _forget_notes(content["statistics"])
        write_whole(profile, json.dumps(content, separators=(",", ":")).encode())
        for path in stacks:
            write_whole(path, "".join(self._lines(path, shown)).encode())
        if statistics is not None:
            content = json.loads(statistics.read_bytes())
            _forget_notes(content)
            write_whole(statistics, json.dumps(content, indent=2).encode())

    def _lines(self, path: Path, shown: dict[str, str]) -> Iterator[str]:
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            head, tab, stack = line.rpartition("\t")
            frames, blank, weight = (stack, "", "") if tab else stack.rpartition(" ")
            words = (shown[frame] if frame in shown else self.hidden(frame) for frame in frames.split(";"))
            yield f"{head}{tab}{';'.join(words)}{blank}{weight}\n"


def read_redaction(directory: Path) -> Redaction | None:
    """That of a run directory; None where its names are to be read by all, or all is written."""
    path = directory / Files.SALT
    return read_json(path, Redaction) if path.exists() else None


def is_abandoned(directory: Path) -> bool:
    """Whether a run directory holds names that were to be hashed, by somebody who is gone."""
    if not (directory / Files.SALT).exists():
        return False
    try:
        with _locked(directory):
            return (directory / Files.SALT).exists()
    except BlockingIOError:
        return False


def end_redaction(directory: Path) -> None:
    """All that holds a name is gone. Nothing can be hashed again."""
    (directory / Files.SALT).unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[int]:
    """The descriptor that holds the lock; BlockingIOError where somebody else has it."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield descriptor
    finally:
        os.close(descriptor)


def _matches(patterns: Iterable[str], name: str) -> bool:
    return any(re.fullmatch(pattern, name, re.DOTALL) for pattern in patterns)


def _forget_notes(statistics: dict[str, Any]) -> None:
    """They name files, functions, and lines that could not be read."""
    statistics.update(notes=[], dropped_first=[], cut_at=[])
