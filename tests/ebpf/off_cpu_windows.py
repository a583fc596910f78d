"""Windows of the off-CPU and run-queue observers, which stay open until what is asked for has happened in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from ground.results.off_cpu import OffCpu, OffStack, RunQueue, StateTotal, read_off_cpu, read_run_queue
from ioflame.instruments.offcpu import off_cpu_observer
from ioflame.instruments.runqlat import run_queue_observer
from tests.ebpf.windows import Load, failed, observed
from tests.until import until


def slept_and_begun(pid: int, sleeps: int, threads: int = 0) -> None:
    """Returns when threads of a process have slept so often, and so many were begun: a busy host takes its time."""
    voluntary = ("voluntary_ctxt",)
    before, known = switches(pid, voluntary), _tids(pid)
    new: set[str] = set()

    def enough() -> bool:
        new.update(_tids(pid) - known)
        return switches(pid, voluntary) - before >= sleeps and len(new) >= threads

    until(enough)


def _tids(pid: int) -> set[str]:
    return {task.name for task in Path(f"/proc/{pid}/task").iterdir()}


def switches(pid: int, kinds: tuple[str, ...] = ("voluntary_ctxt", "nonvoluntary_ctxt")) -> int:
    """Context switches of the threads that a process has now."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            lines = (task / "status").read_text(errors="replace").splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith(kinds))
    return total


def observe(pid: int, directory: Path, *, sleeps: int = 100, threads: int = 0, **options: bool | int) -> OffCpu:
    """Of a window in which threads of the process slept so often, and so many were begun."""
    return observe_load(pid, directory, lambda: slept_and_begun(pid, sleeps, threads), **options)


def observe_load(pid: int, directory: Path, load: Load, **options: bool | int) -> OffCpu:
    out, stacks = directory / "off.json", directory / "off.data"
    observed(lambda children: off_cpu_observer(children, pid, out, stacks, **options), load)  # type: ignore[arg-type]
    return read_off_cpu(out)


def queue_of(
    pid: int, directory: Path, load: Load, *, backend: str = "auto", map_entries: int | None = None
) -> RunQueue:
    out = directory / "queue.json"
    observed(lambda children: run_queue_observer(children, pid, out, backend=backend, map_entries=map_entries), load)
    return read_run_queue(out)


def totals_of(stacks: Sequence[OffStack], states: Iterable[str]) -> dict[str, StateTotal]:
    """Of the stacks in each of the states."""
    found = {state: [stack for stack in stacks if stack.state == state] for state in states}
    return {state: StateTotal(sum(s.ns for s in these), sum(s.count for s in these)) for state, these in found.items()}


def adds_up(off: OffCpu) -> None:
    """Each thread's parts make up its time, and all of them the whole, within 2 %, by its own checks."""
    assert not failed(off.checks()) and not off.losses["lost_sum"], off
