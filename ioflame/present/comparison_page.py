"""`compare.html` of a comparison, from the files in its directory."""

from __future__ import annotations

from pathlib import Path

from folding.frames import compare_frames
from ground.errors import IoflameError
from ground.results.comparison import ComparisonRun
from ground.results.frame_differences import FrameDifferences
from ground.results.run import open_run, read_or_none
from ground.results.verdicts import Verdicts
from ioflame.analysis.compare.runs import comparability
from ioflame.present.counted import Shown, write_pages
from ioflame.present.frames import profile_runs
from viz.page.compare import ComparisonView, render_comparison
from viz.page.document import write_page
from viz.terminal.summary import lost_lines
from workloads.registry import rules_named

_PAGE = "compare.html"


def counts_beside(going: ComparisonRun, width: int | None) -> Shown | None:
    """What was counted beside a comparison, its own page written; None where nothing was."""
    count = going.count()
    return write_pages(going.counted, count, width) if count is not None else None


def unwatched(going: ComparisonRun) -> list[str]:
    """What did not watch in some process of an arm, once each; runs that are gone tell nothing."""
    lines: dict[str, None] = {}
    for session in going.record.whole_sessions():
        for process in session.processes:
            run = read_or_none(going.directory / process.directory, open_run)
            lines |= dict.fromkeys(f"{process.arm}: {line}" for line in (lost_lines(run.record) if run else ()))
    return list(lines)


def write_comparison_page(going: ComparisonRun, found: Verdicts, counted: Shown | None = None) -> Path:
    """Writes the page, and `frames-ARM.json` of every arm whose profiles can be compared with the base's."""
    frames: dict[str, FrameDifferences] = {}
    notes: list[str] = []
    for one in found.arms:
        try:
            compared = _frames(going, one.base, one.arm)
            if isinstance(compared, FrameDifferences):
                frames[one.arm] = compared
            else:
                notes += [f"The frames of {one.arm} are not compared: {why}" for why in compared]
        except IoflameError as error:
            notes.append(f"The frames of {one.arm} are not compared: {error.what}")
    out = going.directory / _PAGE
    view = ComparisonView(going.record, found, frames, notes, counted.view if counted else None)
    write_page(render_comparison(view), out)
    return out


def _frames(going: ComparisonRun, base: str, arm: str) -> FrameDifferences | list[str]:
    """The frames, or why there are none."""
    runs = {name: [open_run(path) for path in going.profiles(name)] for name in (base, arm)}
    refused = comparability([run.record for one in runs.values() for run in one]).frames
    if refused:
        return list(refused)
    sides = [(name, profile_runs(one)) for name, one in runs.items()]
    missing = [name for name, profiles in sides if not profiles]
    if missing:
        return [f"no profile of {', '.join(missing)}"]
    aliases = rules_named(going.record.engine).aliases
    return compare_frames(sides, going.directory / f"frames-{arm}.json", aliases=aliases)
