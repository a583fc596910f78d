"""The run directory: the one place where rooms meet.

`run.json` is a `RunRecord`. Each stage reads what earlier stages wrote and replaces only its own files, so that any
stage can be run again alone. A run directory is always new; `latest` beside it points to the newest.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from ioflame.checks import Check
from ioflame.errors import MeasurementError, UsageError
from ioflame.stats import Interval
from ioflame.whole import write_json

__all__ = (
    "SCHEMA",
    "Categories",
    "Category",
    "Command",
    "Counters",
    "Expectation",
    "Files",
    "ObserverCost",
    "OtherFrame",
    "ProfileFacts",
    "Run",
    "RunRecord",
    "SeedRange",
    "Unobserved",
    "Window",
    "check_writable",
    "new_directory",
    "open_run",
    "read_categories",
)

SCHEMA = 1


class Files:
    """The names within a run directory."""

    RECORD = "run.json"
    PERF_DATA = "perf.data"
    ENGINE_LOG = "db_bench.log"
    ENGINE_REPORT = "db_bench.report.csv"
    FOLDED = "stacks.folded"
    SAMPLE_COUNTS = "stacks.samples.folded"
    PPROF = "stacks.pb.gz"
    SLICES = "stacks.seconds.tsv"
    FOLD_STATS = "stacks.stats.json"
    FOLD_CHECK = "stacks.check.json"
    CATEGORIES = "categories.json"
    SERIES = "series.json"
    IO_LATENCY = "iolat.json"
    LADDER = "ladder.json"
    OFF_CPU = "offcpu.json"
    OFF_CPU_DATA = "offcpu.data"
    OFF_CPU_FOLDED = "offcpu.folded"
    OFF_CPU_COUNTS = "offcpu.counts.folded"
    OFF_CPU_THREADS = "offcpu.threads.folded"
    OFF_CPU_THREAD_COUNTS = "offcpu.threads.counts.folded"
    OFF_CPU_FLAMEGRAPH = "offcpu.svg"
    RUN_QUEUE = "runqlat.json"
    WALL_CLOCK = "wallclock.json"
    PMP = "pmp.json"
    PMP_DATA = "pmp.data"
    PMP_LOG = "pmp.log"
    PMP_RAW = "pmp.sampler.json"
    PMP_SAMPLES = "pmp.samples.jsonl"
    PMP_COUNTS = "pmp.samples.folded"
    PMP_FOLD_STATS = "pmp.stats.json"
    PMP_FOLDED = "pmp.folded"
    PMP_FLAMEGRAPH = "pmp.svg"
    LOCKS = "locks.json"
    SUMMARY = "summary.txt"
    FLAMEGRAPH = "flamegraph.svg"
    REPORT = "report.html"

    @classmethod
    def of_view(cls, view: str) -> str:
        """The file of a category view: `categories.json` for the owner view, `categories.leaf.json` for another."""
        return cls.CATEGORIES if view == "owner" else f"categories.{view}.json"


@dataclass
class Command:
    """A process we started: its role, full command line, pid, wall-clock start and end (Unix s), and how it ended."""

    name: str
    argv: list[str]
    pid: int
    started: float
    ended: float | None
    end: str


@dataclass
class SeedRange:
    """The seeds `first .. first + threads - 1`, given to the threads of one step; the ledger gives none twice."""

    step: str
    first: int
    threads: int


@dataclass
class Counters:
    """What a window added to the counters of the process and the host.

    queries:         operations the engine finished, interpolated at the window's edges from its own 1 s report; None
                     where the report does not cover the window
    storage_reads:   read requests completed by the database's device (diskstats), whoever sent them
    storage_read_bytes: bytes they read
    storage_read_ms: time those requests spent between their start and their end, added up (diskstats, ms)
    process_write_bytes: bytes this process alone caused to be written to storage
    process_read_bytes: bytes this process alone caused to be read from storage (/proc/PID/io read_bytes)
    read_calls:      read system calls of the process (syscr)
    cpu_ns:          CPU time of its threads by the scheduler (schedstat, ns)
    accounted_ns:    CPU time of the process by the kernel's other account (/proc/PID/stat, the one getrusage gives)
    user_ns, system_ns: cpu_ns split in the ratio of /proc/PID/stat's utime and stime (10 ms ticks)
    runqueue_wait_ns: time its threads were runnable and waited (schedstat, ns)
    voluntary_switches, involuntary_switches: context switches of its threads
    minor_faults, major_faults: page faults of the process
    steal_ns:        time the hypervisor gave to others, all CPUs together (/proc/stat, 10 ms ticks)
    threads_ended:   threads gone between the edges, whose time since the first edge is not in cpu_ns
    """

    queries: float | None
    storage_reads: int
    storage_read_bytes: int
    storage_read_ms: int
    process_read_bytes: int
    process_write_bytes: int
    read_calls: int
    cpu_ns: int
    accounted_ns: int
    user_ns: int
    system_ns: int
    runqueue_wait_ns: int
    voluntary_switches: int
    involuntary_switches: int
    minor_faults: int
    major_faults: int
    steal_ns: int
    threads_ended: int


@dataclass
class Window:
    """A stretch of the workload's life under one observer.

    kind:          `warm-up`, `plain`, or that of an observer (`perf`, `iolat` ...)
    start_ns, end_ns: CLOCK_MONOTONIC, between which `counters` are deltas
    note:          how it ended, where that says something (`QPS flat`, `bound of 6 s reached`)
    """

    kind: str
    start_ns: int
    end_ns: int
    counters: Counters
    note: str = ""

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.start_ns) / 1e9


@dataclass
class Unobserved:
    """An observer that did not watch: why, and what mends it. asked: by name, and not by a scale's default."""

    kind: str
    why: str
    mend: str
    asked: bool


@dataclass
class ProfileFacts:
    """What perf recorded, read from the recording and not from the request.

    event, unit:      the event in the file (`cpu-clock`) and what its period counts (`ns`)
    frequency:        samples a second and CPU, asked for
    scope:            `process` (perf -p) or `system` (perf -a, folded for the pid alone)
    callgraph:        `fp` or `dwarf`
    samples, weight:  of the workload's process, after folding
    report_weight:    the same from `perf report`; equal to `weight`, or a check says so
    lost_samples:     by perf's own count, in the whole recording
    incomplete_weight: weight of stacks that do not reach a thread's start
    coverage:         weight / CPU time by the scheduler (of the event's mode) in the same window; None unless in ns
    ghz:              cycles / ns of that CPU time: the clock the process really ran at; None unless in cycles
    """

    event: str
    unit: str
    frequency: int
    scope: str
    callgraph: str
    why: list[str]
    samples: int = 0
    weight: int = 0
    report_weight: int | None = None
    lost_samples: int = 0
    incomplete_weight: int = 0
    unresolved_weight: int = 0
    largest_sample_weight: int = 0
    coverage: float | None = None
    ghz: float | None = None

    @property
    def mode(self) -> str:
        """What of the CPU time the event counts, by its modifiers: `all`, `user` (`:u`) or `kernel` (`:k`)."""
        modifiers = self.event.rpartition(":")[2] if ":" in self.event else ""
        if not set(modifiers) <= set("ukhGHpPSDIWeb"):  # `sched:sched_switch` has no modifiers
            return "all"
        user, kernel = "u" in modifiers, "k" in modifiers
        return "all" if user == kernel else "user" if user else "kernel"


@dataclass
class ObserverCost:
    """What an observer cost: `kind`, and QPS in its window over QPS in the plain windows beside it."""

    kind: str
    qps_ratio: Interval


@dataclass
class Expectation:
    """What has to hold for the figures of a step to be of that step.

    levels:  non-empty levels of the tree: `any`, `several` or `one`
    filters: `any`, or `unused` where the filters of the last level are not to be read
    """

    levels: str = "any"
    filters: str = "any"


@dataclass
class RunRecord:
    """`run.json`: what was asked, where it ran, what was started and what was counted.

    expected:        what has to hold of the tree; the analysis proves it from `database`, the log and the profile
    missing:         what an interrupted or failed run lacks; empty for a whole one
    report_start_ns: CLOCK_MONOTONIC at which the engine began its report by second; None in older runs
    """

    schema: int
    ioflame: str
    created: str
    workload: str
    engine: str
    threads: int
    options: dict[str, str]
    expected: Expectation = field(default_factory=Expectation)
    pid: int = 0
    host: dict[str, str] = field(default_factory=dict)
    tools: dict[str, str] = field(default_factory=dict)
    database: dict[str, str] = field(default_factory=dict)
    engine_result: dict[str, float] = field(default_factory=dict)
    commands: list[Command] = field(default_factory=list)
    seeds: list[SeedRange] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    unobserved: list[Unobserved] = field(default_factory=list)
    costs: list[ObserverCost] = field(default_factory=list)
    report_start_ns: int | None = None
    profile: ProfileFacts | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    intervals: dict[str, Interval] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Category:
    """A row of a view: share in percent of all weight; samples None where they were not counted.

    interval: of the share, in percent, by bootstrap over the seconds of the window; None where they are too few
    """

    name: str
    label: str
    weight: int
    share: float
    samples: int | None
    interval: Interval | None = None


@dataclass(frozen=True)
class OtherFrame:
    """A frame that no rule knows, with the weight it brings into `other`."""

    frame: str
    weight: int


@dataclass(frozen=True)
class Categories:
    """`categories.json`: a whole view of one profile, its rows in the rules' order, `other` last.

    rules_checked: engine versions the rules were checked with
    slices: the weight of each row, in the rows' order, in each second of the window; empty where it is not known
    """

    view: str
    rules_checked: list[str]
    total_weight: int
    rows: list[Category]
    other_frames: list[OtherFrame]
    slices: list[list[int]] = field(default_factory=list)


class Run:
    """A run directory being made: its path and its record.

    observed: what the observers beside perf have to say, as parts of the summary; the analysis fills it in
    """

    def __init__(self, directory: Path, record: RunRecord) -> None:
        self.directory = directory
        self.record = record
        self.observed: list[str] = []

    @classmethod
    def create(cls, out: Path, record: RunRecord) -> Run:
        """A new directory `OUT/<time>-<workload>-t<threads>`; UsageError when OUT cannot be written to."""
        run = cls(new_directory(out, f"{record.workload}-t{record.threads}"), record)
        run.save()
        return run

    def path(self, name: str) -> Path:
        return self.directory / name

    def save(self) -> None:
        """Writes `run.json` whole or not at all, so that a reader never sees half a record."""
        write_json(self.path(Files.RECORD), self.record)

    def save_series(self, series: list[Window]) -> None:
        """Keeps the counters second by second (`series.json`), for plots and intervals."""
        self.path(Files.SERIES).write_bytes(msgspec.json.encode(series) + b"\n")

    def series(self) -> list[Window]:
        """What `save_series` kept; empty where nothing was."""
        path = self.path(Files.SERIES)
        if not path.exists():
            return []
        try:
            return msgspec.json.decode(path.read_bytes(), type=list[Window])
        except msgspec.MsgspecError as error:
            raise MeasurementError(f"{path} is not a series of windows: {error}") from None

    def point_latest(self) -> None:
        """Lets `OUT/latest` point to this run; left alone where `latest` is not a link of ours."""
        link = self.directory.parent / "latest"
        if link.exists() and not link.is_symlink():
            return
        partial = link.with_name(f"latest.{os.getpid()}")
        partial.symlink_to(self.directory.name)
        partial.replace(link)


def new_directory(out: Path, name: str) -> Path:
    """A new directory `OUT/<time>-<name>`, numbered where there is one already; UsageError when there can be none."""
    stem = f"{time.strftime('%Y%m%dT%H%M%S')}-{name}"
    try:
        out.mkdir(parents=True, exist_ok=True)
        for suffix in ("", *(f"-{n}" for n in range(2, 100))):
            directory = out / (stem + suffix)
            with contextlib.suppress(FileExistsError):
                directory.mkdir()
                return directory
    except OSError as error:
        raise _unwritable(out, error) from None
    raise UsageError(f"{out} already holds 99 directories named {stem}", mend="OUT=<another directory>")


def check_writable(out: Path) -> None:
    """UsageError unless files can be made in `out`, which is made where it is not there."""
    probe = out / f".ioflame-{os.getpid()}"
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"x")
        probe.unlink()
    except OSError as error:
        raise _unwritable(out, error) from None


def read_categories(directory: Path, view: str = "owner") -> Categories:
    """A category view in a run directory; MeasurementError when it is missing or of another form."""
    path = directory / Files.of_view(view)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Categories)
    except OSError as error:
        raise MeasurementError(f"{path} cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise MeasurementError(f"{path} is not a category file: {error}") from None


def _unwritable(out: Path, error: OSError) -> UsageError:
    return UsageError(
        f"OUT={out} cannot be written to: {error.strerror}",
        means="a run keeps its files there; nothing was started",
        mend="OUT=<a directory you own>, for example OUT=$HOME/ioflame-runs",
    )


def open_run(directory: Path) -> Run:
    """The run in `directory`; UsageError when there is none, MeasurementError when its record is broken or of another
    schema."""
    path = directory / Files.RECORD
    try:
        record = msgspec.json.decode(path.read_bytes(), type=RunRecord)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}",
            means=f"{directory} is no run directory: each has its record in {Files.RECORD}",
            mend=f"give the directory of a run, such as {_nearest_runs(directory)}",
        ) from None
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise MeasurementError(f"{path} is not a run record of schema {SCHEMA}: {error}") from None
    if record.schema != SCHEMA:
        raise MeasurementError(f"{path} has schema {record.schema}; this ioflame reads schema {SCHEMA}")
    return Run(directory, record)


def _nearest_runs(directory: Path) -> str:
    """Where the runs may be that were meant: in `directory` itself or beside it, else where runs go by default."""
    for place in (directory, directory.parent):
        if (place / "latest" / Files.RECORD).is_file():
            return str(place / "latest")
    return "runs/latest"
