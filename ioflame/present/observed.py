"""What the observers beside perf left in a run directory, read for its page. A file that cannot be read is a note."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from folding.offcpu import off_cpu_stacks
from folding.pmp import pmp_profile
from ground.errors import IoflameError
from ground.results.files import Files
from ground.results.io_latency import read_io_latency
from ground.results.ladder import read_ladder
from ground.results.metrics import metrics_of
from ground.results.off_cpu import read_off_cpu, read_run_queue, read_wall_clock
from ground.results.pmp import read_locks, read_pmp
from ground.results.run import Run
from ioflame.stages.rules import rules_of
from viz.flame.stacks import Stack, stacks_of
from viz.page.run_view import Observed, by_state

__all__ = ("read_observed",)

_T = TypeVar("_T")


def read_observed(run: Run, notes: list[str]) -> Observed:
    """Everything that is there; `notes` gets what is there and cannot be shown."""

    def read(name: str, reader: Callable[[Path], _T]) -> _T | None:
        path = run.path(name)
        if not path.exists():
            return None
        try:
            return reader(path)
        except IoflameError as error:
            notes.append(f"{name} is not shown: {error.what}")
            return None

    windows = [window for window in run.record.windows if window.kind == "ladder"]
    off = read(Files.OFF_CPU, read_off_cpu)
    rules = rules_of(run).categories
    off_stacks = read(Files.OFF_CPU_DATA, lambda path: off_cpu_stacks(path, rules)) if off is not None else None
    idle = {thread.tid for thread in off.threads if thread.is_idle} if off is not None else set()
    return Observed(
        ladder=read(Files.LADDER, read_ladder),
        io=read(Files.IO_LATENCY, read_io_latency),
        off=off,
        queue=read(Files.RUN_QUEUE, read_run_queue),
        clock=read(Files.WALL_CLOCK, read_wall_clock),
        pmp=read(Files.PMP, lambda path: read_pmp(path.parent)),
        locks=read(Files.LOCKS, lambda path: read_locks(path.parent)),
        off_stacks=by_state(off_stacks or [], idle),
        pmp_stacks=read(Files.PMP_FOLDED, lambda path: _pmp_stacks(path, rules)) or [],
        rx_lat_us=metrics_of(run.record, windows).get("rx.lat"),
    )


def _pmp_stacks(folded: Path, rules: str) -> list[Stack]:
    return stacks_of(pmp_profile(folded.parent, rules), "owner")
