"""Runs one command and owns everything it starts: `supervisor.py COMMAND_FD READY_FD STOP_SIGNAL PARENT_PID CPU_LIMIT`.

A wrapper that does not `exec` leaves the real program as a child of its own, which outlives it. This process runs
between ioflame and the command as a subreaper: whatever a process below it leaves behind becomes its child, in
whichever process group or session it is, so that only ECHILD means that nothing is left. It exits when all have ended,
as the command did: with its exit code, or by its signal.

ASK passes the stop signal on to the command's process group, as a terminal does with Ctrl-C, and to what the command
leaves behind. KILL ends all of them at once. When ioflame dies, the kernel asks, and KILL follows after a while.

Runs without the package (`python -I -S`), so that it starts in milliseconds. The command comes through a descriptor:
on this process's own command line, whoever looks for it there would find it twice.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time

ASK = signal.SIGTERM
KILL = signal.SIGUSR1

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# perf may still write its file when ioflame has died.
_ORPHANED_SECONDS = 60.0
_CANNOT_EXECUTE = 127  # as shells say it


def _main() -> None:
    command_fd, ready_fd, stop_signal, parent, cpu_limit = map(int, sys.argv[1:])
    with open(command_fd, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
        argv = file.read().split(b"\0")
    os.set_inheritable(ready_fd, False)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {ASK, KILL, signal.SIGCHLD})
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(_PR_SET_PDEATHSIG, ASK, 0, 0, 0)
    if os.getppid() != parent:
        return  # it died before prctl set the signal
    command = os.fork()
    if command == 0:
        _become(argv, libc, stop_signal, before, cpu_limit)
    with contextlib.suppress(OSError):  # the command has done it, and may have gone on to exec
        os.setpgid(command, command)
    os.write(ready_fd, str(command).encode())
    # Held open here, the command's pipes would hide its end from their other ends. The command's own copy of the
    # ready descriptor closes with its exec.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    _end_as(_await_all(command, stop_signal, parent))


def _become(argv: list[bytes], libc: ctypes.CDLL, stop_signal: int, mask: set[int], cpu_limit: int) -> None:
    try:
        if cpu_limit:  # seconds; what it starts has the same
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_limit, cpu_limit + 1))
        os.setpgid(0, 0)
        libc.prctl(_PR_SET_PDEATHSIG, stop_signal, 0, 0, 0)
        for ignored_by_python in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(ignored_by_python, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.execvp(argv[0], argv)
    except OSError as error:
        os.write(2, argv[0] + f" cannot be started: {error.strerror}\n".encode())
    finally:
        os._exit(_CANNOT_EXECUTE)


def _await_all(command: int, stop_signal: int, parent: int) -> int:
    """Returns when neither the command nor anything below it is left; the command's wait status."""
    status: int | None = None
    asked = killing = False
    deadline: float | None = None
    signalled: set[int] = set()
    while True:
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == command:
                    status = ended[1]
        except ChildProcessError:
            assert status is not None
            return status
        if killing:
            # What these leave behind becomes ours with their end, which wakes us up again.
            for pid in _children():
                os.kill(pid, signal.SIGKILL)
        elif asked and status is not None:
            for pid in _children() - signalled:
                _ask(pid, stop_signal)
                signalled.add(pid)
        signals = {ASK, KILL, signal.SIGCHLD}
        left = None if deadline is None else max(deadline - time.monotonic(), 0)
        came = signal.sigwaitinfo(signals) if left is None else signal.sigtimedwait(signals, left)
        if came is None or came.si_signo == KILL:
            killing, deadline = True, None
        elif came.si_signo == ASK:
            asked = True
            signalled.clear()
            if status is None:
                _ask(-command, stop_signal)
            if os.getppid() != parent and not killing:
                deadline = time.monotonic() + _ORPHANED_SECONDS


def _ask(pid: int, stop_signal: int) -> None:
    """Sends the signal, then SIGCONT: a stopped process could not act on it."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, stop_signal)
        os.kill(pid, signal.SIGCONT)


def _children() -> set[int]:
    """Children of ours that have not ended. Until we wait for them their numbers are nobody else's."""
    found = set()
    for name in os.listdir("/proc"):  # noqa: PTH208 - names, not paths
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                # The name may hold blanks and brackets: fields count from the last closing one.
                state, parent = file.read().rpartition(b")")[2].split()[:2]
                if int(parent) == os.getpid() and state != b"Z":
                    found.add(int(name))
    return found


def _end_as(status: int) -> None:
    """Ends this process as the command ended, so that whoever waits for it sees the command's own end."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        os._exit(code)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if -code not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
    os.kill(os.getpid(), -code)


if __name__ == "__main__":
    _main()
