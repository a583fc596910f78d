"""`run.json`: what is recorded of a run."""

from __future__ import annotations

from dataclasses import dataclass, field

from ground.results.checks import Check
from ground.results.database_facts import DatabaseFacts
from ground.results.host_load import HostLoad
from ground.results.interval import Interval
from ground.results.ranges import Amount, Count, Drift, Stated, Windowed

SCHEMA = 1

# The group of a target's CPU that is in the kernel's sums alone: its threads and processes ended after the last look.
ENDED = "ended between two looks"

# The note of a window cut where the count of a benchmark that ended stops: observers ran on for up to 2 s.
CUT = "up to the last line of the report before the benchmark ended"

# The role of commands that ran after the last window.
ANALYSIS = "analysis"

# Instruments that were renamed, by the name that runs of before have, and that users may still give.
FORMER_NAMES = {"whose": "requests"}


def current_name(instrument: str) -> str:
    return FORMER_NAMES.get(instrument, instrument)


@dataclass
class Command:
    """A process we started: its role, full command line, pid, wall-clock start and end (Unix s), and how it ended."""

    name: str
    argv: list[str]
    pid: Count
    started: Amount
    ended: Amount | None
    end: str


@dataclass
class SeedRange:
    """The seeds `first .. first + threads - 1`, given to the threads of one step; the ledger gives none twice."""

    step: str
    first: Count
    threads: Count


@dataclass
class RoleCounters:
    """What the threads of one role added up to: CPU time as in `Counters`, and calls of write (syscw)."""

    cpu_ns: Count
    user_ns: Count
    system_ns: Count
    write_calls: Count

    def plus(self, other: RoleCounters) -> RoleCounters:
        return RoleCounters(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


@dataclass
class HostTimes:
    """What all CPUs of the host did, in ticks of 10 ms (/proc/stat), and its context switches.

    user: nice included; system: with interrupts
    """

    switches: Drift
    user: Drift
    system: Drift
    idle: Drift
    iowait: Drift
    steal: Drift

    @property
    def ticks(self) -> int:
        """All of the time."""
        return self.user + self.system + self.idle + self.iowait + self.steal


@dataclass
class Counters:
    """What a window added to the counters of the process and the host.

    queries:         operations the engine finished, interpolated at the window's edges from its own 1 s report; None
                     where the report does not cover the window
    queries_sd:      standard deviation of `queries` by what their count cannot tell: when they ended between two of its
                     reports, and how old its answers are
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
    storage_writes, storage_write_bytes: write requests completed by the device, and their bytes, whoever sent them
    host:            what all CPUs did; None in older runs
    roles:           by what its threads do: `reader`, `writer`, `flush` ...; empty where nothing writes
    groups:          of a target that was attached to: by the names of its threads; `ENDED`
    operations:      of a target: how many of each kind it finished, those kinds whose count covers the window
    """

    queries: Amount | None
    storage_reads: Count
    storage_read_bytes: Count
    storage_read_ms: Drift
    process_read_bytes: Count
    process_write_bytes: Count
    read_calls: Count
    cpu_ns: Count
    accounted_ns: Count
    user_ns: Count
    system_ns: Count
    runqueue_wait_ns: Count
    voluntary_switches: Count
    involuntary_switches: Count
    minor_faults: Count
    major_faults: Count
    steal_ns: Drift
    threads_ended: Count
    storage_writes: Count = 0
    storage_write_bytes: Count = 0
    host: HostTimes | None = None
    roles: dict[str, RoleCounters] = field(default_factory=dict)
    groups: dict[str, RoleCounters] = field(default_factory=dict)
    operations: dict[str, Amount] = field(default_factory=dict)
    queries_sd: Amount = 0.0

    @property
    def own_part(self) -> float:
        """Of the device's reads, those of the process, 0..1, by bytes: requests of others are taken to be as large."""
        return min(self.process_read_bytes / self.storage_read_bytes, 1.0) if self.storage_read_bytes else 1.0


@dataclass
class Window(Windowed):
    """A stretch of the workload's life under one observer.

    kind:          `warm-up`, `plain`, or that of an observer (`perf`, `iolat` ...)
    start_ns, end_ns: CLOCK_MONOTONIC, between which `counters` are deltas
    note:          how it ended, where that says something (`QPS flat`, `bound of 6 s reached`)
    engine:        what the engine's own log states of it, where the workload writes: `flushed_gb`, `stall_seconds` ...
    round:         of a turn, the round that it belongs to, from 1 on; 0 for a window of its own
    """

    kind: str
    start_ns: Count
    end_ns: Count
    counters: Counters
    note: str = ""
    engine: dict[str, Stated] = field(default_factory=dict)
    round: Count = 0

    def __post_init__(self) -> None:
        self.kind = current_name(self.kind)
        super().__post_init__()


@dataclass
class Unobserved:
    """An observer that did not watch: why, and what mends it. asked: by name, and not by a scale's default."""

    kind: str
    why: str
    mend: str
    asked: bool

    def __post_init__(self) -> None:
        self.kind = current_name(self.kind)


@dataclass
class ProfileFacts:
    """What perf recorded, read from the recording and not from the request.

    event, unit:      the event in the file (`cpu-clock`) and what its period counts (`ns`)
    frequency:        samples a second and CPU, asked for
    scope:            `process` (perf -p) or `system` (perf -a, folded for the pid alone)
    callgraph:        `fp`, or `dwarf`, or `dwarf,BYTES` with copies of another length than usual
    trials:           call graphs that were tried, and the share of what ran that each left incomplete or lost
    samples, weight:  of the workload's process, after folding
    report_weight:    the same from `perf report`; equal to `weight`, or a check says so
    lost_samples:     by perf's own count, in the whole recording
    incomplete_weight: weight of stacks that do not reach a thread's start
    chains_end:       the functions that most of these end in, with their share of all weight
    cut_by_size_weight, cut_by_page_weight: weight of copied stacks (`dwarf`) that are longer than their copy, and of
                      those whose copy ended at a page that was not in memory
    coverage:         weight / CPU time by the scheduler (of the event's mode) in the same window; None unless in ns
    ghz:              cycles / ns of that CPU time: the clock the process really ran at; None unless in cycles
    beside:           other events, read with each sample
    """

    event: str
    unit: str
    frequency: Count
    scope: str
    callgraph: str
    why: list[str]
    samples: Count = 0
    weight: Count = 0
    report_weight: Count | None = None
    lost_samples: Count = 0
    incomplete_weight: Count = 0
    cut_by_size_weight: Count = 0
    cut_by_page_weight: Count = 0
    unresolved_weight: Count = 0
    largest_sample_weight: Count = 0
    coverage: Amount | None = None
    ghz: Amount | None = None
    beside: list[str] = field(default_factory=list)
    trials: dict[str, Amount] = field(default_factory=dict)
    chains_end: str = ""

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
    """What an observer cost: `kind`, and QPS in its turns over QPS in the plain ones beside them.

    cpu_ratio: the same of the CPU of a query; None where its interval cannot be had
    """

    kind: str
    qps_ratio: Interval
    cpu_ratio: Interval | None = None

    def __post_init__(self) -> None:
        self.kind = current_name(self.kind)


@dataclass
class Expectation:
    """What is expected for the figures of a step to be of that step.

    levels:  non-empty levels of the tree: `any`, `several` or `one`
    filters: `any`, or `unused` where the filters of the last level are not to be read
    tree:    `unchanged`, or `changing` where the workload writes
    write_rate: bytes of keys and values a second that a writer beside the queries is held to; 0 without one
    missing_keys: it also asks for keys that are not there
    """

    levels: str = "any"
    filters: str = "any"
    tree: str = "unchanged"
    write_rate: Count = 0
    missing_keys: bool = False


@dataclass
class OwnCost:
    """What watching a target took of CPU: our own processes, by kind of window, s.

    seconds: `start` is what was before the first window, `plain` is all plain windows; folding is not in them
    target_seconds: CPU of the target while the windows lasted
    budget: the share of the target's CPU in `period` seconds that was allowed, which is `allowed` s; None without one
    cut:    windows that the budget ended, in words
    unlimited: why no control group bounded our CPU; "" where one did
    """

    seconds: dict[str, Amount]
    target_seconds: Amount
    budget: Amount | None = None
    unlimited: str = ""
    period: Amount = 0.0
    allowed: Amount = 0.0
    cut: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.seconds = {current_name(kind): seconds for kind, seconds in self.seconds.items()}


@dataclass
class Target:
    """What was attached to, where no workload of ours ran.

    asked:    as it was named: `--pid 4711`
    program:  the file that the first process runs
    pids:     every process that was seen
    groups:   tids by the names of their threads, as the service's rules group them
    count:    what told the number of queries; "" where nothing did, and there is no us per query
    count_failed: why the count stopped; "" where it lasted to the end
    count_lag: how old its answers may be, s
    count_sampled: the rate was counted once for a while, and is used for all windows
    clients:  threads that send its queries, as its command line says; 0 where that is not known
    client_qps: queries a second from the client's begin to its end, watched or not, by its own count; the interval is
              what is possible of the time before its first report and after its last. None where that was not seen
    notes:    what happened to the target meanwhile, and is neither's fault
    off_cpu_pid: the process that the off-CPU window is of, 0 without one
    names:    what keeps frames of it from having names
    redacted: names are hashes, and what was recorded is not kept
    ended_lost: processes whose CPU after they were last seen is in no sum
    ignoring: processes of whose children no sum is kept, since they ignore SIGCHLD
    """

    asked: str
    program: str
    pids: list[Count]
    groups: dict[str, list[Count]] = field(default_factory=dict)
    count: str = ""
    count_failed: str = ""
    count_lag: Amount = 0.0
    notes: list[str] = field(default_factory=list)
    off_cpu_pid: Count = 0
    cost: OwnCost | None = None
    names: list[Check] = field(default_factory=list)
    redacted: bool = False
    ended_lost: Count = 0
    ignoring: list[Count] = field(default_factory=list)
    count_sampled: bool = False
    clients: Count = 0
    client_qps: Interval | None = None


@dataclass
class RunRecord:
    """`run.json`: what was asked, where it ran, what was started and what was counted.

    options, host, tools: open lists, value by name: which names there are depends on the command, the host and the
                     build. They are shown and compared unchanged; a name that is looked up may not be there
    expected:        the expected state of the tree; the analysis proves it from `database`, the log and the profile
    missing:         what an interrupted or failed run lacks; empty for a whole one
    roles:           tids by what they do, of a workload that writes; empty for others
    writes:          what the engine states of its writes (`compacted_gb`, `stall_seconds`), where the workload writes
    target:          what was attached to; None where the workload was ours
    report_start_ns: CLOCK_MONOTONIC at which the engine began its report by second; None in older runs
    host_change:     what nothing attached "cost", by the turns of `null` or every second plain one; None of few
    host_load:       what others did in a second before the first window; None in older runs
    """

    schema: int
    ioflame: str
    created: str
    workload: str
    engine: str
    threads: Count
    options: dict[str, str]
    expected: Expectation = field(default_factory=Expectation)
    pid: Count = 0
    host: dict[str, str] = field(default_factory=dict)
    tools: dict[str, str] = field(default_factory=dict)
    database: DatabaseFacts = field(default_factory=DatabaseFacts)
    engine_result: dict[str, Stated] = field(default_factory=dict)
    commands: list[Command] = field(default_factory=list)
    seeds: list[SeedRange] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    unobserved: list[Unobserved] = field(default_factory=list)
    costs: list[ObserverCost] = field(default_factory=list)
    host_change: ObserverCost | None = None
    roles: dict[str, list[Count]] = field(default_factory=dict)
    writes: dict[str, Stated] = field(default_factory=dict)
    target: Target | None = None
    report_start_ns: Count | None = None
    profile: ProfileFacts | None = None
    metrics: dict[str, Stated] = field(default_factory=dict)
    intervals: dict[str, Interval] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    host_load: HostLoad | None = None
    missing: list[str] = field(default_factory=list)

    @property
    def lost(self) -> list[Unobserved]:
        """What was asked for by name and did not watch."""
        return [one for one in self.unobserved if one.asked]

    def of_kind(self, kind: str) -> list[Window]:
        """All windows of that kind, or turns."""
        return [window for window in self.windows if window.kind == kind]

    def queries_in(self, kind: str) -> float | None:
        """Finished in all of them; None where there is none, or of one it is not known."""
        counted = [window.counters.queries for window in self.of_kind(kind)]
        known = [queries for queries in counted if queries is not None]
        return sum(known) if counted and len(known) == len(counted) else None

    @property
    def build(self) -> str:
        """The engine and its version; of a target in which no engine is known, the program."""
        version = self.tools.get("engine", "?")
        nameless = self.target is not None and version == self.target.program
        return version if nameless else f"{self.engine} {version}"
