"""What a LOG says of table files: how they were made, where their parts lie, and when they moved."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ground.results.stored_files import FileSection
from workloads.engines.rocksdb.log_lines import events

# What a job's own events say that it is.
_JOBS = {
    "flush_started": "flush",
    "flush_finished": "flush",
    "compaction_started": "compaction",
    "compaction_finished": "compaction",
    "recovery_started": "recovery",
    "recovery_finished": "recovery",
}
# `[default] Moving #12 to level-2 67 bytes`, a line for each file, before the event trivial_move of the same job.
_MOVE = re.compile(
    r"\] Moving #(?P<number>\d{1,18}) to level-(?P<level>\d{1,3}) "
    r"|EVENT_LOG_v1 \{\"time_micros\": (?P<micros>\d{1,18}), .*\"event\": \"trivial_move\""
)
# `[default] [JOB 5] Compacting 4@0 + 3@1 files to L1, score 1.00`
_COMPACTING = re.compile(r"\[JOB (\d{1,18})\] Compacting .* files to L(\d{1,3})")
# `[default] [JOB 4] Level-0 flush table #10: started`
_FLUSHING = re.compile(r"\[JOB \d+\] Level-0 flush table #(\d{1,18}): started")
_TRAILER = 5
# From format_version 7 on, the default since 10.11, `MANAGER;KINDS;`: the kinds of compression that blocks have.
_NOT_COMPRESSED = re.compile(r"NoCompression|[^;]*;;.*")
# Times of files are those of the kernel's last tick, at most 10 ms behind the clock that says when a window began.
_FILE_CLOCK = 0.01


@dataclass(frozen=True)
class LoggedTable:
    """A table file as the event table_file_creation has it.

    made_by:  "flush", "compaction" or "recovery"; "" where no event says of what kind the job is
    level:    into which the job writes, where an event says it
    sections: parts of which it says where they end; behind them one of the rest, that holds "tail"
    at:       when it was finished, Unix seconds
    """

    number: int
    size: int
    at: float
    family: str
    made_by: str
    level: int | None
    sections: tuple[FileSection, ...]


@dataclass(frozen=True)
class Move:
    """A table file that was moved into another level without being written. at: Unix seconds"""

    number: int
    level: int
    at: float


@dataclass(frozen=True)
class Running:
    """flushed: numbers of the files of all flushes in a LOG; levels: into which unfinished compactions write"""

    flushed: frozenset[int] = frozenset()
    levels: frozenset[int] = frozenset()


def log_texts(log: Path, begin: float, skip: Mapping[int, int] | None = None, most: int | None = None) -> Iterator[str]:
    """A database's LOG and those before it that were written to since `begin`, Unix seconds, the oldest first.

    Each process has one of its own. skip: bytes to leave out at the beginning of a file, by its inode; most: bytes of
    the end of each that are read
    """
    # `LOG.old.1795737752127310`: the moment at which it was put aside, us.
    olds = sorted(log.parent.glob(f"{log.name}.old.*"), key=lambda path: path.name)
    for path in [*olds, log]:
        try:
            with path.open("rb") as file:
                status = os.fstat(file.fileno())
                if status.st_mtime < begin - _FILE_CLOCK:
                    continue
                tail = 0 if most is None else max(0, status.st_size - most)
                file.seek(max(tail, (skip or {}).get(status.st_ino, 0)))
                yield file.read().decode("utf-8", "replace")
        except OSError:
            continue  # only so many are kept


def running(log: str) -> Running:
    """Flushes that began, and compactions without an end; LOG is some seconds late."""
    levels = {int(job): int(level) for job, level in _COMPACTING.findall(log)}
    ended = {event["job"] for event in events(log) if event.get("event") == "compaction_finished"}
    flushed = frozenset(map(int, _FLUSHING.findall(log)))
    return Running(flushed, frozenset(level for job, level in levels.items() if job not in ended))


def logged_tables(log: str) -> dict[int, LoggedTable]:
    """Table files by their numbers, of one LOG: a process counts its jobs from 1 on."""
    jobs: dict[int, str] = {}
    levels = {int(job): int(level) for job, level in _COMPACTING.findall(log)}
    made: list[dict[str, Any]] = []
    for event in events(log):
        kind = str(event.get("event"))
        if kind in _JOBS:
            jobs[event["job"]] = _JOBS[kind]
        if kind == "compaction_finished":
            levels[event["job"]] = event["output_level"]
        elif kind == "table_file_creation":
            made.append(event)
    found = {}
    for event in made:
        made_by = jobs.get(event["job"], "")
        found[event["file_number"]] = LoggedTable(
            event["file_number"], event["file_size"], event["time_micros"] / 1e6, event["cf_name"], made_by,
            levels.get(event["job"], 0 if made_by in ("flush", "recovery") else None), tuple(_sections(event)),
        )  # fmt: skip
    return found


def moves(log: str) -> list[Move]:
    """Files that moved into another level, in order; of the last ones of a LOG that is still written some may lack."""
    found, waiting = [], []
    for match in _MOVE.finditer(log):
        if match["number"]:
            waiting.append((int(match["number"]), int(match["level"])))
        else:
            found += [Move(number, level, int(match["micros"]) / 1e6) for number, level in waiting]
            waiting = []
    return found


def _sections(event: dict[str, Any]) -> Iterator[FileSection]:
    """Data; and filter and index, where the file has one block of each and stores them as they are.

    filter_size is without the block's trailer, and index_size with it, but not as compressed. Prefixes of a hash index
    are in none of them: its index is then longer than is said.
    """
    table, size = event["table_properties"], event["file_size"]
    end = table["data_size"]
    if end:
        yield FileSection(end, "data")
    if not table["index_partitions"]:
        if table["filter_size"]:
            end += table["filter_size"] + _TRAILER
            yield FileSection(end, "filter")
        if _NOT_COMPRESSED.fullmatch(table["compression"]):
            end += table["index_size"]
            yield FileSection(end, "index")
    if end < size:
        yield FileSection(size, "tail")
