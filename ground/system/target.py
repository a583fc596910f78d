"""Processes that are not ours and all below them, followed while they come and go."""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
from collections.abc import Sequence
from pathlib import Path

from ground.errors import HostError, UsageError
from ground.system.descendants import ancestors, descendants, is_below
from ground.system.groups import groups_of
from ground.system.held_process import HeldProcess

# Of /proc/PID/stat: PF_KTHREAD.
_KERNEL_THREAD = 0x00200000
_STOPPED = (b"T", b"t")
_CLAIM = "ioflame attach: "


class Target:
    """The processes that were named, or are in a control group, with their children: those they have and will have.

    A process is held on to from when it is first seen (`HeldProcess`), so that another one that gets its number later
    is not taken for it. A target never contains us and what we start, except a command that we were given to start.
    """

    def __init__(self, pids: Sequence[int], group: Path | None = None, *, started: bool = False) -> None:
        """pids: refused (UsageError) where one does not run, is a kernel thread, or is watched by another ioflame

        group:   a directory of a control group, instead of pids
        started: they are of a command that we have started for the user, and what is below them is part of the target
        """
        self._group = group
        self._started = started
        self._held: dict[int, HeldProcess] = {}
        self._programs: dict[int, str] = {}
        self._claims: list[socket.socket] = []
        self.became: dict[int, tuple[str, str]] = {}
        self.stopped: set[int] = set()
        self.group_gone = False
        for pid in pids:
            self._hold(pid)
            self._claim(f"process {pid}")
        if group is not None:
            self._claim(f"group {group.stat().st_ino}")
        self.look()
        self._check_claims()
        if not self._held:
            raise UsageError(
                f"no process is in {group}",
                means="there is nothing to watch",
                mend=f"cat {shlex.quote(str(group))}/cgroup.procs",
            )

    def look(self) -> None:
        """Takes in who has begun and who has ended since the last look."""
        for pid in self._listed() - self._held.keys():
            if not self._started and is_below(pid, os.getpid()):
                continue  # we, where we were started below it or in its group
            with contextlib.suppress(UsageError):  # it has ended meanwhile
                self._hold(pid)
        for pid, process in self._held.items():
            if (process.stat() or [b"Z"])[0] in _STOPPED:
                self.stopped.add(pid)
            program = _program(process)
            if program and program != self._programs[pid]:
                self.became[pid] = (self._programs[pid], program)

    def _listed(self) -> set[int]:
        if self._group is None:
            listed = descendants([pid for pid, process in self._held.items() if process.alive])
        else:
            listed = _members(self._group)
            self.group_gone = self.group_gone or not self._group.exists()
        return set(listed)

    def _hold(self, pid: int) -> None:
        process = HeldProcess(pid)
        fields = process.stat()
        if fields and int(fields[6]) & _KERNEL_THREAD:
            raise UsageError(
                f"process {pid} is a kernel thread",
                means="it has no stacks, files or memory of its own to be watched; nothing was attached",
                mend="--pid <a process of a service; ps shows kernel threads in [brackets]>",
            )
        self._held[pid] = process
        self._programs[pid] = _program(process)

    def _claim(self, what: str) -> None:
        """Two that watch one process would measure each other. The claim is a name that goes with our last descriptor,
        so that one of an ioflame that was killed is free again."""
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            claim.bind(f"\0{_CLAIM}{what}")
        except OSError:
            claim.close()
            raise _claimed(what) from None
        claim.listen(0)
        self._claims.append(claim)

    def group_cpu_ns(self) -> int | None:
        """CPU time of all that ever ran in its group, by the group's own counter; None without a group, where it holds
        us as well, or the kernel does not say."""
        if self._group is None or os.getpid() in _members(self._group):
            return None
        with contextlib.suppress(OSError, ValueError):
            return int((self._group / "cpuacct.usage").read_text(encoding="ascii"))
        with contextlib.suppress(OSError, KeyError):
            lines = (self._group / "cpu.stat").read_text(encoding="ascii").splitlines()
            return int(dict(line.split() for line in lines)["usage_usec"]) * 1000
        return None

    def _check_claims(self) -> None:
        """UsageError where another one watches one of the processes by itself, or for what it is below or in. Whoever
        begins later sees our claims in the same way."""
        own = {claim.getsockname()[1:].decode() for claim in self._claims}
        lines = Path("/proc/net/unix").read_text(encoding="utf-8", errors="replace").splitlines()
        others = {_CLAIM + line.partition(f"@{_CLAIM}")[2] for line in lines if f"@{_CLAIM}" in line} - own
        for pid in self._held if others else ():
            names = [f"process {one}" for one in ancestors(pid)]
            names += [f"group {group.stat().st_ino}" for group in groups_of(pid)]
            for name in names:
                if _CLAIM + name in others:
                    raise _claimed(f"process {pid}" + (f", as a part of {name}," if name != names[0] else ""))

    @property
    def alive(self) -> bool:
        """Whether any of them runs."""
        return any(process.alive for process in self._held.values())

    @property
    def processes(self) -> list[HeldProcess]:
        """All that were seen, in the order in which they were; some have ended."""
        return list(self._held.values())

    @property
    def pids(self) -> list[int]:
        """Numbers of `processes`."""
        return list(self._held)

    @property
    def running(self) -> list[int]:
        """Numbers of those that run."""
        return [pid for pid, process in self._held.items() if process.alive]

    @property
    def reused(self) -> list[int]:
        """Numbers of those that have ended and that other processes have got since."""
        return [pid for pid, process in self._held.items() if not process.alive and _runs(pid)]

    def forget_ended(self) -> None:
        """Of a target that runs: who has ended is held no longer."""
        if self.alive:
            self._held = {pid: process for pid, process in self._held.items() if process.alive}

    def check_readable(self) -> None:
        """HostError where the counters of the first may not be read: it is another user's."""
        first = next(iter(self._held.values()))
        try:
            first.path("io").read_bytes()
        except PermissionError:
            raise HostError(
                f"process {first.pid} is not ours: /proc/{first.pid}/io may not be read",
                means="it belongs to another user; neither its counters, its stacks nor its files can be seen",
                mend=f"{shlex.join(['sudo', 'ioflame', 'doctor', '--attach', str(first.pid)])}   (what is missing, and "
                "the least that grants it)",
            ) from None
        except OSError:
            raise UsageError(f"process {first.pid} has ended", mend="--pid <a running process; see ps>") from None


def _claimed(what: str) -> UsageError:
    return UsageError(
        f"{what} is watched by another ioflame",
        means="each would measure what the other one costs; nothing was attached",
        mend="wait until it has ended   (ss -xlp | grep 'ioflame attach' shows it)",
    )


def _members(group: Path) -> list[int]:
    """Processes of a group and of those below it, any of which may vanish while we look."""
    found: list[int] = []
    for directory, _, _ in os.walk(group):
        with contextlib.suppress(OSError):
            found += map(int, Path(directory, "cgroup.procs").read_text(encoding="ascii").split())
    return found


def _runs(pid: int) -> bool:
    try:
        return HeldProcess(pid).alive
    except UsageError:
        return False


def _program(process: HeldProcess) -> str:
    try:
        return str(process.path("exe").readlink()).removesuffix(" (deleted)")
    except OSError:
        return ""
