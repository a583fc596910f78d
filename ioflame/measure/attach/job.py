"""What was asked to be watched, resolved against this host: everything that can be refused is refused here."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from collectors.counters import Device, device_of
from collectors.counts import Counted
from collectors.perf import Plan, perf_version, plan_recording, system_wide
from collectors.rocksdb_clients import open_database
from ebpf.calls import functions_of
from folding.stackfold import stackfold_binary
from ground.errors import HostError, UsageError
from ground.results import record as records
from ground.results.database_facts import DatabaseFacts
from ground.results.record import SCHEMA, RunRecord
from ground.results.redaction import Redaction
from ground.results.run import check_writable
from ground.system.held_process import HeldProcess
from ground.system.host import disk_facts, host_facts
from ground.system.target import Target
from ground.text.file_name import file_name
from ground.text.progress import Reporter
from ioflame import __version__
from ioflame.analysis.categories import OPERATIONS_VIEW
from ioflame.present.rules_check import own_rules
from workloads.registry import DEFAULT_ENGINE, service_named, service_names, service_rules
from workloads.service import Service

# Processes whose open files show the device and whose mapped files show the service: those of a server are alike.
_LOOKED_AT = 64
# perf opens an event for each thread on each CPU: of more than so many it is to sample everybody's, where it may.
_MOST_EVENTS = 4096


@dataclass(frozen=True)
class AttachOptions:
    """The options of `ioflame attach`, checked.

    pids, group: what to watch; asked: the same in the user's words
    seconds:  total length of all windows
    engine:   of `service_names`; None: found by its mapped files
    rules:    a file of the user's own
    counts:   sources of the number of its queries, by kind; "" for all kinds together; empty without one
    symbol:   a function that runs once a query, to be counted for a second now and then; None without one
    device:   a directory on the device that it uses; None: found by its open files
    budget:   CPU that we may use, as a share of what the target uses in `period`; None without a bound
    period:   in which it is watched once, s
    redact:   hash names in all that is written
    record_only: analyse nothing: what is recorded is packed, and analysed elsewhere
    """

    asked: str
    event: str
    frequency: int
    callgraph: str
    collect: tuple[str, ...]
    asked_to_collect: bool
    out: Path
    pids: Sequence[int] = ()
    group: Path | None = None
    seconds: float = 0.0
    engine: str | None = None
    rules: Path | None = None
    counts: Mapping[str, Counted] = field(default_factory=dict)
    symbol: str | None = None
    device: Path | None = None
    budget: float | None = None
    period: float = 0.0
    redact: bool = False
    record_only: bool = False


@dataclass(frozen=True)
class AttachJob:
    """A target that may be watched: nothing is attached yet.

    service: what is known of it, by its name `engine`
    known: the service was asked for, or files of it are mapped
    rules: that its stacks are sorted by
    redaction: of names in what is written; None where they are written as they are
    """

    options: AttachOptions
    target: Target
    service: Service
    engine: str
    known: bool
    rules: dict[str, Any]
    device: Device | None
    plan: Plan
    redaction: Redaction | None

    def group_of(self, process: HeldProcess, thread: str) -> str:
        group = self.service.group_of(thread, _title(process))
        return self.shown(group) if group not in {known.name for known in self.service.group} else group

    @property
    def count(self) -> str:
        """Where the number of queries comes from; "" without a count."""
        of_kinds = self.options.counts.items()
        what = "; ".join(f"{kind}: {count.count.what}" if kind else count.count.what for kind, count in of_kinds)
        return self.redaction.hidden(what) if what and self.redaction is not None else what

    def database_of(self, pids: Sequence[int]) -> Path | None:
        """The directory of the database that the first of these processes has open; None where it is not known."""
        process = next((one for one in self.target.processes if pids and one.pid == pids[0]), None)
        if process is None or not process.alive:
            return None
        if not self.service.extends:
            # A server runs in its data directory.
            return _ours(process, "cwd") if self.known else None
        found = open_database(process)
        return _ours(process, f"root{found}") if found is not None else None

    def shown(self, name: str) -> str:
        """Of a thread, or of a command."""
        return name if self.redaction is None else self.redaction.thread(name)

    def shown_file(self, path: str) -> str:
        return path if self.redaction is None else self.redaction.file(path)


def resolve(options: AttachOptions, target: Target, reporter: Reporter, planned: Plan | None = None) -> AttachJob:
    """The job; before anything is attached or written. planned: how perf records, where that was tried already"""
    target.check_readable()
    check_writable(options.out)
    if not options.record_only:
        stackfold_binary()
    for count in options.counts.values():
        count.ask()
        if count.failed:
            raise count_refused(count.failed)
    with reporter.stage("look at the target and the host", 3):
        processes = target.processes[:_LOOKED_AT]
        found = _service_of_files(processes)
        engine = options.engine or found or DEFAULT_ENGINE
        service = service_named(engine)
        rules = service_rules(engine) if options.rules is None else own_rules(options.rules)
        _check_kinds(options.counts, rules)
        plan = planned or plan_recording(options.event, options.frequency, options.callgraph)
        threads = sum(len(process.threads()) for process in target.processes)
        if plan.scope == "process" and (reason := _not_by_process(options, threads)):
            plan = system_wide(plan, reason)
        device = _device(options.device, processes)
        if options.symbol is not None:
            functions_of(options.symbol, [process.pid for process in processes])
    known = bool(options.engine or found)
    if not (known or options.rules):
        plan = replace(plan, why=(*plan.why, f"no file of a known service is mapped; by the rules of {service.title}"))
    redaction = _redaction(service, engine) if options.redact else None
    return AttachJob(options, target, service, engine, known, rules, device, plan, redaction)


def _check_kinds(asked: Iterable[str], rules: Mapping[str, Any]) -> None:
    """UsageError for a kind of operation that the rules do not recognise."""
    rows = rules["view"].get(OPERATIONS_VIEW, {"category": []})["category"]
    known = list(dict.fromkeys(row["name"] for row in rows))
    for kind in asked:
        if kind and kind not in known:
            raise UsageError(
                f"--count-of {kind}: the rules recognise no such operation, but {', '.join(known) or 'none'}",
                means="nothing was attached",
                mend="--count-of <one of them> CMD, or a view `operations` of your own: --rules FILE",
            )


def _redaction(service: Service, engine: str) -> Redaction:
    """What is kept: the files of the service, the functions of its engine, threads that it names."""
    files = service.files + (service_named(service.base).files if service.extends else [])
    threads = [group.thread for group in service.group if group.thread != ".*"]
    frames = service_rules(engine).get("engine_frames", []) if service.extends else []
    return Redaction(files=files, frames=frames, threads=threads)


def _not_by_process(options: AttachOptions, threads: int) -> str:
    """Why its processes are better not sampled one by one; "" where they are."""
    if options.group is not None:
        return "who joins a group later is no child of its members, and would not be sampled"
    events = threads * (os.cpu_count() or 1)
    return f"{threads} threads would take {events} events" if events > _MOST_EVENTS else ""


def _service_of_files(processes: Iterable[HeldProcess]) -> str | None:
    """The service whose files are mapped; None where none is known, or the maps may not be read."""
    names: set[str] = set()
    for process in processes:
        with contextlib.suppress(OSError):
            for line in process.path("maps").read_text(encoding="utf-8", errors="replace").splitlines():
                if len(words := line.split(None, 5)) == 6:
                    names.add(words[5].removesuffix(" (deleted)").rpartition("/")[2])
    return next((name for name in service_names() if service_named(name).is_of(names)), None)


def _device(asked: Path | None, processes: Iterable[HeldProcess]) -> Device | None:
    """The device with most of the open regular files and working directories; None where none was found.

    asked: a directory on it, which decides
    """
    if asked is not None:
        try:
            return device_of(asked)
        except OSError as error:
            raise UsageError(f"--device {asked}: {error.strerror}", mend="--device <a directory>") from None
    seen: Counter[Device] = Counter()
    known: dict[int, Device | None] = {}
    for process in processes:
        for file in _open_files(process):
            with contextlib.suppress(OSError):
                number = file.stat().st_dev
                if number not in known:
                    with contextlib.suppress(HostError):
                        known[number] = device_of(file)
                if found := known.setdefault(number, None):
                    seen[found] += 1
    return seen.most_common(1)[0][0] if seen else None


def _open_files(process: HeldProcess) -> list[Path]:
    """Regular files that it has open, and its working directory: a server runs in its data directory."""
    found = [process.path("cwd")]
    with contextlib.suppress(OSError):
        for file in process.path("fd").iterdir():
            with contextlib.suppress(OSError):
                if stat.S_ISREG(file.stat().st_mode):
                    found.append(file)
    return found


def _ours(process: HeldProcess, place: str) -> Path | None:
    """A directory of a process by the path that it has for us; by way of /proc where it has none: in a container."""
    inside = process.path(place)
    with contextlib.suppress(OSError):
        path = inside.resolve()
        return path if path.samefile(inside) else inside
    return None


def _title(process: HeldProcess) -> str:
    """Its command line, which servers change to say what the process does."""
    try:
        return process.path("cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


def count_refused(why: str) -> UsageError:
    """Of a count that has no answer before anything is started."""
    return UsageError(
        f"the count failed: {why}",
        means="nothing was started or attached",
        mend="--count <a command that prints one number, which only grows>; try yours in a shell",
    )


def new_record(job: AttachJob) -> RunRecord:
    """The record of a run that has measured nothing yet."""
    options, first = job.options, job.target.processes[0]
    try:
        comm = job.shown(first.path("comm").read_text(encoding="utf-8", errors="replace").strip())
        program = job.shown_file(str(first.path("exe").readlink()))
    except OSError:
        comm = program = "?"
    threads = sum(len(process.threads()) for process in job.target.processes)
    device = job.device
    database = DatabaseFacts(description="files on no block device", device="none")
    if device is not None:
        choice = "as asked" if options.device is not None else "most open files are there; --device DIR names another"
        database = DatabaseFacts(description=f"on device {device.name} ({choice})", device=device.name)
    return RunRecord(
        schema=SCHEMA,
        ioflame=__version__,
        created=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        workload=f"{file_name(comm)}-{first.pid}",
        engine=job.engine,
        threads=threads,
        options={"attach": options.asked, "seconds": f"{options.seconds:g}", "frequency": str(options.frequency)},
        pid=first.pid,
        host={**host_facts(), **(disk_facts(device.major, device.minor) if device is not None else {})},
        tools={"perf": perf_version(), "engine": f"in {program}" if job.known else program, "engine_binary": program},
        database=database,
        target=records.Target(
            options.asked,
            program,
            job.target.pids,
            count=job.count,
            count_lag=max((count.count.lag for count in options.counts.values()), default=0.0),
        ),
        missing=["windows: none was measured yet"],
    )
