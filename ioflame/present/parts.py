"""The parts of a finished run, each as text of its own: read from its files, nothing is made again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ground.errors import UsageError
from ground.results.categories import Categories, read_categories, views_in
from ground.results.checks import render_checks
from ground.results.files import Files
from ground.results.findings import read_findings
from ground.results.io_latency import IoLatency, read_io_latency
from ground.results.ladder import Ladder, read_ladder
from ground.results.off_cpu import read_off_cpu, read_wall_clock
from ground.results.operations import read_operations
from ground.results.pmp import read_locks, read_pmp
from ground.results.run import Run, read_or_none
from ground.system.atomic_files import read_text
from ground.text.nearest import did_you_mean
from ioflame.stages.shown import ladder_of_run, show_io_latency, show_run_queue
from viz.terminal.latency_layers import Layer, layers_text
from viz.terminal.latency_layers import latency_layers as layers_of
from viz.terminal.off_cpu import off_cpu_table, wall_clock_table
from viz.terminal.operations import operations_text
from viz.terminal.pmp import render_locks, render_pmp
from viz.terminal.summary import categories_table, render_screen, windows_table

__all__ = ("PARTS", "Part", "latency_layers", "layers", "part_of", "parts_of", "screen")


@dataclass(frozen=True)
class Part:
    """about: its line in the help; file: of the run, which is the part as JSON; text: the part for a terminal"""

    about: str
    file: str
    text: Callable[[Run], str]


def screen(run: Run, width: int = 100, unicode: bool = True) -> str:
    """What of a run is read first, on one screen."""
    return render_screen(run.record, _categories(run), read_findings(run.directory), layers(run), width, unicode)


def layers(run: Run) -> str:
    """The latency table, of several windows; "" where none of them is there."""
    return layers_text(run.record.metrics, *_ladder_and_io(run))


def latency_layers(run: Run) -> list[Layer]:
    """The rows of the latency table."""
    return layers_of(run.record.metrics, *_ladder_and_io(run))


def _ladder_and_io(run: Run) -> tuple[Ladder | None, IoLatency | None]:
    return (
        read_or_none(run.path(Files.LADDER), read_ladder),
        read_or_none(run.path(Files.IO_LATENCY), read_io_latency),
    )


def parts_of(run: Run) -> dict[str, Part]:
    """What this run has: the views of its CPU profile, and of PARTS what was measured."""
    views = {view: _view_part(view) for view in views_in(run.directory)}
    found = {name: part for name, part in PARTS.items() if run.path(part.file).exists()}
    if not latency_layers(run):
        found.pop("latency", None)
    return {**views, **found}


def part_of(run: Run, name: str) -> Part:
    """UsageError where the run does not have it."""
    there = parts_of(run)
    if name in there:
        return there[name]
    mend = f"{did_you_mean(name, there)}one of: {', '.join(there)}"
    if name == "latency":
        what = f"{run.directory} has neither {Files.LADDER} nor {Files.IO_LATENCY}"
        raise UsageError(what, means="latency below the engine was not measured: COLLECT has it", mend=mend)
    if name in PARTS:
        raise UsageError(f"{run.directory} has no {PARTS[name].file}: {name} was not measured", mend=mend)
    raise UsageError(
        f"{name} is neither a part of a run nor a view of this one, which has no {Files.of_view(name)}", mend=mend
    )


def _view_part(view: str) -> Part:
    return Part(
        "categories of the CPU profile",
        Files.of_view(view),
        lambda run: categories_table(run.record, read_categories(run.directory, view), 100),
    )


def _categories(run: Run) -> Categories | None:
    return read_categories(run.directory) if run.path(Files.CATEGORIES).exists() else None


def _operations(run: Run) -> str:
    return operations_text(read_operations(run.directory))


def _waits(run: Run) -> str:
    return (
        off_cpu_table(read_off_cpu(run.path(Files.OFF_CPU)))
        + "\n"
        + wall_clock_table(read_wall_clock(run.path(Files.WALL_CLOCK)))
    )


PARTS: Mapping[str, Part] = {
    "windows": Part("window by window, and what each cost", Files.RECORD, lambda run: windows_table(run.record, 100)),
    "operations": Part("CPU by kind of operation", Files.OPERATIONS, _operations),
    "latency": Part("from the engine to the device", Files.RECORD, layers),
    "iolat": Part(
        "requests of the device", Files.IO_LATENCY, lambda run: show_io_latency(run.path(Files.IO_LATENCY)).text
    ),
    "ladder": Part("a query, stage by stage", Files.LADDER, lambda run: ladder_of_run(run).text),
    "waits": Part("what the threads wait for, and the wall clock", Files.OFF_CPU, _waits),
    "runqlat": Part("waits for a CPU", Files.RUN_QUEUE, lambda run: show_run_queue(run.path(Files.RUN_QUEUE)).text),
    "pmp": Part("every thread by wall clock", Files.PMP, lambda run: render_pmp(read_pmp(run.directory))),
    "locks": Part(
        "who waits for which lock", Files.LOCKS,
        lambda run: render_locks(read_locks(run.directory), read_pmp(run.directory).activity),
    ),
    "checks": Part("every check", Files.RECORD, lambda run: render_checks(run.record.checks, 100)),
    "all": Part("the whole summary", Files.RECORD, lambda run: read_text(run.path(Files.SUMMARY)).rstrip()),
}  # fmt: skip
