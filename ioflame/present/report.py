"""The page of a run, or of several side by side, from the files in their directories. Nothing is collected."""

from __future__ import annotations

import shlex
from pathlib import Path

from folding.frames import compare_frames
from folding.stackfold import categorised_profile
from ground.errors import HostError, IoflameError, MeasurementError, UsageError
from ground.results.categories import Categories, telling_view
from ground.results.files import Files
from ground.results.findings import read_findings
from ground.results.jobs import read_run_jobs
from ground.results.profile import Folded
from ground.results.roles import WRITES_VIEW, query_role
from ground.results.run import Run, open_run
from ground.system.atomic_files import read_whole
from ground.system.scratch import scratch_directory
from ioflame.analysis.categories import categories_of, category_files_of_run, cpu_profiled, writing_roles
from ioflame.analysis.compare.runs import apart
from ioflame.present.frames import profile_runs
from ioflame.present.observed import read_observed
from ioflame.present.parts import Sections, categories_in, sections_of
from ioflame.stages.queries import queries_each_second, writes_each_second
from ioflame.stages.rules import rules_of
from viz.flame.stacks import read_folded, stacks_of
from viz.page.document import write_page
from viz.page.report import render_report
from viz.page.run_view import RunView
from workloads.registry import engine_named, engine_names

_OWNER, _LEAF = "owner", "leaf"


def write_page_of(directories: list[Path], out: Path, sections: Sections | None = None) -> None:
    """One page of several runs, the first of them the base. UsageError where `out` cannot be written.

    sections: of the only run, where they are made already
    """
    runs = [open_run(directory) for directory in directories]
    views = [_view(run, sections or sections_of(run)) for run in runs]
    for run, view in zip(runs[1:], views[1:], strict=True):
        both = apart([runs[0].record, run.record])
        if not both.barriers and not both.comparability.frames:
            _compare_frames((runs[0], views[0].name), (run, view.name), view)
    page = render_report(views, apart([run.record for run in runs]) if len(runs) > 1 else None)
    try:
        write_page(page, out)
    except MeasurementError as error:
        raise UsageError(error.what, mend="-o FILE in a directory you own") from None


def _view(run: Run, own: Sections) -> RunView:
    view = RunView(run.directory.name, run.record, notes=[*own.notes], sections=own.found)
    view.us_per_query = cpu_profiled(run.record)[0]
    view.observed = read_observed(run, view.notes)
    if run.record.target is None and run.record.engine in engine_names():
        engine = engine_named(run.record.engine, client=run.record.options.get("client"))
        try:
            view.rates = queries_each_second(run, engine)
            view.writes = writes_each_second(run, engine)
        except MeasurementError as error:
            view.notes.append(f"QPS by second is not shown: {error.what}")
    try:
        view.series = run.series()
    except MeasurementError as error:
        view.notes.append(f"Counters by second are not shown: {error.what}")
    try:
        view.findings = read_findings(run.directory)
    except MeasurementError as error:
        view.notes.append(f"What was found is not shown: {error.what}")
    try:
        view.jobs = read_run_jobs(run.path(Files.JOBS)) if run.path(Files.JOBS).exists() else None
    except MeasurementError as error:
        view.notes.append(f"Background jobs are not shown: {error.what}")
    if not run.path(Files.FOLDED).exists():
        view.notes.append(f"{Files.FOLDED} is not in this run: no stacks, no categories.")
        return view
    try:
        whole = _profile(run, view.notes)
        profile = _of_queries(run, whole, view.notes)
        view.role_parts = writing_roles(whole, run.record)
        tables = {name: _categories(run, profile, name) for name in profile.views}
        view.owner, view.leaf = telling_view(tables[_OWNER], tables.get(WRITES_VIEW)), tables[_LEAF]
        view.stacks = stacks_of(profile, view.owner.view)
        view.leaf_of = {stack.frames: stack.category for stack in stacks_of(profile, _LEAF)}
        view.further = {name: found for name, found in tables.items() if name not in (view.owner.view, _LEAF)}
        total = sum(stack.weight for stack in view.stacks)
        if not total:
            view.notes.append(f"{Files.FOLDED} holds no stack with any weight.")
        for name, found in tables.items():
            if found.total_weight != total:
                view.notes.append(
                    f"{Files.of_view(name)} holds {found.total_weight:,} of weight, the stacks {total:,}: they are not "
                    f"of one fold. {_again(run)} makes both again."
                )
    except HostError as error:
        view.notes.append(f"The stacks are shown without categories: {error.what}. {error.mend}")
        view.stacks = read_folded(read_whole(run.path(Files.FOLDED)).splitlines())
    except IoflameError as error:
        view.notes.append(f"No stacks can be shown from {Files.FOLDED}: {error.what}")
    return view


def _compare_frames(base: tuple[Run, str], other: tuple[Run, str], view: RunView) -> None:
    """The frames of a run against the base's; nothing where one of them has no profile."""
    sides = [(name, profile_runs([run])) for run, name in (base, other)]
    if not all(runs for _, runs in sides):
        return
    aliases = rules_of(base[0]).aliases
    try:
        with scratch_directory() as place:
            view.frames = compare_frames(sides, place / "frames.json", aliases=aliases)
    except IoflameError as error:
        view.notes.append(f"Its frames are not compared with the base's: {error.what}")


def _again(run: Run) -> str:
    return shlex.join(["ioflame", "analyse", str(run.directory)])


def _profile(run: Run, notes: list[str]) -> Folded:
    """The run's profile; an older run has none, and what its stacks do not know is noted."""
    if not run.path(Files.PROFILE).exists():
        notes.append(f"Threads and objects are not known: {Files.PROFILE} is not in this run. {_again(run)} makes it.")
    return categorised_profile(
        run.path(Files.PROFILE),
        rules_of(run).categories,
        folded=run.path(Files.FOLDED),
        counts=run.path(Files.SAMPLE_COUNTS),
    )


def _of_queries(run: Run, profile: Folded, notes: list[str]) -> Folded:
    """The profile of the threads that send queries: its shares are of the CPU per query printed beside them."""
    roles = run.record.roles
    if not roles:
        return profile
    notes.append(
        f"Stacks and categories are those of the threads that send queries. {Files.FLAMEGRAPH} has every thread, "
        f"{Files.SUMMARY} the CPU of writers, flushes and compactions."
    )
    return profile.of_threads(roles.get(query_role(roles), []))


def _categories(run: Run, profile: Folded, view: str) -> Categories:
    """The view in the run directory, made from its stacks where that file is not there."""
    if run.path(Files.of_view(view)).exists():
        return categories_in(run, view)
    return categories_of(category_files_of_run(profile, [view], run.record)[view])
