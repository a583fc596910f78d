"""Errors a user can act on, and the exit codes they end with.

Every message says four things: what failed, the value seen, what it means, and the exact command that mends it.
"""

from __future__ import annotations

import errno
import shlex
from pathlib import Path

from ground.settings import Setting

EXIT_OK = 0
EXIT_CHECK_FAILED = 1  # something was measured, but a check failed or a part is missing
EXIT_USAGE = 2  # the request makes no sense; nothing was started
EXIT_HOST = 3  # the host cannot do it
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells report it


class IoflameError(Exception):
    """An error with its meaning and its mend; `main` prints it without a traceback.

    what:  what failed, with the value seen
    means: what follows from it (may be empty)
    mend:  the exact command or option that mends it (may be empty)
    """

    exit_code = EXIT_CHECK_FAILED

    def __init__(self, what: str, *, means: str = "", mend: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.means = means
        self.mend = mend

    def __str__(self) -> str:
        lines = [self.what]
        if self.means:
            lines.append(f"  meaning: {self.means}")
        if self.mend:
            lines.append(f"  fix: {self.mend}")
        return "\n".join(lines)


class MeasurementError(IoflameError):
    """Something ran and failed: what was measured before it is kept. Exit code 1."""

    exit_code = EXIT_CHECK_FAILED


class UsageError(IoflameError):
    """A bad value or a contradiction in what was asked; nothing was started. Exit code 2."""

    exit_code = EXIT_USAGE


class RefusedError(UsageError):
    """A bad value or a contradiction of which no more is to be said than that nothing was started."""

    def __init__(self, what: str, *, mend: str = "") -> None:
        super().__init__(what, means="nothing was started", mend=mend)


class HostError(IoflameError):
    """The host lacks something that the job cannot do without. Exit code 3."""

    exit_code = EXIT_HOST


def error_of_system(error: OSError, path: Path | None = None) -> IoflameError:
    """What the system refused, in the form that `IoflameError` prints; a full disk is the host's (HostError).

    path: the file meant, where `error` does not name it
    """
    named = path if path is not None else error.filename
    what = f"{named}: {error.strerror}" if named is not None else str(error)
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return MeasurementError(what)
    where = f"   (df -h {shlex.quote(str(Path(str(named)).parent))})" if named is not None else ""
    return HostError(
        what,
        means="what was written until then is kept; what follows is missing",
        mend=f"free some disk, or {Setting.OUT.to('<a directory on a larger disk>')}{where}",
    )
