"""Waiting for what another process does: in one place, with an end, and an error that says what was waited for."""

from __future__ import annotations

import contextlib
import inspect
import subprocess
import time
from collections.abc import Callable
from typing import Any


def until(
    holds: Callable[[], object],
    watching: subprocess.Popen[Any] | None = None,
    *,
    as_long_as: Callable[[], object] = lambda: True,
    seconds: float = 120.0,
    every: float = 0.005,
) -> None:
    """Returns once `holds()` is true. The deadline judges no speed: it only ends the wait for what does not come.

    holds:    a file that it looks for and that is gone when it is looked at is one that is not there yet

    watching: a process that must not end meanwhile; as_long_as: what else must be true until then
    every:    s between two looks
    """
    deadline = time.monotonic() + seconds
    while not _holds(holds):
        # Both read the source, or a process to its end: only where the wait has failed.
        if watching is not None and watching.poll() is not None:
            raise AssertionError(f"ended with {watching.returncode}: {watching.communicate()}, before {_source(holds)}")
        assert as_long_as(), f"no longer {_source(as_long_as)}, before {_source(holds)}"
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {_source(holds)}"
        time.sleep(every)


def _holds(condition: Callable[[], object]) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return bool(condition())
    return False


def _source(condition: Callable[[], object]) -> str:
    if inspect.ismethod(condition):
        return f"{condition.__name__} of {condition.__self__!r}"
    return inspect.getsource(condition).strip() if inspect.isfunction(condition) else repr(condition)
