"""The write path, as its file in a run directory holds it: each write's stages, and its wait for leaders divided."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ground.errors import MeasurementError
from ground.results.histogram import Histogram
from ground.results.probes import ProbedFunction, Trap
from ground.results.ranges import Amount, Count, Windowed
from ground.system.atomic_files import read_json


@dataclass(frozen=True)
class WriteStageName:
    """label: for people; about: what happens in it; where: `queue`, `stall`, `log`, `memtable` or `engine`"""

    label: str
    about: str
    where: str


# In the order of a write's life.
WRITE_STAGES: Mapping[str, WriteStageName] = {
    "enter": WriteStageName("before the queue", "options checked", "engine"),
    "join": WriteStageName("queue of writers", "until it is to lead, to insert, or is done", "queue"),
    "preprocess": WriteStageName("prepare", "memtable and log switched, flushes scheduled", "engine"),
    "stall": WriteStageName("stall: lock", "held back by the engine: the lock around it", "stall"),
    "delay": WriteStageName("stall: delay", "asleep for a time, to slow writes down", "stall"),
    "stop": WriteStageName("stall: stop", "asleep until a flush or a compaction ends", "stall"),
    "wal": WriteStageName("log record", "batches merged, record made and buffered", "log"),
    "wal_write": WriteStageName("log write call", "record handed to the kernel", "log"),
    "sync_device": WriteStageName("log sync: device", "the device writes the data", "log"),
    "sync_meta": WriteStageName("log sync: metadata", "the device writes the file system's metadata", "log"),
    "sync_flush": WriteStageName("log sync: flush", "the device empties its cache", "log"),
    "sync_journal": WriteStageName("log sync: journal", "asleep until the journal's thread has committed", "log"),
    "sync_wake": WriteStageName("log sync: wake-up", "these are done, the thread does not run yet", "log"),
    "sync_call": WriteStageName("log sync: file system", "the rest of the call: the file system's own work", "log"),
    "sync": WriteStageName("log sync: engine", "around the call", "log"),
    "launch": WriteStageName("wake the group", "its writers woken, each to insert", "engine"),
    "memtable": WriteStageName("memtable", "inserted", "memtable"),
    "group_wait": WriteStageName("wait for the group", "others of the group insert", "memtable"),
    "exit": WriteStageName("leave", "group dissolved, next leader woken", "engine"),
    "memtable_wait": WriteStageName("wait for memtable", "groups before it insert (pipelined)", "memtable"),
    "rest": WriteStageName("rest", "between these", "engine"),
}
QUEUE = "join"
# Parts of the wait in the queue that are no stage of a leader.
WAITS: Mapping[str, WriteStageName] = {
    "hand_over": WriteStageName("no leader", "the next one is woken, or there was none", "queue"),
    "wake_up": WriteStageName("wake-up", "from its new state until it runs", "queue"),
    "in_queue": WriteStageName("entering the queue", "it was empty; what no leader's stage accounts for", "queue"),
}
# Stages that are system calls: what they are of is watched from outside of the process.
CALLS = (
    "wal_write", "sync_call", "sync_device", "sync_meta", "sync_flush", "sync_journal", "sync_wake", "delay", "stop",
)  # fmt: skip

ROLES: Mapping[str, str] = {
    "leader": "wrote the log for its group",
    "memtable_leader": "another wrote the log, it inserted for its group",
    "parallel": "inserted its own batch beside others of its group",
    "done": "its leader did everything (unordered writes: but the memtable)",
    "role_unknown": "its state could not be read, or it was in no queue",
}
FOLLOWERS = ("memtable_leader", "parallel", "done")


@dataclass(frozen=True)
class WriteStage:
    """Time of one stage, summed over the `count` writes that were in it, ns; own_ns: within the probes' programs."""

    name: str
    count: Count
    sum_ns: Count
    most_ns: Count
    own_ns: Count = 0


@dataclass(frozen=True)
class WriteRole:
    """The writes of one role that began and ended in the window: durations in ns, and where they went.

    stages: add up to sum_ns; join: the stage of that name, divided by what leaders did meanwhile
    """

    name: str
    count: Count = 0
    sum_ns: Count = 0
    least_ns: Count = 0
    most_ns: Count = 0
    buckets: list[tuple[Count, Count, Count]] = field(default_factory=list)
    own_ns: Count = 0
    stages: list[WriteStage] = field(default_factory=list)
    join: list[WriteStage] = field(default_factory=list)

    @property
    def histogram(self) -> Histogram:
        return Histogram(self.count, self.sum_ns, self.least_ns, self.most_ns, self.buckets)


@dataclass(frozen=True)
class StageFunction(ProbedFunction):
    """stage: that it begins, or `write`, `join` and `state`"""

    stage: str = field(kw_only=True)


@dataclass(frozen=True)
class WritePilot:
    """A second before the window: writes in it, their mean, and what watching was predicted to take of each at least
    (ns), and of a CPU for all (a share)."""

    seconds: Amount
    writes_per_second: Amount
    mean_ns: Amount
    cost_ns: Amount
    cost_share: Amount


@dataclass(frozen=True)
class WriteHalf:
    """Writes that began and ended in a half of a turn, and their durations together, ns."""

    count: Count
    sum_ns: Count


@dataclass(frozen=True)
class WriteTurn:
    """Before the window: with a probe at the entry and return of writes alone, and watched as in the window."""

    unwatched: WriteHalf
    watched: WriteHalf


@dataclass(frozen=True)
class WriteLadder(Windowed):
    """`writes.json`: where the time of a process's writes went within a window.

    full:        all stages, or only the queue, stalls and the log's calls
    functions:   watched; missing: stages that the engine's rules know and this release has no function for
    wake_ups:    whether who ends a wait was watched; otherwise a wait ends when the scheduler wakes the thread
    writes:      begun in the window; threads: that began any; synced, no_log: of those that ended
    joins:       writes that went through the queue once or more
    groups:      dissolved in the window; grouped: writes in them; group_sizes: (size, groups), the last and larger
    """

    backend: str
    pid: Count
    start_ns: Count
    end_ns: Count
    full: bool
    notes: list[str]
    functions: list[StageFunction]
    missing: list[str]
    wake_ups: bool
    uprobes: str
    trap: Trap
    pilot: WritePilot
    writes: Count
    threads: Count
    synced: Count
    no_log: Count
    joins: Count
    groups: Count
    grouped: Count
    group_sizes: list[tuple[Count, Count]]
    roles: list[WriteRole]
    losses: dict[str, Count]
    process_ended: bool
    ended_soon_s: Amount | None = None
    turns: list[WriteTurn] = field(default_factory=list)
    schema: int = 1

    def of(self, names: Iterable[str]) -> list[WriteRole]:
        """The roles of these names that any write had."""
        return [role for role in self.roles if role.name in tuple(names) and role.count]

    @property
    def finished(self) -> int:
        """Writes that began and ended in the window."""
        return sum(role.count for role in self.roles)

    @property
    def total_ns(self) -> int:
        return sum(role.sum_ns for role in self.roles)

    @property
    def queued(self) -> int:
        """Writes whose role the queue told."""
        return sum(role.count for role in self.of(("leader", *FOLLOWERS)))

    @property
    def probe_ns(self) -> float:
        """The probes' own part of a write at least, ns: programs measured, traps estimated. 0 without writes.

        Traps of the write's own entry and return lie within it by half. System calls are not trapped.
        """
        if not self.finished:
            return 0.0
        stages = (stage for role in self.roles for stage in role.stages)
        apart = (QUEUE, "enter", "rest", *CALLS)
        trapped = sum(stage.count for stage in stages if stage.name not in apart) if self.full else 0
        both = self.trap.entry_ns + self.trap.return_ns
        traps = both * (0.5 + (self.joins + trapped) / self.finished) + (self.trap.entry_ns if self.wake_ups else 0.0)
        return sum(role.own_ns for role in self.roles) / self.finished + traps

    @property
    def write_traps_ns(self) -> float:
        """What the traps of a write's own entry and return take, ns, as on functions of the loader's own."""
        stepped = any(one.stepped for one in self.functions if one.stage == "write")
        return (self.trap.stepped_ns if stepped else self.trap.entry_ns) + self.trap.return_ns

    @property
    def stepped(self) -> list[StageFunction]:
        """Watched functions whose entry is dear to trap."""
        return [one for one in self.functions if one.stepped and one.stage != "state"]


@dataclass(frozen=True)
class StallCause:
    """Stalls of one cause within the window, by the engine's own log. first: seconds from the window's begin

    stopped: writes are blocked; otherwise they are slowed down, and writers sleep through a part of it
    """

    stopped: bool
    cause: str
    column_family: str
    times: Count
    seconds: Amount
    longest: Amount
    first: Amount


def stage_sum(roles: Iterable[WriteRole], name: str, waits: bool = False) -> WriteStage:
    """One stage over several roles, or with `waits` one part of their time in the queue."""
    found = [one for role in roles for one in (role.join if waits else role.stages) if one.name == name]
    return WriteStage(
        name, sum(one.count for one in found), sum(one.sum_ns for one in found),
        max((one.most_ns for one in found), default=0), sum(one.own_ns for one in found),
    )  # fmt: skip


def read_write_ladder(path: Path) -> WriteLadder:
    """`writes.json`. MeasurementError when it is missing, of another form, or holds what cannot be."""
    ladder = read_json(path, WriteLadder)
    for why in _cannot_be(ladder):
        raise MeasurementError(f"{path}: {why}", means="such figures are of no use; the run has to be repeated")
    return ladder


def _cannot_be(ladder: WriteLadder) -> Iterator[str]:
    window = ladder.end_ns - ladder.start_ns
    for role in ladder.roles:
        if role.name not in ROLES:
            yield f"writes of a role called {role.name}"
        parts = [*role.stages, *role.join]
        unknown = {part.name for part in parts} - {*WRITE_STAGES, *WAITS}
        if unknown:
            yield f"a stage of writes called {', '.join(sorted(unknown))}"
        longest = max((role.most_ns, *(part.most_ns for part in parts)))
        if longest > window:
            yield f"a {role.name} write of {longest} ns in a window of {window} ns"
