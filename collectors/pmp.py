"""A poor man's profiler as an observer: one protocol, one file an implementation.

A sampler is a program of its own that speaks the control protocol, and leaves `pmp.sampler.json` and its stacks in the
run directory.
"""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import msgspec

from collectors import pmp_gdb
from collectors.activity import Moment, between, moment
from collectors.pmp_plan import PmpPlan
from ground.errors import MeasurementError, UsageError
from ground.results.files import Files
from ground.results.pmp import Pmp, write
from ground.system.binaries import built_binary
from ground.system.control import ControlledProgram
from ground.system.held_process import HeldProcess
from ground.system.process import Children


class Sampler(Protocol):
    """One way to sample the stacks of a process."""

    @property
    def name(self) -> str: ...

    def describe(self, plan: PmpPlan) -> str:
        """What is attached, in a few words."""

    def command(self, plan: PmpPlan, pid: int, directory: Path) -> list[str]:
        """The command line, without the options of the control protocol. HostError where it is not installed."""


class StackSampler:
    """The Rust sampler beside this file: each thread stopped alone, for microseconds."""

    name = "stacksampler"

    def describe(self, plan: PmpPlan) -> str:
        how = "stacks copied, unwound later" if plan.callgraph == "dwarf" else "frame pointers"
        return f"stacksampler, every thread {plan.hz:g} times a second, {how}"

    def command(self, plan: PmpPlan, pid: int, directory: Path) -> list[str]:
        return [
            str(built_binary("stacksampler")),
            f"--pid={pid}",
            f"--hz={plan.hz:g}",
            f"--callgraph={plan.callgraph}",
            f"--output={directory / Files.PMP_DATA}",
            f"--stats={directory / Files.PMP_RAW}",
            f"--samples={directory / Files.PMP_SAMPLES}",
        ]


SAMPLERS: dict[str, Sampler] = {sampler.name: sampler for sampler in (StackSampler(), pmp_gdb.Gdb())}


def sampler_named(name: str) -> Sampler:
    if name not in SAMPLERS:
        raise UsageError(
            f"--sampler {name} is not known", means="nothing was started", mend=f"--sampler {'|'.join(SAMPLERS)}"
        )
    return SAMPLERS[name]


class Sampling:
    """A sampler on one process (an Observer): its stacks and `pmp.json` are in `directory` once it is detached."""

    kind = "pmp"

    def __init__(self, children: Children, plan: PmpPlan, pid: int, directory: Path) -> None:
        sampler = sampler_named(plan.sampler)
        self.what = sampler.describe(plan)
        self._children, self._directory, self._pid = children, directory, pid
        self._argv = sampler.command(plan, pid, directory)
        self._name = f"pmp {sampler.name}"
        self._program: ControlledProgram | None = None
        self._opened: Moment | None = None
        self._closed: Moment | None = None

    def attach(self) -> None:
        """Starts the sampler; no thread is stopped yet (gdb: but for its trial)."""
        self._process = HeldProcess(self._pid)
        log = self._directory / Files.PMP_LOG
        mend = f"read {shlex.quote(str(log))}"
        self._program = ControlledProgram(self._children, self._name, self._argv, log, mend=mend)
        self._program.await_ready()

    def open(self) -> None:
        """Begins sampling; returns once the sampler has said so."""
        assert self._program is not None
        self._opened = moment(self._process)
        self._program.open()

    def wait(self, seconds: float) -> None:
        """Lets it sample for so long, or until the process has ended."""
        assert self._program is not None
        self._program.child.wait(seconds)

    def close(self) -> None:
        """Ends sampling; returns once the sampler has said so: no thread is held by it any more."""
        assert self._program is not None
        self._program.close()
        self._closed = moment(self._process)

    def detach(self) -> None:
        """Waits until the sampler's files are whole, and writes `pmp.json`. Raises what the sampler failed with."""
        if self._program is None or not self._program.finish():
            return
        found = self._raw()
        if self._opened and self._closed:
            lasting = self._opened.switches.keys() & self._closed.switches.keys()
            samples = {thread.tid: thread.samples for thread in found.threads}
            seen = [samples[tid] for tid in lasting if tid in samples]
            found = replace(
                found,
                activity=between(self._opened, self._closed),
                reached_hz=sum(seen) / len(lasting) / found.seconds if lasting and found.seconds else None,
                unseen=len(lasting) - len(seen),
            )
        write(found, self._directory / Files.PMP)

    def _raw(self) -> Pmp:
        path = self._directory / Files.PMP_RAW
        try:
            return msgspec.json.decode(path.read_bytes(), type=Pmp)
        except (OSError, msgspec.MsgspecError) as error:
            raise MeasurementError(f"{path} is not what the sampler writes: {error}") from None
