"""From the file of an experiment to a job that can be run here: everything that can be refused is refused here."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from msgspec import structs

from collectors.counters import device_of
from collectors.perf import plan_recording
from folding.stackfold import stackfold_binary
from ground.errors import HostError, RefusedError, UsageError
from ground.results.run import check_writable
from ground.settings import Setting
from ground.system.limits import limited_memory
from ground.system.process import tool_path
from ground.text.progress import Reporter
from ground.text.ranges import choice
from ground.text.units import format_bytes
from ioflame.analysis.cells import PROOFS
from ioflame.measure.builds import named_builds
from ioflame.measure.experiment.job import CellsJob, command_of, commanded, driver
from ioflame.measure.host_checks import look_at_host
from ioflame.measure.job import Planned, planned, resolve
from ioflame.measure.options import ProfileOptions
from ioflame.measure.own_command.command_line import checked_command
from ioflame.measure.study import refuse_idle
from workloads.build import EngineBuild
from workloads.cells import BASELINE, COMMAND, Cells
from workloads.checks import existing, free_bytes
from workloads.database import is_loaded
from workloads.engine import Engine
from workloads.experiment import own_definitions, read_cells
from workloads.libraries import asked_libraries
from workloads.registry import engine_named

# Of the data of a cell: the files, what a compaction holds twice, and what is left to others.
_SPARE = 1 << 30
# Settings that cells have in their file.
_OF_CELLS = ("DURATION", "CACHE_SIZE", "COLLECT", "MEMORY_LIMIT")


def resolve_cells(
    name: str, options: ProfileOptions, engine: Engine, rounds: int | None, users: Sequence[int] = (1,),
    reporter: Reporter | None = None,
) -> CellsJob:  # fmt: skip
    """UsageError, HostError for what no host could run; nothing is started or written but a look at the client.

    users: threads of each cell, where the file has no scale; such a one is held against this host for a `reporter`
    """
    cells = read_cells(name, engine, tuple(PROOFS))
    place = options.db_dir or Path("db").absolute() / f"{engine.name}-{cells.name}"
    notes: list[str] = []
    if cells.scale:
        given = {name: getattr(options, name.lower()) is not None for name in _OF_CELLS}
        refuse_idle(given, "an experiment of cells, whose file has what each runs with")
        if reporter:
            with contextlib.suppress(HostError, OSError):  # it is refused once more is known
                look_at_host(device_of(existing(place)), reporter)
    else:
        options = _with_perf(options)
        if options.library is not None:
            # One tree is grown for all, by the first.
            options = replace(options, library=asked_libraries(engine.releases(), [options.library])[0].what)
        plan = resolve(options, reporter, cells.name, engine) if reporter else planned(options, cells.name, engine)
        cells, place = _as_profile(cells, plan).of_users(users), plan.db_dir
        notes = [f"{plan.configuration.name}: {plan.configuration.about}", *plan.sizing.notes]
    scale = cells.scale[choice(Setting.SCALE, options.scale, cells.scale, cells.name)]
    named = any(any(driver(cell)) for cell in cells.cells)
    library = {Setting.ROCKSDB.to(options.library): named and options.library is not None}
    refuse_idle(library, f"{cells.name}, whose cells name their own clients")
    own = own_engines(name, cells, options)
    if cells.engines:
        builds = {cell.engine: own[driver(cell)][1] for cell in cells.cells}
        cells = cells.at(options.scale)
        engine = own[driver(cells.cells[0])][0]
    else:
        builds = named_builds(engine, options.db_bench, options.library, reporter)
        # A single build needs no name.
        builds = builds if len(builds) > 1 else {"": next(iter(builds.values()))}
        cells = cells.at(options.scale).of_builds(list(builds))
    if cells.layout.database == "grown" and len(builds) > 1:
        raise UsageError(f"{cells.name} has one tree, which one build makes", mend=Setting.DB_BENCH.to("<one client>"))
    measures = any(step in (*engine.workloads(), COMMAND) for cell in cells.cells for step in cells.steps_of(cell))
    recording = None
    if measures:
        stackfold_binary()
        recording = plan_recording(options.event, options.frequency, options.callgraph)
    keys = scale.num_keys if cells.layout.database == "grown" else options.num_keys or scale.num_keys
    job = CellsJob(options, cells, engine, builds, keys, rounds or scale.rounds, place, recording, own, notes)
    _check_commands(cells, builds)
    for run in cells.runs(1):
        # A flag that the client lacks is refused now, and not in the middle.
        for step in commanded(job, run.cell) if not job.without(run.cell) else ():
            command_of(job, run, place, step)
    return job


def own_engines(name: str, cells: Cells, options: ProfileOptions) -> dict[tuple[str, str], tuple[Engine, EngineBuild]]:
    """Of cells that name an engine or a client. UsageError for a step that an engine does not have."""
    found = {}
    for cell in cells.cells:
        if any(driver(cell)) and driver(cell) not in found:
            engine = engine_named(cell.engine or options.engine, own_definitions(name), cell.client or None)
            found[driver(cell)] = (
                engine,
                engine.inspect(engine.find_binary(None if engine.by_our_client else options.db_bench)),
            )
            lacking = [step for step in cells.steps_of(cell) if step not in {**engine.steps(), **engine.workloads()}]
            if lacking:
                raise RefusedError(f"{cells.name}: {engine.name} has no step {lacking[0]}")
    return found


def _check_commands(cells: Cells, builds: Mapping[str, EngineBuild]) -> None:
    """UsageError for a command that cannot be started, or where several builds would run the same."""
    for cell in (cell for cell in cells.cells if cell.command):
        checked_command([cell.command])
        if len(builds) > 1:
            raise UsageError(
                f"cell {cell.name} is a command, which names its own program",
                means=f"each of {len(builds)} builds would run the same; nothing was started",
                mend="a cell for each program",
            )


def _as_profile(cells: Cells, plan: Planned) -> Cells:
    """With the scale, the options and the configuration of `ioflame profile`."""
    limit = plan.options.memory_limit
    scale = structs.replace(plan.scale, num_keys=plan.sizing.shape.num_keys, cache_size=plan.sizing.cache_size,
                            memory_limit=limit or 0, duration=plan.duration, collect=plan.collect)  # fmt: skip
    every = [
        structs.replace(cell, configuration=cell.configuration or plan.configuration.name, limited=limit is not None)
        for cell in cells.cells
    ]
    layout = structs.replace(cells.layout, block_align=plan.configuration.block_align)
    return structs.replace(cells, cells=every, layout=layout, scale={plan.options.scale: scale})


def _with_perf(options: ProfileOptions) -> ProfileOptions:
    """The options where the scales are a profile's. UsageError for those that the steps name themselves."""
    threads, workload = options.threads, options.workload
    by_users = f"an experiment whose cells run with each number of {Setting.USERS}"
    refuse_idle({Setting.THREADS.to(threads): threads != 1}, by_users, Setting.USERS.to(threads))
    usual = next(iter(engine_named(options.engine).workloads()))
    refuse_idle({Setting.WORKLOAD.to(workload): workload != usual}, "an experiment, whose steps name their own")
    # The tables are of perf's shares; what else watches is for who asks for it, at the price of its windows.
    return replace(options, collect=tuple(dict.fromkeys(("perf", *(options.collect or ())))))


def check_host(job: CellsJob) -> None:
    """HostError where this host lets nobody limit memory or lacks the disk; UsageError where OUT cannot be written."""
    cells, place = job.cells, job.place
    if any(BASELINE in cells.steps_of(cell) for cell in cells.cells):
        tool_path("fio", "fio")
    if any(cell.limited for cell in cells.cells):
        with limited_memory(job.scale.memory_limit):
            pass
    needed = max(cells.shape(run.cell, job.num_keys).disk_bytes for run in cells.runs(1)) + _SPARE
    there = job.shares and is_loaded(job.directory(cells.cells[0]))
    if cells.layout.database != "none" and not there and free_bytes(place) < needed:
        raise HostError(
            f"a cell needs {format_bytes(needed)} of disk; {format_bytes(free_bytes(place))} are free for {place}",
            means="its load would fill the disk; nothing was started",
            mend=f"{Setting.SCALE.to('smoke')}, a smaller {Setting.NUM_KEYS}, or "
            + Setting.DB_DIR.to("<a larger disk>"),
        )
    device_of(existing(place))
    check_writable(job.options.out)
