"""A table and a page of what was recorded so far, while the run goes on."""

from __future__ import annotations

import copy
import sys
from pathlib import Path

from collectors.perf import Recording
from ground.errors import IoflameError, MeasurementError
from ground.results.files import Files
from ground.results.run import Run
from ground.system.observer import Observer
from ground.system.scratch import scratch_directory
from ground.text.progress import Reporter, shown_path, terminal_width
from ground.text.units import format_bytes
from ioflame.stages.run import Analysed, analyse_so_far
from viz.terminal.summary import render_first_look

# Of copied stacks many threads fill a gigabyte a second.
_MOST_BYTES = 256 << 20


def first_look(run: Run, perf: Observer, reporter: Reporter) -> None:
    """Prints the owner table of perf's turns so far, and writes the page of them, which the end of the run replaces.

    run: with the windows so far; perf: between two turns. Where it fails a warning says so: the run is as good without.
    """
    from ioflame.present.report import write_page_of  # the modules of pages are loaded where one is written

    assert isinstance(perf, Recording)
    try:
        with reporter.waits_for("a first look at what perf has recorded"), scratch_directory() as scratch:
            place = scratch / run.directory.name
            place.mkdir()
            if (size := run.path(Files.PERF_DATA).stat().st_size) > _MOST_BYTES:
                raise MeasurementError(f"perf has recorded {format_bytes(size)}, which would take long to fold")
            perf.copy_so_far(place / Files.PERF_DATA)
            seen, found = fold_so_far(run, place)
            profile, table = seen.record.profile, found.views.get("owner")
            if profile is None or table is None:
                raise MeasurementError("perf has recorded no sample of it yet")
            seconds = sum(window.seconds for window in seen.record.of_kind("perf"))
            rests_on = f"the first {seconds:.1f} s of perf ({profile.samples:,} samples)"
            seen.record.missing = [
                f"everything after {rests_on}. This first look was written while the run went on; the end of the run "
                f"replaces it. If the run was interrupted: ioflame analyse {shown_path(run.directory)}"
            ]
            seen.save()
            write_page_of([place], run.path(Files.REPORT))
    except (IoflameError, OSError) as error:
        reporter.warn(f"no first look: {error.what if isinstance(error, IoflameError) else error}")
        return
    page = f"report:       {shown_path(run.path(Files.REPORT))}   (of this first look)"
    width = terminal_width(sys.stderr) or 100
    reporter.show(f"{render_first_look(seen.record, table, rests_on, width)}\n\n{page}\n")


def fold_so_far(run: Run, place: Path) -> tuple[Run, Analysed]:
    """Folds a recording of a run that goes on, whose `run` is left as it is: its record with what was found, and that.

    place: a directory called like the run's, with a whole recording of the run's perf as `Files.PERF_DATA`; gets all
           that is made of it
    """
    for name in (Files.RULES, Files.MAPPED, Files.SERIES):
        if run.path(name).exists():
            (place / name).symlink_to(run.path(name).absolute())
    seen = Run(place, copy.deepcopy(run.record))
    return seen, analyse_so_far(seen)
