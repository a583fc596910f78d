"""`ioflame top`: `attach` in turns without end. Each part of it is a run, of which the last two are kept."""

from __future__ import annotations

import contextlib
import gc
import os
import select
import shutil
import sys
import termios
import time
import tty
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from collectors.perf_so_far import copy_so_far
from ground.errors import IoflameError, UsageError
from ground.results.categories import telling_view
from ground.results.files import Files
from ground.results.metrics import METRICS, has_one_rate
from ground.results.record import RunRecord, Window
from ground.results.roles import WRITES_VIEW
from ground.results.run import Run
from ground.system.own_cpu import own_cpu_seconds
from ground.system.scratch import scratch_directory
from ground.text.columns import escaped, fold_line
from ground.text.progress import Reporter
from ground.text.terminal import steering_stderr
from ground.text.units import format_bytes
from ioflame.analysis.rounds import FEWEST, observer_costs
from ioflame.instruments import INSTRUMENTS
from ioflame.measure.attach.job import AttachJob
from ioflame.measure.attach.session import AttachSession, Part, attached_session
from ioflame.measure.first_look import fold_so_far
from ioflame.measure.turns import Rounds
from ioflame.measure.windows import PLAIN
from ioflame.stages.rules import rules_of
from viz.columns import cut
from viz.figures import FIRST, cost_cells, figure_text, where_it_goes
from viz.table import Table
from viz.tables.categories import categories_table
from viz.terminal.table import table_text

OBSERVERS = ("perf", "requests")
_TURN = 2.0
# Of a part: some two minutes. Neither recordings nor counters grow beyond it.
_ROUNDS = 30
PART_SECONDS = (2 * _ROUNDS + 2) * _TURN
# What watching costs is less than what a part can tell: it rests on so many windows.
_WINDOWS = 600
# Of the counts, for edges that are asked for later.
_REMEMBERED_NS = 60 * 10**9
# Folding may take so much of the time.
_FOLDING = 1 / 50
# Lines that are no row of a table.
_LINES = 17


class LiveScreen:
    """Whoever looks for the key draws as well, about once a second. pressed: whether q was"""

    def __init__(self) -> None:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UsageError(
                "ioflame top: standard input and standard error are no terminal",
                means="there is no screen to draw on, and no key that ends it; nothing was attached",
                mend="ioflame attach PID --seconds 60, which prints its result   (--every 10m: again and again)",
            )
        self.pressed = False
        self._drawn = 0.0
        self._live = Live(console=Console(file=steering_stderr(), highlight=False), screen=True, auto_refresh=False)

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        keys = sys.stdin.fileno()
        before = termios.tcgetattr(keys)
        try:
            tty.setcbreak(keys)
            with self._live:
                yield
        finally:
            with contextlib.suppress(termios.error):  # its terminal was closed
                termios.tcsetattr(keys, termios.TCSADRAIN, before)

    def look(self, text: Callable[[int, int], str], *, draw: bool = False) -> bool:
        """Whether q was pressed by now, or the terminal closed. text: of the screen, for its columns and lines"""
        while not self.pressed and select.select([sys.stdin], [], [], 0)[0]:
            self.pressed = os.read(sys.stdin.fileno(), 1) in b"qQ"
        if draw or time.monotonic() - self._drawn >= 1:
            self._drawn = time.monotonic()
            lines = map(escaped, text(*self._live.console.size).split("\n"))
            self._live.update(Text("\n".join(lines), no_wrap=True), refresh=True)
        return self.pressed


@dataclass
class Top:
    """A target that is watched until q is pressed, or it ends.

    begin: makes a new run of it; unlimited: as `attached_session` has it
    runs:  that are kept: the part before, and the one that is measured
    """

    job: AttachJob
    part: Part
    begin: Callable[[], Run]
    unlimited: str
    live: LiveScreen
    runs: list[Run] = field(default_factory=list)
    _begun: float = field(default_factory=time.monotonic)
    _recent: deque[Window] = field(default_factory=lambda: deque(maxlen=_WINDOWS))
    _folded: tuple[float, float] = (0.0, 0.0)
    _facts: str = ""
    _categories: Table[Any] | None = None
    _io: str | Table[Any] = ""
    _end: list[str] = field(default_factory=list)

    def watch(self) -> None:
        """Part after part, until the target has ended, or was ended by q."""
        while self._watch_part():
            pass

    def left(self) -> Run:
        """The run that is left: the last part, or the one before where it is too short. The other one is removed."""
        kept = self.runs[0 if len(self.runs[-1].record.of_kind("perf")) < FEWEST else -1]
        for run in self.runs:
            if run is not kept:
                shutil.rmtree(run.directory)
        return kept

    def _watch_part(self) -> bool:
        """Whether there is another one."""
        used = own_cpu_seconds() if self.runs else 0.0
        for old in self.runs[:-1]:
            shutil.rmtree(old.directory)
        gc.collect()  # a session and what it calls refer to each other
        self.job.target.forget_ended()
        for count in self.job.options.counts.values():
            count.known.forget(time.monotonic_ns() - _REMEMBERED_NS)
        self.runs = [*self.runs[-1:], run := self.begin()]
        part, quiet = replace(self.part, goes_on=self._goes_on), Reporter(quiet=True)
        with attached_session(self.job, run, quiet, part, self.unlimited, used_before=used) as session:
            session.keep_names()
            if self.job.options.symbol is not None:
                session.count_calls(_TURN)
            session.plain(_TURN)
            session.observe("requests", _TURN)
            self._io = _io_of(run)
            session.watch_in_turns(Rounds(_ROUNDS, _TURN), lambda _: self._look(session), jobs_whole=False)
        # Some targets have many threads, of which nothing is shown.
        self._recent += [replace(one, counters=replace(one.counters, groups={})) for one in run.record.windows]
        if self.live.pressed and run.record.target is not None:
            run.record.target.notes = [note for note in run.record.target.notes if note != part.ended]  # it has not
            run.save()
        return not session.windows.ended and not any(one.kind == "perf" for one in run.record.unobserved)

    def _goes_on(self) -> bool:
        return not self.live.look(self._text) and (self.part.goes_on is None or self.part.goes_on())

    def _look(self, session: AttachSession) -> bool:
        """Folds what this part has recorded so far, between two turns: what that takes is in none. Whether there may be
        another round."""
        run, watched, before = session.run, session.windows, own_cpu_seconds()
        # A report by second tells of an edge with its next line.
        watched.begin_turns()
        run.save_windows(watched.windows(), watched.series())
        took, at = self._folded
        if len(run.record.of_kind("perf")) < FEWEST or watched.ended or time.monotonic() - at < took / _FOLDING:
            return not watched.ended
        with contextlib.suppress(IoflameError), scratch_directory() as scratch:  # the next look may have samples
            place = scratch / run.directory.name
            place.mkdir()
            # perf may not have written its last samples yet: they are in what is folded next.
            copy_so_far(run.path(Files.PERF_DATA), place / Files.PERF_DATA)
            if run.record.target is not None:
                run.record.target.pids = self.job.target.pids
            seen, found = fold_so_far(run, place)
            record = seen.record
            view = telling_view(found.views["owner"], found.views.get(WRITES_VIEW))
            cores = None if "cpuPer" in record.metrics else record.metrics.get("cores")
            head, unit = where_it_goes(record), record.profile.unit if record.profile is not None else "ns"
            self._categories = categories_table(view, unit, head, cores=cores, about=None)
            self._facts, self._end = _facts(record), [*self._costs(session, record)]
        self._folded = own_cpu_seconds() - before, time.monotonic()
        self.live.look(self._text, draw=True)
        watched.begin_turns()
        return not watched.ended

    def _costs(self, session: AttachSession, record: RunRecord) -> Iterator[str]:
        """What watching costs, and what q leaves."""
        first, last = record.windows[0].start_ns, record.windows[-1].end_ns
        own = 100 * session.used() / (last - first) * 1e9
        yield f"cost: {own:.1f} % of one CPU in these {(last - first) / 1e9:.0f} s, all that we run"
        windows = [*self._recent, *record.windows]
        costs = {cost.kind: cost for cost in observer_costs(windows)}
        if "perf" in costs and not has_one_rate(record):
            _, percent, ends = cost_cells(costs["perf"])
            yield f"  QPS in perf's turns {percent} ({ends}) against baseline turns, n={costs['perf'].qps_ratio.n}"
        size = sum(file.stat().st_size for one in self.runs for file in one.directory.rglob("*"))
        yield f"q leaves a run of these {(last - first) / 1e9:.0f} s; parts on disk: {format_bytes(size)}"

    def _text(self, width: int, height: int) -> str:
        """Of the screen."""
        minutes, seconds = divmod(int(time.monotonic() - self._begun), 60)
        lines = [f"ioflame top {self.job.options.asked}   {minutes} min {seconds:02d} s   q: end, and leave a run"]
        if self._categories is None:
            return "\n".join([*lines, "", "attaching, then three rounds of turns: some 20 s"])
        room = max(height - _LINES, 4)
        most, by_weight = room - room // 3, lambda row: -row.weight  # `other` as well, which a long table has last
        categories = replace(self._categories, most=most, order=by_weight, legend="", sums=())
        io = self._io if isinstance(self._io, str) else table_text(self._io, width)
        lines += [*fold_line(self._facts, width, 2).split("\n"), "", *table_text(categories, width).split("\n"), ""]
        lines += [*io.split("\n")[: 2 + room // 3], "", *self._end]
        return "\n".join(cut(line, width) for line in lines[:height])


def _io_of(run: Run) -> str | Table[Any]:
    """The requests of the part's own window by file and level; or why they are not known."""
    one = INSTRUMENTS["requests"]
    try:
        if one.analyse is not None and run.path(one.result).exists():
            one.analyse(run, rules_of(run))
            tables = (block for block in one.parts[one.name].make(run) if isinstance(block, Table) and block.rows)
            return next(tables, "IO by file and level: no request in 2 s")
    except IoflameError as error:
        return f"IO by file and level: {error.what}"
    return f"IO by file and level: {', '.join(one.why for one in run.record.unobserved)}"


def _facts(record: RunRecord) -> str:
    """Of the baseline turns."""
    plain = [one for one in record.windows if one.kind == PLAIN]
    seconds, queries = sum(one.seconds for one in plain), sum(one.counters.queries or 0 for one in plain)
    told = [f"{METRICS[name].title}: {figure_text(record, name)}" for name in FIRST if name in record.metrics]
    waited = sum(one.counters.runqueue_wait_ns for one in plain)
    per = (
        f"{waited / 1e3 / queries:.2f} us/query"
        if queries
        else f"{waited / 1e6 / seconds:.2f} ms/s; no --count of queries"
    )
    figures = "; ".join([*told, f"run-queue wait by schedstat: {per}"])
    return f"{figures}; of {seconds:.0f} s of baseline turns, n={len(plain)}"
