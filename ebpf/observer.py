"""A program of `ioflame-ebpf` as an Observer: loaded before its window, counting while it is open, gone after it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ebpf.tracer import Tracer, tracer_binary
from ioflame.errors import HostError
from ioflame.process import Children

__all__ = ("CoreObserver",)


class CoreObserver:
    """One CO-RE program (an Observer).

    kind:      the subcommand of `ioflame-ebpf`, and the name of its window
    what:      for the progress display
    arguments: the subcommand's options, without window and output
    out:       where its JSON goes; its words go beside it, to `<kind>.log`
    """

    def __init__(self, kind: str, what: str, children: Children, arguments: Sequence[str], out: Path) -> None:
        self.kind = kind
        self.what = what
        self.out = out
        self._children = children
        self._arguments = list(arguments)
        self._tracer: Tracer | None = None

    def attach(self) -> None:
        """Loads and attaches; returns once every probe sits."""
        binary = tracer_binary()
        if binary is None:
            raise HostError("ioflame-ebpf is not built", means="the CO-RE programs cannot be loaded", mend="make setup")
        log = self.out.with_name(f"{self.kind}.log")
        self._tracer = Tracer(self._children, binary, self.kind, self._arguments, self.out, log)
        self._tracer.await_ready()

    def open(self) -> None:
        assert self._tracer is not None
        self._tracer.open()

    def close(self) -> None:
        assert self._tracer is not None
        self._tracer.close()

    def detach(self) -> None:
        """Ends it; its result is whole afterwards. Says nothing after a failed `attach`, which has said it."""
        if self._tracer is not None:
            self._tracer.finish()
