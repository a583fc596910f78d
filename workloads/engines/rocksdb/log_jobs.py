"""Flushes, compactions and stalls as a LOG has them: by its events, and by lines of text where no event says it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ground.results.jobs import Job, Jobs, Stall, TreeState
from workloads.engines.rocksdb.log_events import log_texts
from workloads.engines.rocksdb.log_lines import event_of, moment_of
from workloads.engines.rocksdb.statistics import dumps
from workloads.engines.rocksdb.stored_files import database_prefixes, log_of
from workloads.file_kinds import names_below

# `2026/11/27-04:11:06.772774 26049 (Original Log Time ...) EVENT_LOG_v1 {...}`. The thread is the kernel's id where the
# library was built with a C library that has gettid(), and a pthread_t otherwise.
_LINE = re.compile(
    r"^(?P<moment>\d{4}/\d\d/\d\d-\d\d:\d\d:\d\d)\.(?P<micros>\d+) (?P<thread>\d{1,20}) "
    r"(?:\(Original Log Time [^)]*\) )?(?:EVENT_LOG_v1 (?P<event>\{.*\})|(?P<text>.*))$",
    re.MULTILINE,
)
_OF_JOB = re.compile(r"(?:\[(?P<family>[^\]]*)\] )?\[JOB (?P<job>\d{1,18})\] (?P<text>.*)")
_COMPACTING = re.compile(r"Compacting .* files to L(\d{1,3})")
_FLUSHED = re.compile(r"Flush lasted (\d{1,18}) \w+, and (\d{1,18}) cpu ")
_HELD_BACK = re.compile(
    r"\[(?P<family>[^\]]*)\] (?P<how>Stalling|Stopping) writes because (?:of |we have )?(?P<why>.*)"
)
# `[default] Level summary: files[1 0] max score 0.25, estimated pending compaction bytes 0`; 8.11 says no bytes
_PENDING = re.compile(r"estimated pending [a-z]+ bytes (\d{1,18})")
# Of a LOG that grew for months its end is enough, B.
_MOST = 64 << 20
# Time zones lie within it of each other, s.
_ZONES, _QUARTER = 15 * 3600, 900
# A process writes it once, when it opens its database.
_OPENED = "Recovered from manifest file:"
# A rate and counts change from line to line while it is one stall.
_NUMBERS = re.compile(r",? max_write_buffer_number is set to \d+| rate \d+|^\d+ | \d+$")


@dataclass
class _Running:
    """A job of which the end was not read yet. threads: in the order in which they wrote; made: numbers
    and sizes of files
    """

    job: Job
    threads: dict[int, None]
    made: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class _Reader:
    """Follows the lines of LOGs in their order; a job may begin in one and end in the next.

    families, places: column family and output level of jobs, as text says them first
    pending: bytes before compactions, as a thread said them last
    freeing: places in `stalls` of those that a job ended, by its number
    shift: from the time zone of the LOG to ours, s
    warned: families of which a thread, since it last finished something, said that writes are held back
    """

    running: dict[int, _Running] = field(default_factory=dict)
    ended: list[Job] = field(default_factory=list)
    stalls: list[Stall] = field(default_factory=list)
    states: list[TreeState] = field(default_factory=list)
    held: dict[str, Stall] = field(default_factory=dict)
    families: dict[int, str] = field(default_factory=dict)
    places: dict[int, int] = field(default_factory=dict)
    pending: dict[int, int] = field(default_factory=dict)
    freeing: dict[int, int] = field(default_factory=dict)
    warned: set[tuple[int, str]] = field(default_factory=set)
    at: float = 0.0
    shift: float = 0.0

    def read(self, log: str) -> None:
        self.shift = _zone_shift(log)
        for line in _LINE.finditer(log):
            thread = int(line["thread"])
            if line["event"]:
                if (event := event_of(line["event"])) is not None:
                    self.at = event["time_micros"] / 1e6
                    self._event(event, thread)
            elif _OPENED in line["text"]:
                self.process_ended()
            elif pending := _PENDING.search(line["text"]) if "writes because" not in line["text"] else None:
                self.pending[thread] = int(pending[1])
            elif ("[JOB " in line["text"] or "writes because" in line["text"]) and (
                moment := moment_of(line["moment"], line["micros"])
            ) is not None:
                self.at = moment + self.shift
                self._text(line["text"], thread)
        if (last := _last_moment(log)) is not None:
            self.at = last + self.shift

    def process_ended(self) -> None:
        """Nothing of it ends any more, and the next one counts its jobs anew."""
        self.ended += [_finished(running, None) for running in self.running.values()]
        self.stalls += self.held.values()
        for known in (self.running, self.held, self.families, self.places, self.pending, self.freeing, self.warned):
            known.clear()

    def _text(self, text: str, thread: int) -> None:
        if held := _HELD_BACK.search(text):
            self._held_back(held, thread)
            return
        line = _OF_JOB.search(text)
        if line is None:
            return
        number = int(line["job"])
        if line["family"]:
            self.families[number] = line["family"]
        if to := _COMPACTING.match(line["text"]):
            self.places[number] = int(to[1])
        if line["text"].startswith("Delete "):
            self._cleaned(number)
        if running := self.running.get(number):
            running.threads[thread] = None
            if lasted := _FLUSHED.match(line["text"]):
                running.job = replace(running.job, run_us=int(lasted[1]), cpu_us=int(lasted[2]))

    def _event(self, event: Mapping[str, Any], thread: int) -> None:
        number = event.get("job", 0)
        running = self.running.get(number)
        match event.get("event"):
            case "flush_started" | "compaction_started" as name:
                self._begun(name.partition("_")[0], event, thread)
            case "table_file_creation" if running:
                running.made.append((event["file_number"], event["file_size"]))
                running.threads[thread] = None
                self.families[number] = event["cf_name"]
            case "flush_finished" if running and running.job.kind == "flush":
                self._ended(running, event, thread)
            case "compaction_finished" if running and running.job.kind == "compaction":
                running.job = replace(
                    running.job,
                    level=event["output_level"],
                    cpu_us=event.get("compaction_time_cpu_micros"),
                    run_us=event["compaction_time_micros"],
                    bytes_out=event["total_output_size"],
                    files_out=event["num_output_files"],
                )
                self._ended(running, event, thread)
            case "table_file_deletion" if number:
                self._deleted(number)

    def _begun(self, kind: str, event: Mapping[str, Any], thread: int) -> None:
        number = event["job"]
        if before := self.running.pop(number, None):
            self.ended.append(_finished(before, None))
        levels = event["levels"]
        flush = kind == "flush"
        family = event.get("cf_name") or self.families.get(number, "")
        self.running[number] = _Running(
            Job(
                kind, number, thread, self.at,
                column_family=family,
                reason=event.get("flush_reason" if flush else "compaction_reason", ""),
                levels_in=tuple(sorted(levels)),
                level=0 if flush else self.places.get(number),
                bytes_in=event.get("total_data_size" if flush else "input_data_size", 0),
                files_in=sum(levels.values()),
            ),
            {thread: None},
        )  # fmt: skip

    def _ended(self, running: _Running, event: Mapping[str, Any], thread: int) -> None:
        number = running.job.number
        del self.running[number]
        job = _finished(running, self.at, self.families.get(number))
        self.ended.append(job)
        if state := event.get("lsm_state"):
            waiting, pending = event.get("immutable_memtables"), self.pending.pop(thread, None)
            self.states.append(TreeState(self.at, job.column_family, tuple(state), waiting, pending))
        # What a job installs has the engine ask anew whether writes are to be held back: it says so where they are.
        if (thread, job.column_family) not in self.warned and (stall := self.held.pop(job.column_family, None)):
            self.stalls.append(replace(stall, end=self.at))
            if stall.stopped:
                self.freeing[number] = len(self.stalls) - 1
        self.warned.discard((thread, job.column_family))

    def _held_back(self, held: re.Match[str], thread: int) -> None:
        family, stopped = held["family"], held["how"] == "Stopping"
        cause = _NUMBERS.sub("", _NUMBERS.sub("", held["why"]))  # the rate stands behind another number
        self.warned.add((thread, family))
        before = self.held.get(family)
        if before is not None and (before.cause, before.stopped) == (cause, stopped):
            return
        if before is not None:
            self.stalls.append(replace(before, end=self.at))
        self.held[family] = Stall(cause, stopped, self.at, None, family)

    def _cleaned(self, number: int) -> None:
        """Stopped writers are woken where a job has deleted what it made obsolete, its log of writes among it."""
        if (place := self.freeing.get(number)) is not None:
            self.stalls[place] = replace(self.stalls[place], end=self.at)

    def _deleted(self, number: int) -> None:
        self._cleaned(number)
        for place in range(len(self.ended) - 1, -1, -1):
            job = self.ended[place]
            if job.number == number:
                self.ended[place] = replace(job, deleted=job.deleted + 1, deleted_until=self.at)
                return


def _finished(running: _Running, end: float | None, family: str | None = None) -> Job:
    return replace(
        running.job,
        end=end,
        column_family=running.job.column_family or family or "",
        bytes_out=running.job.bytes_out or sum(size for _, size in running.made),
        files_out=running.job.files_out or len(running.made),
        threads=tuple(running.threads),
        made=tuple(f"{number:06}.sst" for number, _ in running.made),
    )


def _zone_shift(log: str) -> float:
    """What makes a moment of the text one of ours: a process in a container may have another time zone. An event is
    written with both its local time and Unix time."""
    for line in _LINE.finditer(log):
        event = event_of(line["event"]) if line["event"] else None
        moment = moment_of(line["moment"], line["micros"])
        if event is not None and moment is not None:
            shift = _QUARTER * round((event["time_micros"] / 1e6 - moment) / _QUARTER)
            return float(shift) if abs(shift) < _ZONES else 0.0
    return 0.0


def _last_moment(log: str) -> float | None:
    lines = list(_LINE.finditer(log, max(0, len(log) - (64 << 10))))
    return moment_of(lines[-1]["moment"], lines[-1]["micros"]) if lines else None


def read_jobs(directory: Path, begin: float, end: float) -> Jobs | None:
    """Of all databases in a directory, or below it; None where there is none with a LOG of that time.

    UsageError where there is no such directory, or it may not be read.
    """
    notes: list[str] = []
    logs = [log_of(directory / prefix) for prefix in database_prefixes(sorted(names_below(directory, notes)))]
    read = [jobs_in(texts, begin, end) for log in logs if (texts := list(log_texts(log, begin, most=_MOST)))]
    if not read:
        return None
    return Jobs(
        tuple(sorted((job for one in read for job in one.jobs), key=lambda job: (job.begin, job.number))),
        tuple(sorted((stall for one in read for stall in one.stalls), key=lambda stall: stall.begin)),
        tuple(sorted((state for one in read for state in one.states), key=lambda state: state.at)),
        min(one.until for one in read),
        tuple(notes),
        # With several databases it is unknown whose writers wait.
        read[0].held_back if len(read) == 1 else (),
    )


def jobs_in(logs: Iterable[str], begin: float, end: float) -> Jobs:
    """Of one LOG after the other, what overlaps the time from `begin` to `end`, Unix seconds."""
    reader = _Reader()
    held_back: list[tuple[float, float]] = []
    for log in logs:
        reader.read(log)
        stated = ((dump.at, dump.statistics.get("stall_seconds")) for dump in dumps(log))
        moved = ((at + reader.shift, seconds) for at, seconds in stated if seconds is not None)
        held_back += [(at, seconds) for at, seconds in moved if begin <= at < end]
    until = reader.at
    reader.process_ended()
    jobs = [job for job in reader.ended if job.begin < end and (job.end is None or job.end > begin)]
    stalls = [stall for stall in reader.stalls if stall.begin < end and (stall.end is None or stall.end > begin)]
    return Jobs(
        tuple(sorted(jobs, key=lambda job: (job.begin, job.number))),
        tuple(sorted(stalls, key=lambda stall: stall.begin)),
        tuple(state for state in reader.states if begin <= state.at < end),
        until,
        held_back=tuple(held_back),
    )
