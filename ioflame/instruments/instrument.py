"""What an instrument says of itself, in one file of its own beside this one: all that others do with it follows.

What observes, analyses or makes pages is imported where that is done: commands that show a run begin sooner.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from ground.errors import UsageError
from ground.system.atomic_files import read_json_text
from ground.text.tsv import Row
from viz.table import Section, tsv_tables
from viz.terminal.table import section_text

if TYPE_CHECKING:
    from collectors.counters import Device
    from collectors.perf import Plan
    from ground.results.accounts import Account
    from ground.results.checks import Check
    from ground.results.interval import Interval
    from ground.results.run import Run
    from ground.system.observer import Observer
    from ground.system.process import Children
    from viz.page.run_view import Graph, Observed, Panel
    from workloads.registry import Rules

_R = TypeVar("_R")


@dataclass
class ObserverContext:
    """What an observer may know of the run it watches.

    pids:   the processes; what can look at one alone looks at the first
    plan:   perf's, as the trial after the warm-up left it
    device: None where the processes have no file on any
    symbols, ladder_sample: of the engine, for the ladder
    query_symbol: a function that runs once a query, where one was named for counting them
    database: the directory of its database, where that is known; engine: who knows the files in it, an engine or a
              service by name
    seconds: of the window, or of all turns; turns: whether it takes turns, if it can
    threshold_us, force: of records of single queries: from which on a query is slow (None: by a second before the
             window), and whether they are followed even where that is dear
    """

    run: Run
    children: Children
    pids: Sequence[int]
    plan: Plan
    device: Device | None
    symbols: Path
    ladder_sample: int
    database: Path | None = None
    engine: str = ""
    seconds: float = 20.0
    threshold_us: int | None = None
    force: bool = False
    query_symbol: str | None = None
    turns: bool = False


@dataclass(frozen=True)
class Part:
    """A part of a finished run, for `ioflame show`: read from its files, nothing is made again.

    about: its line in the help; file: of the run, which is the part as JSON
    make:  its sentences and tables, for people and for TSV; needs: further files, of which one must be there
    absent: why a run may not have it, where no instrument makes it
    """

    about: str
    file: str
    make: Callable[[Run], Section]
    needs: Sequence[str] = ()
    absent: str = ""

    def is_in(self, run: Run) -> bool:
        return run.path(self.file).exists() and (not self.needs or any(run.path(one).exists() for one in self.needs))

    def json(self, run: Run) -> str:
        """Its file as it is; of several an object of them, by name. MeasurementError where one is no JSON."""
        files = [name for name in (self.file, *self.needs) if run.path(name).exists()]
        texts = {name: read_json_text(run.path(name)) for name in files}
        if not self.needs:
            return texts[self.file]
        return "{" + ",\n".join(f'"{name}": {text.rstrip()}' for name, text in texts.items()) + "}\n"

    def text(self, run: Run, width: int | None = None) -> str:
        """For a terminal of that width."""
        return section_text(self.make(run), width)

    def tables(self, run: Run) -> Mapping[str, Sequence[Row]]:
        """The same as plain figures, to the last digit, by the table's name. Names of columns end in their unit; a
        column without one is a count, a ratio or words."""
        return tsv_tables(self.make(run))


@dataclass(frozen=True)
class JsonResult(Generic[_R]):
    """A result that is one JSON file, and what follows from it. The run is None where the instrument watched alone.

    read:    MeasurementError where the file is missing or of another form
    section: its sentences and tables; checks: what it is worth
    """

    file: str
    read: Callable[[Path], _R]
    section: Callable[[_R, Run | None], Section]
    checks: Callable[[_R, Run | None], Iterable[Check]]

    def of(self, run: Run) -> _R:
        return self.read(run.path(self.file))

    def analyse(self, run: Run, _: Rules) -> list[Check]:
        return list(self.checks(self.of(run), run))

    def part(self, about: str) -> Part:
        return Part(about, self.file, lambda run: self.section(self.of(run), run))

    def show(self, path: Path) -> tuple[str, list[Check]]:
        """As `Alone` has it."""
        result = self.read(path)
        return section_text(self.section(result, None)), list(self.checks(result, None))


@dataclass(frozen=True)
class Flame:
    """Stacks of its own. file: without which there are none.

    svg:   draws them in the run directory
    graph: the flame graph of the page, from that file; None where what belongs to it cannot be read
    """

    file: str
    svg: Callable[[Run, Rules], None]
    graph: Callable[[Rules, Observed, Path], Graph | None]


@dataclass(frozen=True)
class Alone:
    """`ioflame ebpf NAME`: the instrument by itself, on any process.

    What it costs the workload, and an example, are in `help/NAME.txt` beside this file.

    add_arguments: its own options; --pid, --children, --seconds, --json and --out are there already
    observer:      from the parsed options, the children of the job and the file to write; not attached yet
    show:          reads that file: as text, and what it is worth
    """

    about: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    observer: Callable[[argparse.Namespace, Children, Path], Observer]
    show: Callable[[Path], tuple[str, list[Check]]]


@dataclass(frozen=True)
class Refusal:
    """Why there is no window, and what would bring one."""

    why: str
    mend: str


@dataclass(frozen=True)
class Instrument:
    """What watches a workload or a target in windows of its own.

    name:     of its windows, and in COLLECT
    order:    of its window among those of the others
    observer: not attached yet; HostError where this host cannot run it
    result:   the file it leaves in the run directory; "" for none
    reads:    files of the run directory that are shown on its page, and what reads each
    analyse:  what follows from the result, which is there: writes files of its own, gives checks; it draws nothing
    figures:  of METRICS that its window gives, and no other; accounts: where its time or requests went, to be compared
    parts:    for `ioflame show`, by name; in this order they are its part of the summary
    panels:   of the page's section on waits; flame: stacks of its own; alone: as a program by itself
    profile:  the file of its folded stacks, and event and unit where the recording does not say them; for the store

    by_default:   attach has it unless told otherwise: it stops no thread, and costs little
    names:        its files hold names of the target's that are not hashed: not with --redact
    one_process:  it looks at one process; of several at the busiest
    holds:        it stops threads: it must not be held up itself while it does
    needed:       a profile without it has failed
    ends_itself:  it may end before its window does, and says why in a check of its own
    time_share:   of attach's seconds, beside the others
    times:        as long as the others' is its window of a profile
    takes_turns:  in the rounds of a profile, where this host has its usual way; others have a window of their own
    not_writing:  why a workload that writes has no window of it
    """

    name: str
    order: int
    observer: Callable[[ObserverContext], Observer]
    result: str = ""
    reads: Mapping[str, Callable[[Path], object]] = field(default_factory=dict)
    analyse: Callable[[Run, Rules], list[Check]] | None = None
    figures: Callable[[Run], Mapping[str, Interval]] | None = None
    accounts: Callable[[Run], Sequence[Account]] | None = None
    parts: Mapping[str, Part] = field(default_factory=dict)
    panels: Sequence[Panel] = ()
    flame: Flame | None = None
    alone: Alone | None = None
    profile: tuple[str, tuple[str, str] | None] | None = None
    by_default: bool = False
    names: bool = False
    one_process: bool = False
    holds: bool = False
    needed: bool = False
    ends_itself: bool = False
    time_share: int = 1
    times: int = 1
    takes_turns: bool = False
    not_writing: Refusal | None = None


def one_pid(arguments: argparse.Namespace) -> int:
    """The one process; UsageError for several, or with --children: this instrument separates threads only."""
    pids: list[int] = arguments.pid
    if len(pids) != 1 or arguments.children:
        raise UsageError(
            f"{arguments.name} looks at one process at a time",
            means="each process has a time of its own to be accounted for",
            mend=f"--pid {pids[0]} alone",
        )
    return pids[0]


def add_backend(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """--backend, for an instrument that has several: `names`, in the order of preference."""
    parser.add_argument(
        "--backend",
        default=os.environ.get("EBPF") or "auto",
        help=f"auto (the first that works here), or one of {', '.join(names)} (default: EBPF, or auto)",
    )


def add_queries(parser: argparse.ArgumentParser) -> None:
    """--kind, --query-symbol and --symbols: which calls of the process are its queries."""
    add = parser.add_argument
    add(
        "--kind",
        metavar="KIND",
        help="get, multiget, seek, or in tail write: follow these (default: the first of them that is called); read: "
        "each read call of its files, whoever makes it",
    )
    add(
        "--query-symbol",
        metavar="FUNCTION",
        help="the function whose calls are the queries, for a process without an engine that we know: "
        "space::Class::function, or PortalRun; --kind then says what they are called",
    )
    add(
        "--symbols",
        type=Path,
        metavar="NAME|FILE",
        help="the engine, or a file that names its queries (default: RocksDB's)",
    )
    add_returns(parser)


def add_returns(parser: argparse.ArgumentParser) -> None:
    """--return-trampolines: see the returns of functions whose code does not say where they are left."""
    parser.add_argument(
        "--return-trampolines",
        action="store_true",
        help="where a function's code does not say where it is left, see its returns by return trampolines: an "
        "exception that leaves it, or whatever else reads the stack, then ends the process",
    )
