"""What a finished run is worth, printed: its summary, where its files are, what to do next."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from ground.errors import EXIT_CHECK_FAILED, EXIT_OK, IoflameError
from ground.results.checks import Verdict, worst
from ground.results.files import Files
from ground.results.run import Run
from ground.text.progress import Reporter, shown_path, terminal_width
from ioflame.present.parts import part_of, parts_of, screen
from viz.columns import folded

_STOPPED = "every process started here was stopped"


def kept(
    conduct: Callable[[], object], directory: Path, reporter: Reporter, *, resume: bool = False, ended: str = _STOPPED
) -> bool:
    """Whether `conduct` finished; False for an interrupt. If it did not, a warning says what is kept of it.

    resume: a study that can be resumed; ended: what an interrupt leaves behind
    """
    again = f"; to resume: the same command with --resume {shlex.quote(str(directory))}" * resume
    try:
        conduct()
    except KeyboardInterrupt:
        reporter.keep_shown()
        reporter.warn(f"interrupted; {ended}. Kept: {directory}{again}")
        return False
    except IoflameError:
        reporter.keep_shown()
        reporter.warn(f"what was measured until then is kept in {directory}{again}")
        raise
    return True


def measured(conduct: Callable[[], None], run: Run, reporter: Reporter, ended: str) -> bool:
    """As `kept`, of a run: what is missing of it is said as well."""
    if kept(conduct, run.directory, reporter, ended=ended):
        return True
    reporter.warn(f"missing: {'; '.join(run.record.missing) or 'the analysis; every window was measured'}")
    if run.path(Files.REPORT).exists():
        reporter.warn(f"the page of the first look is {shown_path(run.path(Files.REPORT))}")
    if run.path(Files.PERF_DATA).exists():
        reporter.warn(f"to fold what was recorded: {shown_command('analyse', run)}")
    return False


def check_store(directory: str | None) -> None:
    """Before anything is measured: whether what is measured can be added to the store that was asked for."""
    if directory:
        from ground.results.store.database import Store  # of the few that add to one

        Store(Path(directory), create=True)


def add_to_asked_store(directory: str | None, found: Path, reporter: Reporter) -> None:
    """A run, comparison or experiment that has ended, into the store that was asked for."""
    if not directory:
        return
    # What reads every kind of run is imported where one is added alone.
    from ground.results.store.database import Store
    from ioflame.store.add import add_to_store

    with reporter.stage(f"add it to the store {directory}"):
        added = add_to_store(Store(Path(directory)), found)
    for line in added.left_out:
        reporter.warn(line)
    reporter.line(f"store:        {directory}")


def print_screen(run: Run) -> None:
    """What of a run is read first."""
    width = terminal_width(sys.stdout) or 100
    print(screen(run, shown_command("show", run), width))


def print_outcome(run: Run, verbose: bool) -> int:
    """Prints what was found, the paths and the next step; the exit code the run deserves.

    verbose: print the whole summary instead
    """
    if verbose:
        print(folded(part_of(run, "all").text(run), terminal_width(sys.stdout)) + "\n")
    else:
        print_screen(run)
    print(f"run:          {shown_path(run.directory)}")
    if run.path(Files.REPORT).exists():
        print(f"report:       {shown_path(run.path(Files.REPORT))}   (one page; open it in a browser)")
    if run.path(Files.FLAMEGRAPH).exists():
        print(f"next:         {shown_command('show', run)} {'|'.join(parts_of(run))}")
    elif run.path(Files.PERF_DATA).exists():
        print(f"next:         {shown_command('analyse', run)}   (folds what was recorded)")
    return exit_code(run)


def exit_code(run: Run) -> int:
    """That the run deserves."""
    failed = run.record.missing or run.record.lost or worst(run.record.checks) is Verdict.FAILED
    return EXIT_CHECK_FAILED if failed else EXIT_OK


def shown_command(verb: str, run: Run) -> str:
    """As this user can type it here."""
    called = Path(sys.argv[0])
    own = called.name == "ioflame" and shutil.which("ioflame") is None
    typed = shown_path(called.absolute()) if own else "ioflame"
    # Right here, as that of an archive: a shell looks for a bare name elsewhere.
    return shlex.join([f"./{typed}" if own and "/" not in typed else typed, verb, shown_path(run.directory)])
