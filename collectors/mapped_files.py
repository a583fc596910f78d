"""Copies of what a target has mapped and cannot be read by its path once the recording is folded.

A file may be deleted, replaced, or in a mount namespace that goes with the target; so may the map of a run-time
compiler, `/tmp/perf-PID.map`, with the number that the process has in its own pid namespace.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from ground.results.checks import Check, Verdict
from ground.results.files_at_paths import COPIED, FileAtPath, write_files_at_paths
from ground.system.held_process import HeldProcess
from ground.system.proc_stat import named_fields

# A server's processes have mapped the same.
_LOOKED_AT = 64
# A large server with its debug information takes some of it.
_MOST_BYTES = 2 << 30
_LARGEST_MAP = 256 << 20
_DELETED = " (deleted)"


class MappedFiles:
    """A directory with copies, each below the path that it was mapped under; made with the first of them.

    paths: all that was mapped to be run, copied or not
    """

    def __init__(self, directory: Path) -> None:
        self.paths: set[str] = set()
        self._directory = directory
        self._left = _MOST_BYTES
        self._known: dict[str, tuple[int, int]] = {}
        # Device, inode and path of what was looked at; a file that is deleted later has another path.
        self._looked_at: set[str] = set()
        self._copied: list[FileAtPath] = []
        self._lost: dict[str, str] = {}
        self._compilers: dict[int, bool] = {}

    def keep(self, processes: Iterable[HeldProcess]) -> None:
        """Copies what those of them have mapped that run; what was copied before is not copied again."""
        for process, _ in zip((process for process in processes if process.alive), range(_LOOKED_AT), strict=False):
            has_jvm = False
            for span, file, path in _code(process):
                has_jvm = has_jvm or path.endswith("/libjvm.so")
                if file not in self._looked_at:
                    self._looked_at.add(file)
                    self.paths.add(path.removesuffix(_DELETED))
                    self._keep_file(process, span, file, path)
            if (kept := self._keep_map(process)) or has_jvm:
                self._compilers[process.pid] = kept

    def checks(self) -> Iterator[Check]:
        """Whose frames have no names."""
        for path, why in self._lost.items():
            yield Check("names", Verdict.WARN, f"{path}: {why}", "its frames may have no names")
        for pid in (pid for pid, kept in self._compilers.items() if not kept):
            yield Check(
                "names",
                Verdict.NOTE,
                f"the JVM of process {pid} has written no map of its code",
                "Java frames have no names; the categories of a library below them need none",
                f"jcmd {pid} Compiler.perfmap   (while it runs; JDK 17 or later), and attach again",
            )

    def _keep_file(self, process: HeldProcess, span: str, mapped: str, path: str) -> None:
        """span: of addresses, as /proc/PID/map_files has it; mapped: device and inode, as perf records them"""
        shown = path.removesuffix(_DELETED)
        source = _opened(process, span, path)
        if source is None:
            with contextlib.suppress(OSError):
                if _is_at(shown, process.path(f"root{path}").stat()):
                    return  # it may be run, but not be read, by us as by the target
            self._lost.setdefault(shown, "it is gone, and what is left of it may not be read (CAP_CHECKPOINT_RESTORE)")
            return
        with source, contextlib.suppress(OSError):
            file = os.fstat(source.fileno())
            identity = (file.st_dev, file.st_ino)
            if self._known.setdefault(shown, identity) != identity:
                self._lost[shown] = "two different files are mapped under this path"
                return
            out = self._directory / shown.lstrip("/")
            if _is_at(shown, file) or out.exists() or not stat.S_ISREG(file.st_mode) or not _is_elf(source):
                return
            if file.st_size > self._left:
                self._lost[shown] = f"it has {file.st_size:,} bytes, more than copies of a run may take"
                return
            self._left -= file.st_size
            _copy(source, out)
            device, inode = mapped.split()[:2]
            major, minor = (int(part, 16) for part in device.split(":"))
            self._copied.append(FileAtPath(shown, major, minor, int(inode)))
            write_files_at_paths(self._directory / COPIED, self._copied)

    def _keep_map(self, process: HeldProcess) -> bool:
        """Whether there is one whose word counts: of the process's own user, or root's."""
        with contextlib.suppress(OSError, KeyError):
            status = named_fields(process.path("status"))
            number, user = status["NSpid"].split()[-1], int(status["Uid"].split()[0])
            path = f"tmp/perf-{number}.map"
            process.path(f"root/{path}").lstat()
            with process.open_inside(path) as source:
                file = os.fstat(source.fileno())
                if stat.S_ISREG(file.st_mode) and file.st_uid in (0, user) and file.st_size <= _LARGEST_MAP:
                    _copy(source, self._directory / "tmp" / f"perf-{process.pid}.map")
                    return True
        return False


def _code(process: HeldProcess) -> Iterator[tuple[str, str, str]]:
    """Addresses, device and inode with the path, and path of each file that is mapped to be run."""
    with contextlib.suppress(OSError):
        for line in process.path("maps").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
            words = line.split(None, 5)
            if len(words) == 6 and "x" in words[1] and words[4] != "0" and words[5].startswith("/"):
                yield "-".join(f"{int(end, 16):x}" for end in words[0].split("-")), " ".join(words[3:]), words[5]


def _opened(process: HeldProcess, span: str, path: str) -> BinaryIO | None:
    """The mapped file; None where it cannot be read. Below map_files that takes CAP_CHECKPOINT_RESTORE."""
    with contextlib.suppress(OSError):
        return process.path(f"map_files/{span}").open("rb")
    with contextlib.suppress(OSError):
        if str(process.path("exe").readlink()) == path:
            return process.path("exe").open("rb")
    with contextlib.suppress(OSError):
        return None if path.endswith(_DELETED) else process.open_inside(path)
    return None


def _is_at(path: str, file: os.stat_result) -> bool:
    """Whether we see that file at its path, too: it can be read later."""
    try:
        return os.path.samestat(Path(path).stat(), file)
    except OSError:
        return False


def _is_elf(file: BinaryIO) -> bool:
    return os.pread(file.fileno(), 4, 0) == b"\x7fELF"


def _copy(source: BinaryIO, out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    half = out.with_name(f"{out.name}.half")
    with half.open("wb") as copy:
        shutil.copyfileobj(source, copy, 1 << 20)
    half.replace(out)
