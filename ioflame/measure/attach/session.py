"""A target through its windows: plain, observed, plain ...; what it did is analysed as a profile's workload is.

A session is also what watches a command that we start (`own_command`).
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from collectors.attached import AttachedWindows
from collectors.mapped_files import MappedFiles
from collectors.target_counters import TargetProbe
from ebpf.calls import calls_in
from ground.errors import IoflameError
from ground.results.files import Files
from ground.results.record import OwnCost, Unobserved
from ground.results.record import Target as TargetRecord
from ground.results.run import Run
from ground.system.atomic_files import write_json, write_whole
from ground.system.held_process import HeldProcess
from ground.system.observer import Observer
from ground.system.own_cpu import own_cpu_seconds
from ground.system.process import Children
from ground.text.progress import Reporter
from ioflame.analysis.rounds import FEWEST
from ioflame.instruments import INSTRUMENTS
from ioflame.instruments.instrument import ObserverContext
from ioflame.measure.attach.budget import (
    LARGER,
    RunawayError,
    allowed_seconds,
    check_left,
    runaway_error,
    runaway_limit,
)
from ioflame.measure.attach.job import AttachJob
from ioflame.measure.attach.redact import hide_in_record, hide_waits, redacted, without_words
from ioflame.measure.first_look import first_look
from ioflame.measure.jobs import clock_pair, note_jobs, ran_lately
from ioflame.measure.planned_steps import steps_of_attach
from ioflame.measure.recorded import commands_of, recorded
from ioflame.measure.turns import TURN_SECONDS, Rounds, Turns
from ioflame.measure.windows import PLAIN, run_windows, unseen
from ioflame.present.run import write_pages
from ioflame.stages.run import analyse
from workloads.registry import files_reader, ladder_symbols
from workloads.service import rules_text


@dataclass(frozen=True)
class Part:
    """A part of a target's life that is watched alone, such as one benchmark of several.

    goes_on: whether the part continues; called more than once a second
    roles:   of threads whose names do not show them, by tid
    ended:   in words, what it means that the part has ended
    """

    goes_on: Callable[[], bool] | None = None
    roles: Mapping[int, str] | None = None
    ended: str = "it ended while it was watched"


WHOLE = Part()
# A second of each window, and perf four.
LEAST_SECONDS = 5.0


@dataclass
class AttachSession:
    """A target that is watched (a `WindowTarget`).

    used: seconds of CPU that we have used so far
    """

    job: AttachJob
    run: Run
    windows: AttachedWindows
    children: Children
    cost: OwnCost
    used: Callable[[], float]
    reporter: Reporter
    _mapped: MappedFiles

    @property
    def ended(self) -> bool:
        return self.windows.ended

    def plain(self, seconds: float) -> None:
        with self._accounted(PLAIN):
            self.windows.plain(seconds)

    @contextlib.contextmanager
    def _accounted(self, kind: str) -> Iterator[None]:
        """What we use of CPU within is that of windows of this kind."""
        before = self.used()
        try:
            yield
        finally:
            self.cost.seconds[kind] = self.cost.seconds.get(kind, 0.0) + self.used() - before

    def keep_names(self) -> None:
        """Copies what the target has mapped and nobody could read later."""
        self._mapped.keep(_busiest_first(self.windows, self.job))

    def observe(self, name: str, seconds: float) -> None:
        with self._accounted(name):
            self._keep()
            self._observe(name, seconds, self._allowed(name))
            self.keep_names()

    def _keep(self) -> None:
        """The recording may fill the disk. A record that is to be redacted is not written before it is, and after its
        recordings were removed."""
        if self.job.redaction is None:
            self.run.save_windows(self.windows.windows(), self.windows.series())

    def watch_in_turns(
        self, rounds: Rounds, fits: Callable[[float], bool] = lambda _: True, *, jobs_whole: bool = True
    ) -> list[str]:
        """Those that can take turns do, in so many rounds; returns the others, which want windows of their own.

        Where the target writes perf is one of these: the CPU of a flush or a compaction is known where it is whole in a
        window.
        fits: whether there is time for a round of so many seconds; jobs_whole: whether that CPU is to be known
        """
        names = self.job.options.collect
        turns = Turns(self._failed, self.reporter, lambda: self.windows.ended, self._accounted)
        if not (self.reporter.quiet or self.job.options.record_only or self.job.options.redact):
            turns.first["perf"] = self._look
        alone = ["perf"] if jobs_whole and "perf" in names and self._jobs_run() else []
        try:
            for name in (name for name in names if name not in alone):
                context = self._context(name, rounds.number * rounds.of(name))
                make = partial(INSTRUMENTS[name].observer, replace(context, turns=True))
                if not self.windows.ended and not turns.attach(name, make):
                    alone.append(name)
            one = rounds.lasting(turns.observers, 1)

            def another(done: int) -> bool:
                if done:
                    self._keep()
                    self.keep_names()
                self.run.record.missing[:] = [f"rounds after the first {done}"]
                return done < rounds.number and fits(one)

            if turns.observers:
                turns.run(self.windows, rounds, time.time_ns(), another)
        finally:
            turns.detach()
        return [name for name in names if name in alone]

    def _look(self, perf: Observer) -> None:
        self._keep()
        first_look(self.run, perf, self.reporter)

    def _jobs_run(self) -> bool:
        """Whether the target's engine has flushed or compacted lately."""
        database = self.job.database_of(self.job.target.running)
        return database is not None and ran_lately(files_reader(self.job.engine), database)

    def count_calls(self, seconds: float) -> None:
        """Counts the calls of `options.symbol` for so long, and takes their rate for that of all windows."""
        before = self.used()
        record, job = self.run.record.target, self.job
        assert record is not None
        try:
            path = self.run.path(Files.CALL_COUNT)
            calls = calls_in(self.children, job.options.symbol or "", job.target.running, seconds, path)
        except IoflameError as error:
            record.count, record.count_failed = f"calls of {job.options.symbol}", error.what
        else:
            self.windows.rate, record.count_sampled = calls / seconds, True
            record.count = (
                f"{calls:,} calls of {job.options.symbol} in {seconds:g} s, taken for the rate of all windows"
            )
        self.cost.seconds["count"] = self.used() - before

    def _allowed(self, name: str) -> float:
        """CPU seconds that an instrument may take: its share of what is left of the budget by what the target used so
        far; no bound without one."""
        options, cost = self.job.options, self.cost
        if options.budget is None:
            return math.inf
        plain = [window for window in self.windows.windows() if window.kind == "plain"]
        cost.allowed = allowed_seconds(options.budget, options.period, plain)
        shares = [INSTRUMENTS[other].time_share for other in options.collect[options.collect.index(name) :]]
        return max(cost.allowed - sum(cost.seconds.values()), 0.0) * shares[0] / sum(shares)

    def _observe(self, name: str, seconds: float, allowed: float) -> None:
        """If it fails, the others continue; a target that ends meanwhile is not a failure of the instrument."""
        windows, children = self.windows, self.children
        before, started = self.used(), len(list(children))
        windows.limit = None if math.isinf(allowed) else before + allowed
        children.cpu_limit = runaway_limit(allowed)
        try:
            check_left(self.cost, allowed)
            windows.observed(INSTRUMENTS[name].observer(self._context(name, seconds)), seconds)
            if windows.over_limit:
                self.cost.cut.append(f"{name} after {windows.windows()[-1].seconds:.1f} of {seconds:.1f} s")
        except IoflameError as error:
            self._failed(name, runaway_error(list(children)[started:], self.used() - before, allowed) or error)
        finally:
            windows.limit = children.cpu_limit = None

    def _context(self, name: str, seconds: float) -> ObserverContext:
        job = self.job
        pids = [_busiest(self.windows, job)] if INSTRUMENTS[name].one_process else job.target.running
        return ObserverContext(
            self.run,
            self.children,
            pids,
            job.plan,
            job.device,
            ladder_symbols(),
            8,
            job.database_of(pids),
            job.engine,
            seconds=seconds,
            query_symbol=job.options.symbol,
        )

    def _failed(self, name: str, error: IoflameError) -> None:
        job = self.job
        # What the budget ended is said in our own words.
        if job.redaction is not None and error.mend != LARGER and not isinstance(error, RunawayError):
            error = without_words(name, error, job.redaction)
        # Of a target that has ended, the windows say so.
        if not self.windows.ended and job.target.alive:
            asked = job.options.asked_to_collect and error.mend != LARGER
            self.run.record.unobserved.append(Unobserved(name, error.what, error.mend, asked))


def attach(job: AttachJob, run: Run, reporter: Reporter, unlimited: str = "", part: Part = WHOLE) -> None:
    """Watches the target, and analyses what was recorded unless that is done elsewhere, all into `run`; `latest` points
    to it then.

    unlimited: why our processes are in no control group that bounds their CPU; "" where they are
    part: of its life, which is watched alone
    MeasurementError where nothing could be seen at all; a target that ends sooner leaves what was seen until then.
    """
    with redacted(job, run):
        with attached_session(job, run, reporter, part, unlimited) as session:
            began = clock_pair()
            session.keep_names()
            _watch(session)
            database = job.database_of(job.target.running)
        if job.options.asked_to_collect:
            why = "the target ended before its window did"
            run.record.unobserved += [
                Unobserved(name, why, "", True) for name in unseen(run.record, job.options.collect)
            ]
        if database is not None and job.redaction is None:
            note_jobs(run, files_reader(job.engine), database, began, lambda: bool(job.target.running))
        if not job.options.record_only:
            analyse_attached(run, reporter)
    run.point_latest()


def analyse_attached(run: Run, reporter: Reporter) -> None:
    """Of a target that runs: it goes first."""
    os.nice(10)
    write_pages(run, analyse(run, reporter), reporter)


def recorded_share(collect: Sequence[str]) -> float:
    """Of all the seconds, the part in which perf records."""
    return INSTRUMENTS["perf"].time_share / parts_of_seconds(collect) if "perf" in collect else 0.0


def parts_of_seconds(collect: Sequence[str]) -> int:
    """Of all the seconds: how they are shared out; plain windows have one each."""
    return len(collect) + 1 + sum(INSTRUMENTS[name].time_share for name in collect)


def _watch(session: AttachSession) -> None:
    """In turns where there is time for some rounds, otherwise in windows."""
    options = session.job.options
    names: Sequence[str] = options.collect
    part = options.seconds / parts_of_seconds(names)
    # An observer has what is left of a budget by what the target used before: in turns all would begin at once.
    rounds = rounds_of(part, session.job) if options.budget is None else None
    counted = [(PLAIN, part)] if options.symbol is not None else []
    session.reporter.plan([*counted, *steps_of_attach(names, rounds, part, alone=options.record_only)])
    if options.symbol is not None:
        session.plain(part)
        session.count_calls(max(options.seconds / 30, 1.0))
    if rounds is not None:
        names = session.watch_in_turns(rounds)
    if rounds is None or names:
        run_windows(session, names, _windows(names, part))


def rounds_of(part: float, job: AttachJob) -> Rounds | None:
    """part: s of a plain window, of which turns make as much; None where that is too short for some rounds"""
    turn = max(TURN_SECONDS, *(count.every for count in job.options.counts.values()), 0.0)
    shares = {name: INSTRUMENTS[name].time_share for name in job.options.collect}
    return Rounds(int(part / turn), turn, shares) if part >= FEWEST * turn else None


def _windows(names: Sequence[str], part: float) -> Iterator[tuple[str, float]]:
    yield PLAIN, part
    for name in names:
        yield name, part * INSTRUMENTS[name].time_share
        yield PLAIN, part


@contextlib.contextmanager
def attached_session(
    job: AttachJob,
    run: Run,
    reporter: Reporter,
    part: Part = WHOLE,
    unlimited: str = "",
    besides: tuple[int, ...] = (),
    used_before: float = 0.0,
) -> Iterator[AttachSession]:
    """Within, windows are measured; then their record is written, whatever ended them.

    unlimited: why our processes are in no control group that bounds their CPU; "" where they are
    besides:   children of ours that are not ours to count: a command of the user's
    used_before: seconds of our CPU that belong to sessions before
    """
    record = run.record
    assert record.target is not None
    write_whole(run.path(Files.RULES), rules_text(job.rules).encode())

    def used() -> float:
        return own_cpu_seconds(besides) - used_before

    with recorded(run, Children()) as children:
        probe = TargetProbe(job.target, job.device, job.group_of)
        windows = AttachedWindows(probe, job.options.counts, reporter, part.goes_on, part.roles)
        mapped = MappedFiles(run.path(Files.MAPPED))
        cost = OwnCost({"start": used()}, 0.0, job.options.budget, unlimited, job.options.period)
        record.target.cost = cost
        try:
            yield AttachSession(job, run, windows, children, cost, used, reporter, mapped)
            windows.settle()
        finally:
            if part.goes_on is not None:
                part.goes_on()  # so that an interrupt keeps the queries reported since the last look
            run.save_windows(windows.windows(), windows.series())
            _note_target(job, record.target, probe, windows, part.ended)
            cost.target_seconds = sum(window.counters.cpu_ns for window in record.windows) / 1e9
            record.target.names = list(mapped.checks())
            if job.redaction is None:
                write_json(run.path(Files.MAPPED_PATHS), sorted(mapped.paths))
            record.commands = commands_of(children)
            if job.redaction is not None:
                hide_in_record(job, run, job.redaction)
                hide_waits(run, job.redaction)
            run.save()
        record.missing.clear()


def _busiest_first(windows: AttachedWindows, job: AttachJob) -> list[HeldProcess]:
    """Those that run, by the CPU that they used so far."""
    used = windows.cpu_by_process()
    running = [process for process in job.target.processes if process.alive]
    return sorted(running, key=lambda process: -used.get(process.pid, 0))


def _busiest(windows: AttachedWindows, job: AttachJob) -> int:
    """What looks at one process at a time looks at this one."""
    return next((process.pid for process in _busiest_first(windows, job)), job.target.pids[0])


def _note_target(
    job: AttachJob, record: TargetRecord, probe: TargetProbe, windows: AttachedWindows, ended: str
) -> None:
    """Into the record: who was seen, and what became of them."""
    # Samples of a process id that was reused may be of either process.
    record.pids = [pid for pid in job.target.pids if pid not in job.target.reused]
    record.groups = windows.groups()
    record.ended_lost, record.ignoring = probe.lost, probe.ignoring
    failed = {kind: count.failed for kind, count in job.options.counts.items() if count.failed}
    counted = "; ".join(f"{kind}: {why}" if kind else why for kind, why in failed.items())
    record.count_failed = counted or record.count_failed
    record.notes = list(_what_happened(job, ended if windows.ended else ""))


def _what_happened(job: AttachJob, ended: str) -> Iterator[str]:
    target = job.target
    if ended:
        yield ended
    for pid, (before, after) in target.became.items():
        yield f"process {pid} executed another program meanwhile: {before} became {after}"
    for pid in target.reused:
        yield f"process {pid} ended, and another one got its number: no samples of either are shown"
    if target.group_gone:
        yield "its control group was removed; the processes that were in it were watched on"
    if target.stopped:
        yield f"somebody stopped it meanwhile (state T): process {', '.join(map(str, sorted(target.stopped)))}"
