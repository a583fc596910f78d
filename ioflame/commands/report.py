"""`ioflame report RUN...`: the page of a run made again from its files, or several runs side by side.

Nothing is collected. One run writes RUN/report.html; several write one page, the first of them the base.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from folding.stackfold import categorised_profile
from ioflame.categories import Categories, read_categories
from ioflame.commands.report_observed import read_observed
from ioflame.errors import EXIT_OK, HostError, IoflameError, MeasurementError, UsageError
from ioflame.files import Files
from ioflame.progress import Reporter, shown_path
from ioflame.results.profile import Folded
from ioflame.run import Run, open_run
from ioflame.whole import check_new, read_text, read_whole
from viz.frames import read_folded, stacks_of
from viz.report import render_report, write_page
from viz.report_parts import RunView
from viz.timebase import read_rates

__all__ = ("add_parser", "run", "write_report")

_OWNER, _LEAF = "owner", "leaf"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "report", help="one offline page of a run, or of several side by side", description=__doc__
    )
    parser.add_argument(
        "directories", type=Path, nargs="+", metavar="RUN", help="run directories; the first is the base"
    )
    parser.add_argument(
        "-o", "--out", type=Path, metavar="FILE", help=f"default: RUN/{Files.REPORT}; compare.html for several"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    directories = [directory.resolve() for directory in arguments.directories]
    several = len(directories) > 1
    out = arguments.out or (Path("compare.html") if several else directories[0] / Files.REPORT)
    if several and arguments.out is None:
        check_new(out, str(out), f"-o {shlex.quote(str(out))}")
    with Reporter.on_terminal().stage("read what the runs left and make the page"):
        _write(directories, out)
    print(f"report:       {shown_path(out.absolute())}   ({out.stat().st_size / 1e6:.2f} MB; open it in a browser)")
    return EXIT_OK


def write_report(run_directory: Path, out: Path) -> None:
    """Writes the page of the run in `run_directory` to `out`, from its files alone."""
    _write([run_directory], out)


def _write(directories: list[Path], out: Path) -> None:
    page = render_report([_view(open_run(directory)) for directory in directories])
    try:
        write_page(page, out)
    except MeasurementError as error:
        raise UsageError(error.what, mend="-o FILE in a directory you own") from None


def _view(run: Run) -> RunView:
    view = RunView(run.directory.name, run.record)
    view.observed = read_observed(run, view.notes)
    report = run.path(Files.ENGINE_REPORT)
    if report.exists():
        try:
            view.rates = read_rates(read_text(report))
        except MeasurementError as error:
            view.notes.append(f"QPS by second is not shown: {error.what}")
    try:
        view.series = run.series()
    except MeasurementError as error:
        view.notes.append(f"Counters by second are not shown: {error.what}")
    if not run.path(Files.FOLDED).exists():
        view.notes.append(f"{Files.FOLDED} is not in this run: no stacks, no categories.")
        return view
    try:
        profile = _profile(run, view.notes)
        view.stacks = stacks_of(profile, _OWNER)
        view.leaf_of = {stack.frames: stack.category for stack in stacks_of(profile, _LEAF)}
        view.owner, view.leaf = _categories(run, profile, _OWNER), _categories(run, profile, _LEAF)
        total = sum(stack.weight for stack in view.stacks)
        if not total:
            view.notes.append(f"{Files.FOLDED} holds no stack with any weight.")
        for name, found in ((Files.of_view(_OWNER), view.owner), (Files.of_view(_LEAF), view.leaf)):
            if found.total_weight != total:
                view.notes.append(
                    f"{name} holds {found.total_weight:,} of weight, the stacks {total:,}: they are not of one fold. "
                    f"{_again(run)} makes both again."
                )
    except HostError as error:
        view.notes.append(f"The stacks are shown without categories: {error.what}. {error.mend}")
        view.stacks = read_folded(read_whole(run.path(Files.FOLDED)).splitlines())
    except IoflameError as error:
        view.notes.append(f"No stacks can be shown from {Files.FOLDED}: {error.what}")
    return view


def _again(run: Run) -> str:
    return shlex.join(["ioflame", "analyse", str(run.directory)])


def _profile(run: Run, notes: list[str]) -> Folded:
    """The run's profile; an older run has none, and what its stacks do not know is noted."""
    if not run.path(Files.PROFILE).exists():
        notes.append(f"Threads and objects are not known: {Files.PROFILE} is not in this run. {_again(run)} makes it.")
    return categorised_profile(
        run.path(Files.PROFILE),
        run.record.engine,
        folded=run.path(Files.FOLDED),
        counts=run.path(Files.SAMPLE_COUNTS),
    )


def _categories(run: Run, profile: Folded, view: str) -> Categories:
    """The view in the run directory, made from its stacks where that file is not there."""
    if run.path(Files.of_view(view)).exists():
        return read_categories(run.directory, view)
    return profile.categories(view)
