"""RocksDB's own statistics: tables by the names in their header, figures by the words before them, events of LOG.

Columns and lines moved (WPreComp came with 10.3, another line on stalls with 8.1), so nothing is read by its place.
"""

from __future__ import annotations

import bisect
import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from workloads.engines.rocksdb.log_lines import events, moment_of
from workloads.tables import last_table

_GIB = {"B": 2**-30, "KB": 2**-20, "MB": 2**-10, "GB": 1.0, "TB": 2.0**10}
_NUMBER = r"\d{1,18}(?:\.\d{1,18})?"
_SIZE = re.compile(rf"({_NUMBER}) ?([KMGT]?B)")
# Lines of `stats`; the last of each counts.
_FIGURES = (
    re.compile(rf"^Flush\(GB\): cumulative (?P<flushed_gb>{_NUMBER}),", re.MULTILINE),
    re.compile(rf"^Cumulative compaction: (?P<compacted_gb>{_NUMBER}) GB write,", re.MULTILINE),
    re.compile(rf"^Uptime\(secs\): (?P<uptime>{_NUMBER}) total", re.MULTILINE),
    re.compile(rf"^Cumulative writes: .*ingest: (?P<ingest_gb>{_NUMBER}) GB", re.MULTILINE),
    re.compile(rf"^Cumulative WAL: .*written: (?P<wal_gb>{_NUMBER}) GB", re.MULTILINE),
)
_STALL = re.compile(rf"^Cumulative stall: (\d{{1,9}}):(\d{{1,9}}):({_NUMBER}) H:M:S", re.MULTILINE)
# Up to 8.0 `Stalls(count): 0 level0_slowdown, ...`, after it `Write Stall (count): cf-l0-...: 0, ...`.
_OLD_STALLS = re.compile(r"^Stalls\(count\): (.+)$", re.MULTILINE)
_NEW_STALLS = re.compile(r"^Write Stall \(count\): (.+)$", re.MULTILINE)
_TICKER = re.compile(r"^rocksdb\.([\w.]+) COUNT : (\d{1,18})$", re.MULTILINE)
_DUMP = re.compile(r"^(\d{4}/\d\d/\d\d-\d\d:\d\d:\d\d)\.(\d{6}) .*------- DUMPING STATS -------$", re.MULTILINE)


@dataclass(frozen=True)
class LevelWrites:
    """A level of the table of compactions by level: what was written into it and moved into it, GiB, in how long.

    files, size_gb: that it holds; seconds, cpu_seconds: of the flushes or compactions into it; jobs: their number
    """

    level: str
    files: int
    size_gb: float
    write_gb: float
    moved_gb: float
    seconds: float
    cpu_seconds: float
    jobs: int


def level_writes(log: str) -> list[LevelWrites]:
    """The last table of compactions by level, its sum last; empty where there is none."""
    found = []
    for row in last_table(
        log, "Level", "Files", "Size", "Write(GB)", "Moved(GB)", "Comp(sec)", "CompMergeCPU(sec)", "Comp(cnt)"
    ):
        size = _SIZE.fullmatch(row["Size"])
        with contextlib.suppress(ValueError):  # a row that another line was written into
            if size and row["Level"] != "Int":
                found.append(LevelWrites(
                    row["Level"], int(row["Files"].partition("/")[0]), float(size[1]) * _GIB[size[2]],
                    float(row["Write(GB)"]), float(row["Moved(GB)"]), float(row["Comp(sec)"]),
                    float(row["CompMergeCPU(sec)"]), int(row["Comp(cnt)"]),
                ))  # fmt: skip
    return found


def size_gib(log: str) -> float | None:
    """GiB of all levels, by the last table of compactions by level."""
    for row in last_table(log, "Level", "Files", "Size", "Score"):
        size = _SIZE.fullmatch(row["Size"])
        if row["Level"] == "Sum" and size:
            return float(size[1]) * _GIB[size[2]]
    return None


def stall_counts(log: str) -> dict[str, int]:
    """Stalls by their cause, by the last line on them in either form; empty where there is none."""
    if new := _NEW_STALLS.findall(log):
        pairs = re.findall(r"([\w-]+): (\d{1,18})", new[-1])
        return {name: int(count) for name, count in pairs if not name.startswith("total-") and name != "interval"}
    if old := _OLD_STALLS.findall(log):
        pairs = re.findall(r"(?:^|, )(\d{1,18}) ([\w ]+)", old[-1].partition(", interval")[0])
        return {name: int(count) for count, name in pairs}
    return {}


def statistics(log: str) -> dict[str, float]:
    """The last of each figure of `stats`; what is not stated is left out. GB are 2**30 bytes.

    stall_seconds: that writes were held back; stalls: how often, by any cause
    """
    found = {}
    for line in _FIGURES:
        if values := line.findall(log):
            found[next(iter(line.groupindex))] = float(values[-1])
    if stalls := _STALL.findall(log):
        hours, minutes, seconds = stalls[-1]
        found["stall_seconds"] = 3600 * int(hours) + 60 * int(minutes) + float(seconds)
    if counts := stall_counts(log):
        # `..._with_compaction` are among those without.
        found["stalls"] = sum(count for name, count in counts.items() if "with" not in name)
    for row in level_writes(log):
        if row.level == "Sum":
            found |= {"c_wsecs": row.seconds, "c_csecs": row.cpu_seconds, "moved_gb": row.moved_gb}
    return found


def tickers(text: str) -> dict[str, int]:
    """The last count of each ticker (`block.cache.hit`)."""
    return {name: int(count) for name, count in _TICKER.findall(text)}


@dataclass(frozen=True)
class Dump:
    """What LOG says each --stats_dump_period_sec: its moment in Unix seconds, statistics, and tickers where kept."""

    at: float
    statistics: dict[str, float]
    tickers: dict[str, int]

    def cumulative(self) -> dict[str, float]:
        """Figures that only grow, and are as fine as a second needs."""
        stalled = {n: v for n, v in self.statistics.items() if n == "stall_seconds"}
        return {**stalled, **{name: float(count) for name, count in self.tickers.items()}}


def dumps(log: str) -> list[Dump]:
    """The dumps of a LOG. Its clock is the local one, as db_bench's process had it."""
    parts = _DUMP.split(log)
    found = []
    for moment, micros, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        if (at := moment_of(moment, micros)) is not None:
            found.append(Dump(at, statistics(text), tickers(text)))
    return found


def written_by_events(log: str) -> dict[str, float]:
    """What flushes and compactions wrote and moves moved, by the events of a LOG: exact, where tables round.

    flushed_gb, written_gb, below_gb: GiB of table files by flushes, by flushes and compactions, by compactions into a
    level below L0; moved_gb: a file that moves over several levels counts at each of them; flushed_keys, live_keys:
    what flushes put in, and what the files hold that are still there; levels: into which something was written. Empty
    of a log without an event. first, second, third: the same for the levels below L0 that anything came into, in order.
    """
    flushes: set[int] = set()
    into: dict[int, list[float]] = {}
    files: dict[int, tuple[int, int, int]] = {}
    gone: set[int] = set()
    levels: set[int] = set()
    moved = moves = below = 0
    for event in events(log):
        match event.get("event"):
            case "flush_finished":
                flushes.add(event["job"])
            case "table_file_creation":
                keys = event["table_properties"].get("num_entries", 0)
                files[event["file_number"]] = event["job"], event["file_size"], keys
            case "table_file_deletion":
                gone.add(event["file_number"])
            case "compaction_finished":
                levels.add(event["output_level"])
                below += event["total_output_size"] * (event["output_level"] > 0)
                into.setdefault(event["output_level"], [0.0, 0.0])[0] += event["total_output_size"] / 2**30
            case "trivial_move":
                moved += event["total_files_size"]
                into.setdefault(event["destination_level"], [0.0, 0.0])[1] += event["total_files_size"] / 2**30
                moves += 1
    if not files:
        return {}
    flushed = [(size, keys) for job, size, keys in files.values() if job in flushes]
    found = {
        "flushed_gb": sum(size for size, _ in flushed) / 2**30,
        "written_gb": sum(size for _, size, _ in files.values()) / 2**30,
        "below_gb": below / 2**30,
        "moved_gb": moved / 2**30,
        "moves": moves,
        "flushed_keys": sum(keys for _, keys in flushed),
        "live_keys": sum(keys for number, (_, _, keys) in files.items() if number not in gone),
        "levels": len(levels | {0}),
    }
    below_l0 = [gib for level, gib in sorted(into.items()) if level > 0]
    for name, (written, came) in zip(("first", "second", "third"), below_l0, strict=False):
        found |= {f"{name}.written_gb": written, f"{name}.moved_gb": came}
    return {f"events.{name}": float(value) for name, value in found.items()}


def in_windows(log: str, windows: Sequence[tuple[float, float]]) -> list[dict[str, float]]:
    """What a LOG states of each stretch of time, in Unix seconds.

    flushed_gb, compacted_gb: GiB of the files that flushes and compactions finished in it, by events; stall_seconds,
    and tickers by their names: by the dumps, linearly between two; left out where no dump lies at either side.
    """
    files, stated = list(_finished_files(log)), dumps(log)
    found = []
    for begin, end in windows:
        own = dict.fromkeys(("flushed_gb", "compacted_gb"), 0.0)
        for at, name, size in files:
            if begin <= at < end:
                own[name] += size / 2**30
        for name in stated[-1].cumulative() if stated else ():
            first, last = _between(stated, name, begin), _between(stated, name, end)
            if first is not None and last is not None:
                own[name] = last - first
        found.append(own)
    return found


def _finished_files(log: str) -> Iterator[tuple[float, str, int]]:
    """Moment, whose it is, and bytes of every table file."""
    made = [event for event in events(log) if event.get("event") == "table_file_creation"]
    flushes = {event["job"] for event in events(log) if event.get("event") == "flush_finished"}
    for event in made:
        name = "flushed_gb" if event["job"] in flushes else "compacted_gb"
        yield event["time_micros"] / 1e6, name, event["file_size"]


def _between(stated: Sequence[Dump], name: str, at: float) -> float | None:
    """A figure that only grows, at a moment between two dumps."""
    right = bisect.bisect_left(stated, at, key=lambda dump: dump.at)
    if not 0 < right < len(stated):
        return None
    before, after = stated[right - 1], stated[right]
    low, high = before.cumulative().get(name, 0.0), after.cumulative().get(name, 0.0)
    return low + (high - low) * (at - before.at) / (after.at - before.at)
