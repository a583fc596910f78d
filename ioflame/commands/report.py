"""`ioflame report RUN...`: the page of a run made again from its files, or several runs side by side.

Nothing is collected. One run writes RUN/report.html; several write one page, the first of them the base. Files instead
of directories are what RocksDB's benchmark.sh left (report.tsv, or summaries of several): their QPS relative to the
first version become versions.html.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from ground.errors import EXIT_CHECK_FAILED, EXIT_OK
from ground.results.files import Files
from ground.system.atomic_files import check_new
from ground.text.progress import Reporter, shown_path, terminal_width
from ioflame.commands.arguments import Commands
from ioflame.present.imported import imported_view
from ioflame.present.report import write_page_of
from viz.page.document import write_page
from viz.page.experiment import render_experiment
from viz.tables.relative import relative_section
from viz.terminal.table import section_text

_VERSIONS = "versions.html"


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "report", help="one offline page of a run, or of several side by side", description=__doc__
    )
    parser.add_argument(
        "directories",
        type=Path,
        nargs="+",
        metavar="RUN",
        help="run directories; the first is the base. Or report.tsv files of benchmark.sh",
    )
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="FILE",
        help=f"default: RUN/{Files.REPORT}; compare.html for several, {_VERSIONS} for files of benchmark.sh",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    directories = [directory.resolve() for directory in arguments.directories]
    if all(directory.is_file() for directory in directories):
        return _import(directories, arguments.out)
    several = len(directories) > 1
    out = arguments.out or (Path("compare.html") if several else directories[0] / Files.REPORT)
    if several and arguments.out is None:
        check_new(out, str(out), f"-o {shlex.quote(str(out))}")
    with Reporter.on_terminal().stage("read what the runs left and make the page"):
        write_page_of(directories, out)
    _print_place(out)
    return EXIT_OK


def _import(files: Sequence[Path], asked: Path | None) -> int:
    """Exit code 1 where a line of them had to be left out."""
    out = asked or Path(_VERSIONS)
    check_new(out, str(out), f"-o {shlex.quote(str(out))}")
    view = imported_view(files)
    write_page(render_experiment(view), out)
    width = terminal_width(sys.stdout)
    print("\n\n".join(section_text(relative_section(table), width) for _, table in view.relative))
    for words in view.notes:
        Reporter.on_terminal().warn(words)
    _print_place(out)
    return EXIT_CHECK_FAILED if view.notes else EXIT_OK


def _print_place(out: Path) -> None:
    print(f"report:       {shown_path(out.absolute())}   ({out.stat().st_size / 1e6:.2f} MB; open it in a browser)")
