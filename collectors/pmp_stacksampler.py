"""The Rust sampler beside this file: each thread stopped alone, for microseconds."""

from __future__ import annotations

from pathlib import Path

from collectors.pmp_plan import PmpPlan
from ioflame.binaries import built_binary
from ioflame.files import Files

__all__ = ("StackSampler", "stacksampler_binary")


def stacksampler_binary() -> str:
    """The binary that `make setup` builds. HostError when it is not there."""
    return str(built_binary("stacksampler"))


class StackSampler:
    name = "stacksampler"

    def describe(self, plan: PmpPlan) -> str:
        how = "stacks copied, unwound later" if plan.callgraph == "dwarf" else "frame pointers"
        return f"stacksampler, every thread {plan.hz:g} times a second, {how}"

    def command(self, plan: PmpPlan, pid: int, directory: Path) -> list[str]:
        return [
            stacksampler_binary(),
            f"--pid={pid}",
            f"--hz={plan.hz:g}",
            f"--callgraph={plan.callgraph}",
            f"--output={directory / Files.PMP_DATA}",
            f"--stats={directory / Files.PMP_RAW}",
            f"--samples={directory / Files.PMP_SAMPLES}",
        ]
