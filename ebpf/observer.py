"""A program of `ioflame-ebpf` as an Observer: loaded before its window, counting while it is open, gone after it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ground.errors import HostError
from ground.system.binaries import built_binary
from ground.system.control import ControlledProgram
from ground.system.process import Children


def loader_binary() -> Path | None:
    """The built CO-RE loader; None where there is none (no clang at set-up)."""
    try:
        return built_binary("ioflame-ebpf")
    except HostError:
        return None


def option_words(**options: object) -> list[str]:
    """`--its-name value` of each. True is the name alone, each of a list is an option, None and False are left out."""
    words = []
    for name, value in options.items():
        for each in value if isinstance(value, list) else [value]:
            if each is not None and each is not False:
                words += ["--" + name.replace("_", "-"), *([] if each is True else [str(each)])]
    return words


class CoreObserver:
    """One CO-RE program (an Observer).

    kind:      the name of its window, and the subcommand of `ioflame-ebpf` unless `program` is another
    what:      for the progress display
    arguments: the subcommand's options, without window and output
    out:       where its JSON goes; its words go beside it, to `<kind>.log`
    turns:     it is opened and closed again and again, and has no probe in place in between
    """

    def __init__(
        self, kind: str, what: str, children: Children, arguments: Sequence[str], out: Path, program: str = "",
        *, turns: bool = False,
    ) -> None:  # fmt: skip
        self.kind = kind
        self.takes_turns = turns
        self.what = what
        self.out = out
        self._program_name = program or kind
        self._children = children
        self._arguments = [*arguments, *["--turns"] * turns]
        self._program: ControlledProgram | None = None

    def attach(self) -> None:
        """Loads and attaches; returns once every probe sits."""
        binary = loader_binary()
        if binary is None:
            raise HostError("ioflame-ebpf is not built", means="the CO-RE programs cannot be loaded", mend="make setup")
        log = self.out.with_name(f"{self.kind}.log")
        argv = [str(binary), self._program_name, *self._arguments, "-o", str(self.out)]
        self._program = ControlledProgram(self._children, f"ebpf {self._program_name}", argv, log)
        self._program.await_ready()

    def open(self) -> None:
        assert self._program is not None
        self._program.open()

    def close(self) -> None:
        assert self._program is not None
        self._program.close()

    def detach(self) -> None:
        """Ends it; its result is whole afterwards. Says nothing after a failed `attach`, which has said it."""
        if self._program is not None:
            self._program.finish()
