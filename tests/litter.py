"""What a session of tests leaves behind, told exactly, however many others write to the same places.

- TMPDIR is a directory of the session's own, on the disk of the checkout. Apart from pytest's own part of it, which
  goes with the session, all that is in it at the end was left by a program that the tests ran.
- Programs that write to /tmp, /var/tmp or /dev/shm by name: the session has a mount namespace of its own, where each
  of these is an overlay. What is there is seen through it; what the session makes, changes or removes is in the
  overlay's upper directory, and nobody else's doings are. This takes root and overlayfs; without, it is not watched.
- Processes are the session's by a mark in their environment, mounts by the namespace, loop devices by their file.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from ground.system.scratch import scratch_directory
from tests.places import ROOT

# perf writes the kernel's vDSO there, whatever TMPDIR is, and removes it at its own end: not where a test kills it.
_OF_PERF = "/tmp/perf-vdso.so-*"
# Where programs write by name.
_WATCHED = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))
_CLONE_NEWNS = 0x20000
# Only what hangs is waited for that long; what was killed on a busy host ends before.
_ENDING_SECONDS = 10.0


def session_parent() -> Path:
    """Where sessions have their directories; those of ended ones are gone."""
    parent = ROOT / "target" / "pytest"
    parent.mkdir(parents=True, exist_ok=True)
    _remove_ended(parent)
    return parent


class Session:
    """From its making on, TMPDIR and the watched places are the session's own; `end` puts TMPDIR away.

    parent: of the session's directory
    """

    def __init__(self, parent: Path) -> None:
        self._mark = f"IOFLAME_TEST_SESSION={uuid.uuid4().hex}"
        # The test that runs, and what each has left: a line and its name.
        self._test = "before the first test"
        self._tests: dict[str, str] = {}
        self.directory = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=parent))
        self._temporary = self.directory / "tmp"
        self._temporary.mkdir()
        # As /tmp is: commands run as another user, too.
        self.directory.chmod(0o711)
        self._temporary.chmod(0o1777)
        self.watched = self._watch()
        self._short = self._shorten()
        name, _, value = self._mark.partition("=")
        os.environ[name] = value
        os.environ["TMPDIR"] = str(self._short or self._temporary)
        tempfile.tempdir = None
        self._mounts = _mounts()

    def begins(self, test: str) -> None:
        """A test begins, and what the one before it has left is known."""
        self._note()
        self._test = test

    def _note(self) -> list[str]:
        """What is there now that is not the session's; new lines are the doing of the test that runs."""
        lines = [f"mount {mount}" for mount in sorted(_mounts() - self._mounts)]
        lines += [f"loop device {line}" for line in _loops(self.directory, self._short)]
        # pytest's own, and where the session's upper directories are.
        lines += [str(path) for path in self._temporary.iterdir() if not path.name.startswith("pytest-of-")]
        for place in self.watched:
            upper = self._upper(place)
            seen = [place / path.relative_to(upper) for path in sorted(upper.rglob("*"))]
            lines += [str(path) for path in seen if path != self._short and not path.match(_OF_PERF)]
        for line in lines:
            self._tests.setdefault(line, self._test)
        return lines

    def _watch(self) -> tuple[Path, ...]:
        """Those of the watched places that could be made overlays."""
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(_CLONE_NEWNS) or not _runs("mount", "--make-rprivate", "/"):
            return ()
        uppers = self.directory / "upper"
        uppers.mkdir()
        # Of the file systems that an overlay may write to, the one that is always there.
        if not _runs("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(uppers)):
            return ()
        return tuple(place for place in _WATCHED if place.is_dir() and self._overlay(place))

    def _overlay(self, place: Path) -> bool:
        # An overlay would hide what is mounted below it, the checkout perhaps.
        if any(mount.startswith(f"{place}/") for mount in _mounts()):
            return False
        upper, work = self._upper(place), self._upper(place).with_suffix(".work")
        upper.mkdir()
        work.mkdir()
        status = place.stat()
        upper.chmod(status.st_mode & 0o7777)
        os.chown(upper, status.st_uid, status.st_gid)
        options = f"lowerdir={place},upperdir={upper},workdir={work}"
        return _runs("mount", "-t", "overlay", "-o", options, "overlay", str(place))

    def _shorten(self) -> Path | None:
        """Our part of the disk under a short name: the path of a socket has 107 bytes at most. None: not mounted."""
        short = Path("/var/tmp") / f"t{os.getpid()}"
        if short.parent not in self.watched:
            return None
        short.mkdir()
        return short if _runs("mount", "--bind", str(self._temporary), str(short)) else None

    def _upper(self, place: Path) -> Path:
        return self.directory / "upper" / "-".join(place.parts[1:])

    def left(self) -> list[str]:
        """What the session made and has not removed, or touched that it did not make: a line each."""
        _await_ends([pid for pid, _ in marked_processes(self._mark.encode())])
        # A command that was killed leaves its directory to the next one, and the last test may have killed one.
        with scratch_directory():
            pass
        lines = [f"process {pid}: {words}({_test_of(pid)})" for pid, words in marked_processes(self._mark.encode())]
        return lines + [f"{line} ({self._tests[line]})" for line in self._note()]

    def end(self, *, keep: bool) -> None:
        """Nothing is left of the session itself; keep: but for its files, for whoever looks into a failure."""
        shorts = (self._short,) if self._short is not None else ()
        for place in (*shorts, *self.watched, self.directory / "upper"):
            _runs("umount", "--lazy", str(place))
        if not keep:
            shutil.rmtree(self.directory, ignore_errors=True)
            # The last one out.
            with contextlib.suppress(OSError):
                self.directory.parent.rmdir()


def _remove_ended(parent: Path) -> None:
    """What earlier sessions kept for their failures, or had no time to remove."""
    for path in parent.iterdir():
        if not Path("/proc", path.name.partition("-")[0]).exists():
            shutil.rmtree(path, ignore_errors=True)


def _runs(*argv: str) -> bool:
    return subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL, check=False).returncode == 0


def _mounts() -> set[str]:
    """Mount points of our namespace with what is mounted there."""
    lines = (line.partition(" - ") for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return {f"{left.split()[4]} ({right})" for left, _, right in lines}


def _test_of(pid: int) -> str:
    """The test that started it, as pytest names it in the environment."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            name, _, value = line.partition(b"=")
            if name == b"PYTEST_CURRENT_TEST":
                return value.decode("utf-8", "replace")
    return "started before the first test"


def _loops(*directories: Path | None) -> Iterator[str]:
    """Loop devices over files below directories."""
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            file = path.read_text().strip()
            if any(file.startswith(f"{directory}/") for directory in directories):
                yield f"/dev/{path.parent.parent.name} over {file}"


def _await_ends(pids: list[int]) -> None:
    """Returns when these have ended, or soon: what was killed is seen until the kernel has done with it."""
    deadline = time.monotonic() + _ENDING_SECONDS
    for pid in pids:
        with contextlib.suppress(ProcessLookupError), open(os.pidfd_open(pid)) as handle:  # noqa: PTH123 - no path
            select.select([handle], [], [], max(deadline - time.monotonic(), 0))


def marked_processes(mark: bytes) -> Iterator[tuple[int, str]]:
    """Those that carry a mark in the environment they were started with: number and command line."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                    yield int(entry.name), words
