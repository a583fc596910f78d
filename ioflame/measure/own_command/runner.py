"""A command of the user's: each of its benchmarks is watched while it runs, then analysed."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from collectors.counts import Counted
from collectors.perf import Plan
from collectors.report_phases import ReportedPhase, ReportPhases
from collectors.rocksdb_clients import open_database
from ground.errors import IoflameError
from ground.results.command_run import CommandRun
from ground.results.host_load import HostLoad
from ground.results.interval import Interval
from ground.results.record import Unobserved
from ground.results.run import Run
from ground.system.held_process import HeldProcess
from ground.system.process import Child, Children
from ground.system.target import Target
from ground.text.file_name import file_name
from ground.text.progress import Reporter
from ground.text.titles import title_of
from ioflame.measure.attach.benchmarks import Benchmark, command_of, phases_of
from ioflame.measure.attach.job import AttachJob, AttachOptions, new_record, resolve
from ioflame.measure.attach.session import WHOLE, AttachSession, Part, attached_session, parts_of_seconds, rounds_of
from ioflame.measure.own_command.clients import BenchmarkPhase, Clients, PrintedLines, seconds_left
from ioflame.measure.own_command.command_line import StartedCommand, command_line
from ioflame.measure.windows import END_SECONDS, PLAIN, WindowPlan, run_windows, unseen, warm_up_seconds
from workloads.engines.rocksdb.command_line import BenchCommand
from workloads.registry import DEFAULT_ENGINE, engine_named

_LOOK_SECONDS = 0.05
# All windows together, where neither an option nor the benchmark's own duration says it; and the most by the latter.
_DEFAULT_SECONDS, _MOST_SECONDS = 60.0, 600.0
_NO_GROUP = "it would hold the command as well"


@dataclass(frozen=True)
class CommandOptions:
    """The options of `ioflame run`, checked.

    command: as it was given; added: words that are added to it; report: where those let db_bench report to
    seconds: total length of all windows; None: as long as a benchmark says, or a minute
    warm_up: s before the first window; None: a tenth of what is known of its length
    whole:   watch all of it, and look for no client
    count:   another source of the number of queries
    lines:   of a client's output are read, which count its queries
    server:  a process that is watched in place of the command; None: the command itself
    log:     a file that gets what it prints; None: as our own streams do
    host_load: what others did before it was started; None where that was not looked at
    attach:  what is common to all that is watched; its target, seconds and counts are not read
    """

    command: StartedCommand
    added: Sequence[str]
    report: Path | None
    seconds: float | None
    warm_up: float | None
    whole: bool
    count: Counted | None
    attach: AttachOptions
    lines: bool = False
    server: int | None = None
    log: Path | None = None
    host_load: HostLoad | None = None


class CommandRunner:
    """runs: what was watched so far, in its order; code: exit code of the command, None as long as it runs"""

    def __init__(self, options: CommandOptions, home: CommandRun, plan: Plan, reporter: Reporter) -> None:
        self._options, self._home, self._plan, self._reporter = options, home, plan, reporter
        self.runs: list[Run] = []
        self.code: int | None = None
        self.failed = False
        self._phases: ReportPhases | None = None
        self._child: Child | None = None
        self._lines: PrintedLines | None = None
        self._uncounted = ""

    def start_and_watch(self) -> None:
        """Returns once the command and all that it started have ended. An interrupt is passed to the command, and
        raised again here once nothing of it is left."""
        options = self._options
        if options.report is not None:
            parse = engine_named(DEFAULT_ENGINE).parse_report
            interval = options.command.bench.interval if options.command.bench is not None else 0
            self._phases = ReportPhases(options.report, parse, max(interval, 1))
        with Children() as children, contextlib.ExitStack() as passing:
            started = time.monotonic()
            # What is interrupted while it starts is among the children already.
            try:
                child = self._child = self._start(children, passing)
                clients = Clients(child, options.command, whole=options.whole)
                passing.callback(clients.close)
                while (process := clients.next()) is not None:
                    self._watch(process)
                if clients.left:
                    self._end_left(child, clients.left)
            except KeyboardInterrupt:
                for child in children:
                    self._interrupt(child)
                raise
            finally:
                for child in children:
                    self.code = child.stop()
                    self._home.record.end = child.describe_end()
                    self._home.save()
        self._tell_unwatched(clients, time.monotonic() - started)

    def _start(self, children: Children, passing: contextlib.ExitStack) -> Child:
        """The command, with its output to the log where there is one, and read where figures are printed in it."""
        options = self._options
        client, program = options.command.client, options.command.program
        argv = command_line(options.command, options.added, read=options.lines)
        log = passing.enter_context(options.log.open("wb")).fileno() if options.log is not None else None
        instead: dict[int, int] = {} if log is None else {1: log, 2: log}
        if log is None:
            passing.enter_context(self._reporter.beside_others())
        if client is not None and options.lines:
            self._lines = PrintedLines(client, options.command, self._reporter, instead)
            passing.callback(self._lines.finish)
            instead |= self._lines.instead
        child = children.start(program, argv, stop_signal=signal.SIGINT, inherits=True, instead=instead)
        if self._lines is not None:
            self._lines.start()
        return child

    def _interrupt(self, child: Child) -> None:
        self._reporter.warn(f"interrupted: {child.name} is sent SIGINT, as a terminal does")
        if child.stop() == -signal.SIGKILL:
            self._reporter.warn(f"{child.name} did not end within 10 s, and was killed with all that it had started")

    def _end_left(self, child: Child, left: Sequence[int]) -> None:
        self._reporter.warn(
            f"{child.name} has ended, but process {', '.join(map(str, left))} that it started runs on: it is ended, "
            "as nothing started here is left behind; of a daemon: start it yourself, then ioflame attach --pid PID"
        )

    def _tell_unwatched(self, clients: Clients, seconds: float) -> None:
        """Why there is no run, where there is none."""
        if self.runs or self.failed:
            return
        command, child = self._options.command, self._child
        assert child is not None
        end = f"{command.program}: {child.describe_end()} after {seconds:.1f} s"
        if self._home.record.left_out or (self._phases is not None and self._phases.ended):
            why = "no benchmark lived long enough for a window: a longer --duration, or a larger --num"
        elif clients.unreadable:
            why = "it ran as another user, and may not be looked into: sudo ioflame run -- the same command"
        elif command.script:
            why = "none of its processes had a RocksDB database or a report open; --whole watches all that it starts"
        elif command.bench is not None:
            why = "it ended before its first query"
        elif self.code:
            why = "it failed before a window fitted"
        else:
            why = "there was nothing to be watched for so short a time: --whole watches from its start"
        self._reporter.warn(f"{end}; nothing was measured: {why}")

    def _watch(self, process: HeldProcess) -> None:
        """Watches a client until it ends. One that cannot be watched is reported, and continues."""
        try:
            server = self._options.server
            target = Target([process.pid], started=True) if server is None else Target([server])
            bench = command_of(process) if not self._options.whole else None
            if bench is not None and bench.report is not None:
                self._watch_benchmarks(process, target, bench)
            else:
                self._watch_whole(process, target, bench)
        except IoflameError as error:
            # Of one that has just ended, `_tell_unwatched` reports that nothing was measured.
            self.failed = self.failed or process.alive
            if process.alive:
                self._reporter.warn(f"process {process.pid} is not watched: {error}")
        while process.alive:
            time.sleep(_LOOK_SECONDS)

    def _watch_benchmarks(self, process: HeldProcess, target: Target, bench: BenchCommand) -> None:
        own = self._phases if self._phases is not None and self._phases.path == bench.report else None
        phases = own or phases_of(process, bench)
        assert phases is not None
        named, seen = bench.benchmarks, set()
        while process.alive:
            phase = phases.next()
            if phase is None:
                time.sleep(_LOOK_SECONDS)
                continue
            seen.add(phase.number)
            self._watch_benchmark(process, target, bench, _name(named, phase.number), phase)
        for number in sorted(set(range(phases.ended)) - seen):
            self._leave_out(_name(named, number), "ended before it was seen")

    def _watch_benchmark(
        self, process: HeldProcess, target: Target, bench: BenchCommand, name: str, phase: ReportedPhase
    ) -> None:
        # With its first line its rate is known.
        while phase.going and not phase.report.rates and not phase.failed:
            time.sleep(_LOOK_SECONDS)
        running = Benchmark(process, bench, name, phase)
        running.await_begin()
        if not phase.going:
            self._leave_out(name, "ended before it was under way")
            return

        def left() -> float:
            return seconds_left(bench, name, phase)

        lasts = bench.seconds(name) is not None
        run = self._measure(BenchmarkPhase(process, target, name, running, left, lasts))
        # Its lines are gone once the next one has begun.
        while phase.going:
            time.sleep(_LOOK_SECONDS)
        self._note_whole(run, phase.rate_of_all)

    def _watch_whole(self, process: HeldProcess, target: Target, command: BenchCommand | None) -> None:
        begun = time.monotonic()
        bench, name, left, lasts = None, self._options.command.program, lambda: math.inf, False
        if command is not None:
            names = command.benchmarks
            bench = Benchmark(process, command, names[0] if len(names) == 1 else "", None)
            name = bench.name or "+".join(names) or Path(command.program).name
            if self._options.count is None and self._options.attach.symbol is None:
                self._reporter.warn(bench.without_count)
            seconds = command.seconds(bench.name)
            if seconds is not None:
                left, lasts = lambda: begun + seconds - time.monotonic(), True
        if self._lines is not None and self._await_line(process, self._lines):
            left, lasts = self._lines.left, self._lines.seconds is not None
        run = self._measure(BenchmarkPhase(process, target, name, bench, left, lasts))
        ran_ns = time.monotonic_ns()
        while process.alive:
            ran_ns = time.monotonic_ns()
            time.sleep(_LOOK_SECONDS)
        if self._lines is not None:
            self._note_whole(run, self._lines.rate_of_all(ran_ns))

    def _await_line(self, process: HeldProcess, lines: PrintedLines) -> bool:
        """Whether a client that prints some has begun to."""
        if lines.counts(process):
            return True
        if process.alive:
            self._uncounted = lines.without_count
            self._reporter.warn(self._uncounted)
        return False

    def _measure(self, phase: BenchmarkPhase) -> Run | None:
        """A run of its own, where a window fits."""
        options, bench = self._options, phase.bench
        roles = bench.roles if bench is not None else {}
        counts = self._counts(bench, roles)
        part = bench.part(roles) if bench is not None else self._part(phase)
        whole = self._whole(phase)
        own = self._options.server is None
        known = own and (open_database(phase.process) is not None or bench is not None)
        attach = replace(
            options.attach,
            pids=[phase.process.pid],
            seconds=whole,
            period=whole,
            counts=counts,
            engine=options.attach.engine or (DEFAULT_ENGINE if known else None),
            out=self._home.directory,
        )
        job = self._resolved(attach, phase)
        record = new_record(job)
        record.workload, record.host_load = file_name(phase.name), options.host_load
        record.options = {"command": attach.asked, **{k: v for k, v in record.options.items() if k != "attach"}}
        if bench is not None:
            bench.describe(record, counts)
        elif self._lines is not None and counts and (at_once := self._lines.queries_at_once):
            assert record.target is not None
            record.threads = record.target.clients = at_once
        run = Run.create(self._home.directory, record)
        assert self._child is not None
        try:
            with attached_session(job, run, self._reporter, part, _NO_GROUP, (self._child.supervisor,)) as session:
                self._windows(session, phase, whole)
        finally:
            kept = any(window.kind == PLAIN for window in run.record.windows)
            if kept:
                self.runs.append(run)
                self._home.record.runs.append(run.directory.name)
                self._home.save()
            else:
                shutil.rmtree(run.directory)
        if kept:
            self._note(run, phase)
            return run
        self._leave_out(phase.name, "ended before its first window did")
        return None

    def _resolved(self, attach: AttachOptions, phase: BenchmarkPhase) -> AttachJob:
        """Without a count, where the user did not ask for it and it is not to be had."""
        own = self._options.command.called
        try:
            return resolve(attach, phase.target, self._reporter, self._plan)
        except IoflameError as error:
            if own is None or attach.symbol != own:
                raise
            self._uncounted = f"queries are not counted: {error.what}"
            self._reporter.warn(self._uncounted)
        return resolve(replace(attach, symbol=None), phase.target, self._reporter, self._plan)

    def _whole(self, phase: BenchmarkPhase) -> float:
        """Length of all its windows, s."""
        if self._options.seconds is not None:
            return self._options.seconds
        left = phase.left()
        most = _MOST_SECONDS if phase.lasts else _DEFAULT_SECONDS
        if left > most and math.isfinite(left):
            self._reporter.line(f"all windows take {most:.0f} of the {left:.0f} s that it has left; --seconds sets it")
        return min(left, most)

    def _part(self, phase: BenchmarkPhase) -> Part:
        """Of what is watched: as long as the command lives, where its lines or another process are what is watched."""
        if self._lines is None and self._options.server is None:
            return WHOLE
        return Part(lambda: phase.process.alive, {}, f"{phase.name} ended while it was watched")

    def _counts(self, bench: Benchmark | None, roles: Mapping[int, str]) -> dict[str, Counted]:
        if self._options.count is not None:
            return {"": self._options.count}
        if self._lines is not None:
            return {"": self._lines.count} if not self._uncounted else {}
        counts = bench.counts(roles) if bench is not None and self._options.attach.symbol is None else {}
        for count in counts.values():
            count.ask()
        return counts if not any(count.failed for count in counts.values()) else {}

    def _windows(self, session: AttachSession, phase: BenchmarkPhase, whole: float) -> None:
        """Warm-up, and as many windows as fit."""
        options, windows = self._options, session.windows
        session.run.record.missing[:] = [f"baseline and {', '.join(map(title_of, options.attach.collect))} windows"]
        session.keep_names()
        warm_up = options.warm_up if options.warm_up is not None else warm_up_seconds(whole)
        windows.warm_up(warm_up, "as --warm-up says" if options.warm_up is not None else "a tenth of the time")
        if session.job.options.symbol is not None and not windows.ended:
            session.count_calls(max(whole / 30, 1.0))
        every = max((count.every for count in session.job.options.counts.values()), default=0.0)
        end = END_SECONDS + max(every - 1, 0)
        collect = options.attach.collect
        begun, part = time.monotonic(), min(whole, phase.left() - end) / parts_of_seconds(collect)
        rounds = rounds_of(part, session.job)
        if rounds is not None:
            collect = tuple(session.watch_in_turns(rounds, lambda seconds: phase.left() - end >= seconds))
            whole -= time.monotonic() - begun
        if rounds is None or collect:
            plan = WindowPlan(collect, whole, every)
            run_windows(session, collect, iter(lambda: plan.next(phase.left() - end, _waiting()), None))

    def _note(self, run: Run, phase: BenchmarkPhase) -> None:
        """Into its record: what had no window, or one that the benchmark's end left nothing of, and what could not be
        counted."""
        left_out = unseen(run.record, self._options.attach.collect)
        target = run.record.target
        assert target is not None
        mend = "a longer --duration, a larger --num, or fewer of --collect"
        if self._options.attach.asked_to_collect:
            why = f"{phase.name} was too short for it"
            run.record.unobserved += [Unobserved(name, why, mend, True) for name in left_out]
        elif left_out:
            target.notes.append(f"{phase.name} was too short for {', '.join(left_out)}: {mend}")
        if self._uncounted:
            target.notes.append(self._uncounted)
        report = phase.bench.phase if phase.bench is not None else None
        if report is not None and report.failed and not target.count:
            target.notes.append(f"queries are not counted: {report.failed}")
        run.save()

    def _note_whole(self, run: Run | None, rate: Interval | None) -> None:
        """Into its record: what the client itself had done from its begin to its end."""
        if run is not None and run.record.target is not None and run.record.target.count:
            run.record.target.client_qps = rate
            run.save()

    def _leave_out(self, name: str, why: str) -> None:
        self._reporter.warn(f"{name} {why}: it has no windows")
        self._home.record.left_out.append(f"{name}: {why}")
        self._home.save()


def _waiting() -> float:
    """Threads that want to run, for each CPU, in the last minute."""
    return os.getloadavg()[0] / (os.cpu_count() or 1)


def _name(named: Sequence[str], number: int) -> str:
    return named[number] if number < len(named) else f"benchmark-{number + 1}"
