"""What watches a workload in a window of its own: one protocol for perf, the eBPF programs and the PMP."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Protocol, TypeVar

from ground.errors import IoflameError
from ground.text.progress import Reporter
from ground.text.titles import title_of

# A program that is attaching, or writes what it saw, uses some CPU all the time; one that has used none for so long
# hangs, and is ended. A disk that takes longer for one write would have ruined the window as well.
QUIET_SECONDS = 10.0


class Observer(Protocol):
    """Attached before its window, counting exactly while the window is open, gone before the next one.

    One that `takes_turns` may be opened and closed again and again, and costs next to nothing in between; what it
    leaves is of all its turns together. Each method may raise HostError (this host cannot) or MeasurementError (it
    failed here); `detach` is called whenever `attach` was, also after a failure, and leaves nothing behind.
    """

    @property
    def kind(self) -> str:
        """The name of its window, and of what COLLECT asks for: `perf`, `iolat`, `ladder` ..."""

    @property
    def what(self) -> str:
        """For the progress display: what is attached, in a few words."""

    @property
    def takes_turns(self) -> bool: ...

    def attach(self) -> None:
        """Everything that takes time: programs loaded, probes attached, nothing counted."""

    def open(self) -> None:
        """Begins counting, at once."""

    def close(self) -> None:
        """Ends counting, at once."""

    def detach(self) -> None:
        """Ends it, and returns once its output is whole in the run directory."""


_O = TypeVar("_O", bound=Observer)


class NullObserver:
    """Attaches nothing: its window shows how far two windows differ by themselves."""

    kind = "null"
    what = "nothing attached, for comparison"
    takes_turns = True

    def attach(self) -> None: ...

    def open(self) -> None: ...

    def close(self) -> None: ...

    def detach(self) -> None: ...


@contextlib.contextmanager
def attached(observer: _O, reporter: Reporter) -> Iterator[_O]:
    """Attached within, detached afterwards. What is raised is what went wrong first, not what followed from it.

    reporter: says what is waited for, where attaching or detaching takes long
    """
    end = f"{title_of(observer.kind)} to end and to write what it saw"
    try:
        with reporter.waits_for(f"{title_of(observer.kind)} to attach ({observer.what})"):
            observer.attach()
        yield observer
    except BaseException:
        with contextlib.suppress(IoflameError), reporter.waits_for(end):
            observer.detach()
        raise
    with reporter.waits_for(end):
        observer.detach()
