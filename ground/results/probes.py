"""Functions of a process that were probed, and what a probe costs: for all results of uprobes."""

from __future__ import annotations

from dataclasses import dataclass

from ground.results.ranges import Amount, Count


@dataclass(frozen=True)
class Trap:
    """What a uprobe costs the function it is on, ns: measured with empty programs on functions of the loader's own.

    stepped_ns: of an entry whose first instruction the kernel single-steps because it cannot emulate it
    """

    entry_ns: Amount
    stepped_ns: Amount
    return_ns: Amount


@dataclass(frozen=True)
class ProbedFunction:
    """A function with a probe, the file it was found in, and its calls in the trial before the window.

    stepped: its first instruction is single-stepped at each call, which in a VM can take longer than all the rest
    """

    name: str
    file: str
    calls: Count
    stepped: bool = False

    @property
    def short(self) -> str:
        """Its name without arguments and nameless spaces."""
        return self.name.replace("(anonymous namespace)::", "").partition("(")[0]
