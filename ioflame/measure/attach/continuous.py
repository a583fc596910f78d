"""A target watched repeatedly, for a while each time: a run directory each time, the old ones removed, some kept."""

from __future__ import annotations

import contextlib
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ground.errors import IoflameError, MeasurementError
from ground.results.files import Files
from ground.results.run import open_run
from ground.system.held_process import HeldProcess
from ground.system.own_cpu import own_cpu_seconds
from ground.system.process import Child, Children
from ground.system.run_module import module_argv
from ground.text.progress import Reporter
from ground.text.ranges import number
from ground.text.units import parse_time
from ioflame.measure.attach.budget import over_budget

_LONGEST = 3650 * 86_400.0
_LOOK_SECONDS = 0.5
# What a signal keeps: the runs of so many seconds.
RECENT_SECONDS = 900.0
_KEPT = "kept"
_LOG = "attach.log"


@dataclass(frozen=True)
class Repetition:
    """every: seconds from start to start; keep: seconds for which a run is kept"""

    every: float
    keep: float


def parse_duration(option: str, text: str) -> float:
    """`90`, `20s`, `10m`, `2h`, `7d` in seconds; UsageError, which names the option, for anything else."""
    return number(option, text, parse_time, 0.001, _LONGEST, "10m")


def repeat(
    words: Sequence[str], pids: Sequence[int], asked: str, out: Path, how: Repetition, reporter: Reporter
) -> None:
    """Runs `ioflame attach WORDS` every so often, each as a process of its own, until the processes have ended or we
    are interrupted. SIGUSR1 keeps the runs of the last 15 minutes for good.

    pids: held on to, so that none that gets their number is watched; none for a group
    MeasurementError after two runs in a row that took more CPU than their budget, folding and all.
    """
    held = [HeldProcess(pid) for pid in pids]
    over = 0
    with keep_requests() as requested, Children() as children:
        while not held or any(process.alive for process in held):
            due, used, known = time.monotonic() + how.every, own_cpu_seconds(), _latest(out)
            child = _start(children, words, out)
            while child.running:
                child.wait(_LOOK_SECONDS)
            if _latest(out) != known:
                over = _over_again(over, _over(out, used), reporter)
            while True:
                if requested():
                    tell_kept(keep_recent(out, asked), reporter)
                if time.monotonic() >= due or (held and not any(process.alive for process in held)):
                    break
                time.sleep(_LOOK_SECONDS)
            if child.returncode not in (0, 1):
                reporter.warn(f"a run ended with {child.describe_end()}: {out / _LOG} says why")
            remove_old(out, asked, how.keep)
    reporter.warn("every process of the target has ended")


@contextlib.contextmanager
def keep_requests() -> Iterator[Callable[[], bool]]:
    """Within, SIGUSR1 asks to keep the last runs: whether it has come since that was last looked at."""
    asks: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda signum, _: asks.append(signum))

    def requested() -> bool:
        came = bool(asks)
        asks.clear()
        return came

    try:
        yield requested
    finally:
        signal.signal(signal.SIGUSR1, before)


def tell_kept(names: Sequence[str], reporter: Reporter) -> None:
    reporter.warn(f"kept for good: {', '.join(names) or 'nothing yet'}")


def _latest(out: Path) -> str:
    """The run that was finished last; "" for none."""
    link = out / "latest"
    return link.readlink().name if link.is_symlink() else ""


def _over(out: Path, before: float) -> str:
    """What the last run took of CPU beyond its budget, in words. before: our CPU when it was started"""
    return over_budget(open_run(out / _latest(out)).record, own_cpu_seconds() - before)


def _over_again(times: int, over: str, reporter: Reporter) -> int:
    """How often it has been over its budget in a row; MeasurementError for the second time."""
    if not over:
        return 0
    if times:
        raise MeasurementError(
            f"two runs in a row were over the budget, the last by {over}",
            means="watching is off; the runs until now are kept",
            mend="a larger --budget, a longer --every, or a shorter --collect",
        )
    reporter.warn(f"over the budget: {over}; once more, and watching ends")
    return 1


def _start(children: Children, words: Sequence[str], out: Path) -> Child:
    out.mkdir(parents=True, exist_ok=True)
    argv = [*module_argv("ioflame.cli"), "attach", *words, "--out", str(out), "--quiet"]
    return children.start("ioflame attach", argv, stdout=out / _LOG)


def keep_recent(out: Path, asked: str) -> list[str]:
    """Marks the runs of the last 15 minutes, so that they are never removed; their names."""
    recent = [run for run in _runs(out, asked) if _age(run) <= RECENT_SECONDS]
    for run in recent:
        (run / _KEPT).touch()
    return [run.name for run in recent]


def remove_old(out: Path, asked: str, keep: float) -> list[str]:
    """Removes runs of this target that are older, and not marked; their names."""
    old = [run for run in _runs(out, asked) if _age(run) > keep and not (run / _KEPT).exists()]
    for run in old:
        shutil.rmtree(run)
    return [run.name for run in old]


def _age(run: Path) -> float:
    return time.time() - (run / Files.RECORD).stat().st_mtime


def _runs(out: Path, asked: str) -> list[Path]:
    """Directories of runs that were attached to this target: none of anybody else's, and no link."""
    found = []
    for directory in sorted(out.iterdir()):
        if directory.is_symlink() or not (directory / Files.RECORD).exists():
            continue
        with contextlib.suppress(IoflameError):
            target = open_run(directory).record.target
            if target is not None and target.asked == asked:
                found.append(directory)
    return found
