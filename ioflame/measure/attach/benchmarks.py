"""A db_bench that is watched: what its command line and its report tell, so that nothing of it has to be guessed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from collectors.counts import Count, Counted, QueryCount
from collectors.report_phases import QueriesBesideWriter, ReportedPhase, ReportPhases
from collectors.rocksdb_clients import argv_of, has_open, open_database, thread_names, version_in, working_directory
from ground.errors import MeasurementError
from ground.results.record import RunRecord
from ground.results.roles import WRITER, client_roles, named_alike
from ground.system.held_process import HeldProcess
from ground.system.proc_stat import named_fields
from ioflame.measure.attach.session import WHOLE, Part
from workloads.engines.rocksdb.command_line import CLIENT, FUNCTIONS, BenchCommand, bench_command
from workloads.registry import DEFAULT_ENGINE, engine_named

# A benchmark is there to be measured: samples a second and CPU, as of a profile.
BENCHMARK_FREQUENCY = 999
_LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Benchmark:
    """What a db_bench is at.

    name:  of the benchmark; "" where several are asked for, and it is not known which of them runs
    phase: what its report says of it; None without a report
    """

    process: HeldProcess
    command: BenchCommand
    name: str
    phase: ReportedPhase | None

    def await_begin(self) -> None:
        """Returns once all of its threads have started, or it has ended."""
        phase = self.phase
        while phase is not None and phase.going and not phase.failed and not phase.has_begun:
            # One more writes the report, and begins before them.
            if len(named_alike(thread_names(self.process), self.process.pid)) > self._needs:
                return
            time.sleep(_LOOK_SECONDS)

    @property
    def _needs(self) -> int:
        """How many threads it starts for its operations."""
        return self.command.clients(self.name) + self.command.has_writer(self.name)

    @property
    def roles(self) -> dict[int, str]:
        """Of its own threads, by tid: they all bear its name. To be asked once they have started."""
        clients, beside = self.command.clients(self.name), self.command.has_writer(self.name)
        names, writes = thread_names(self.process), self.command.writes(self.name)
        found = client_roles(names, self.process.pid, clients, with_writer=beside, writes=writes)
        # Fewer than it needs: they have not all started.
        return found if self.name and len(found) == self._needs else {}

    def counts(self, roles: Mapping[int, str]) -> dict[str, Counted]:
        """By kind of operation, where a writer's are counted apart from the queries; "" for all together."""
        phase = self.phase
        if phase is None:
            return {}
        kind = self.command.kind(self.name)
        writers = [tid for tid, role in roles.items() if role == WRITER]
        if self.command.has_writer(self.name) and kind and len(writers) == 1 and self.command.writes_its_log:
            writer = QueryCount(_calls_of_write(self.process, writers[0]))
            return {kind: QueriesBesideWriter(phase, writer), "write": writer}
        return {"": phase}

    def part(self, roles: Mapping[int, str]) -> Part:
        if self.phase is None:
            return WHOLE
        phase = self.phase
        ended = f"{self.name or 'the benchmark'} ended while it was watched"
        return Part(lambda: phase.going, roles, ended)

    @property
    def without_count(self) -> str:
        """What gives us per query of a db_bench that writes no report."""
        symbol = FUNCTIONS.get(self.command.kind(self.name), FUNCTIONS["get"])
        why = "that is at no benchmark" if self.command.report is not None else "without a report"
        return (
            f"process {self.process.pid} is a {CLIENT} {why}, so its queries are not counted: "
            f"--count-symbol {symbol} counts them now; next time start it with --report_interval_seconds=1"
        )

    def describe(self, record: RunRecord, kinds: Iterable[str]) -> None:
        """Into the record of its run, before anything is measured. kinds: of operations that are counted"""
        command = self.command
        if self.name:
            record.workload = self.name
        record.threads = command.clients(self.name)
        assert record.target is not None
        if list(kinds) == [""] and self.name and not command.has_company(self.name):
            record.target.clients = record.threads
        database = open_database(self.process) or command.database
        if database is not None:
            read = "O_DIRECT" if command.direct_reads else "buffered reads"
            record.database.description = f"{database}, {read}; {record.database.description}"
            if version := version_in(database):
                record.tools["engine"] = version
        # Each of them is a setting, by which runs are compared.
        record.options |= {f"--{name}": value for name, value in command.flags.items()}


def _calls_of_write(process: HeldProcess, tid: int) -> Count:
    """A writer's operations: each of them is a call of write, to the log."""

    known: list[float] = []

    def read() -> float:
        # It ends with its benchmark: what it had done until then stays.
        with contextlib.suppress(OSError, KeyError):
            known[:] = [float(named_fields(process.path(f"task/{tid}/io"))["syscw"])]
        if not known:
            raise MeasurementError(f"what thread {tid} has written is not known: /proc/{process.pid}/task/{tid}/io")
        return known[0]

    return Count(f"calls of write of thread {tid}, each a write to the log", read)


def command_of(process: HeldProcess) -> BenchCommand | None:
    """The command line of a process, where it is one of a db_bench; None for any other."""
    return bench_command(argv_of(process), working_directory(process))


def bench_of(process: HeldProcess) -> BenchCommand | None:
    """The same of a db_bench that has its database or its report open now, which it closes between two benchmarks."""
    command = command_of(process)
    if command is None or not (has_open(process, command.report) or open_database(process) is not None):
        return None
    return command


def phases_of(process: HeldProcess, command: BenchCommand) -> ReportPhases | None:
    """Its benchmarks from now on; None where it writes no report."""
    if command.report is None:
        return None
    parse = engine_named(DEFAULT_ENGINE).parse_report
    return ReportPhases(command.report, parse, command.interval, process.pid)


def running_benchmark(processes: Iterable[HeldProcess]) -> Benchmark | None:
    """What the only db_bench among processes is at; None where there is none, or several."""
    found = [(process, command) for process in processes if (command := bench_of(process)) is not None]
    if len(found) != 1:
        return None
    process, command = found[0]
    phases = phases_of(process, command)
    named = command.benchmarks
    return Benchmark(process, command, named[0] if len(set(named)) == 1 else "", phases.next() if phases else None)
