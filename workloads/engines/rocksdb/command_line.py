"""A command line of db_bench: what of it has to be known to watch a db_bench that is started with it.

By tools/db_bench_tool.cc, 7.8 to 11: gflags' forms of a flag, benchmarks that write no report, those that end by their
number of operations alone.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CLIENT = "db_bench"
EXAMPLE = f"ioflame run -- ./{CLIENT} --benchmarks=readrandom --use_existing_db"
# The report of queries by second that is added to a command line that names none.
REPORT = f"{CLIENT}.report.csv"
# What runs once a query, by the kind of query.
FUNCTIONS = {
    "get": "rocksdb::DBImpl::GetImpl",
    "multiget": "rocksdb::DBImpl::MultiGet",
    "iterate": "rocksdb::DBIter::Seek",
    "write": "rocksdb::DBImpl::WriteImpl",
}


# Not started as a benchmark: they print, or work on the database, and write no report.
_NO_REPORT = {
    "compactall", "compact0", "compact1", "waitforcompaction", "flush", "block_cache_entry_stats",
    "cache_report_problems", "stats", "resetstats", "verify", "levelstats", "memstats", "sstables", "stats_history",
}  # fmt: skip
# They make a database of their own, and are skipped where an existing one is to be used.
_FRESH = re.compile(r"fill(?!seekseq).*|randomreplacekeys|timeseries")
# One thread beside those that --threads says, which writes; it is started first.
_WITH_WRITER = re.compile(r"\w+while(writing|merging)")
# They end after a number of operations, whatever --duration says.
_BY_NUMBER = re.compile(
    r"fillseq.*|fillbatch|filluniquerandom.*|fillanddelete.*|readseq|readreverse|readto\w+|deleteseq|compact"
)
_WRITES = re.compile(r"fill.*|overwrite|deleteseq|deleterandom|mergerandom")
_SINGLE_THREAD = re.compile(r"filluniquerandom.*|fillseqdeterministic|fillanddelete.*|readtocache")
# A hundredth or a thousandth of the keys.
_FEWER = {"fill100K": 1000, "fillsync": 1000}
# What of a benchmark's operations are, as the rules of operations call it; others do several, or nothing of these.
_KINDS = (
    (re.compile(r"multiread.*"), "multiget"),
    (re.compile(r"read(random(?!writer|merger)|missing|while).*"), "get"),
    (re.compile(r"(seekrandom|newiterator|multiscan|readseq|readreverse).*"), "iterate"),
)
_REPEATED = re.compile(r"([XW])(\d+)")
_DEFAULT_NUM = 1_000_000
_MOST_FLAGFILES = 4
# Of 7.8: what a flag is that was not given.
_DEFAULT_CACHE, _DEFAULT_KEY, _DEFAULT_VALUE, _DEFAULT_BLOCK = 32 << 20, 16, 100, 4096
# A writer prints its own lines, one a second: they separate its operations from the queries.
_WRITERS_LINES = {"stats_interval_seconds": "1", "stats_per_interval": "0"}
# Of the flags that are read here, those that take no second word: in `--use_direct_reads 0` the 0 is nobody's.
_BOOLEAN = ("use_existing_db", "use_direct_reads", "disable_wal", "manual_wal_flush", "histogram")
_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")


@dataclass(frozen=True)
class Refused:
    """Why a command line cannot be an arm of a comparison. add: what to write instead; "" where there is nothing"""

    why: str
    means: str
    add: str


@dataclass(frozen=True)
class BenchCommand:
    """program: as it was called; flags: by name, without dashes; place: its working directory"""

    program: str
    flags: Mapping[str, str]
    place: Path

    @property
    def benchmarks(self) -> list[str]:
        """Those that write a report, in order, one entry for each of their runs; empty where none is named."""
        found = []
        for word in self.flags.get("benchmarks", "").split(","):
            name, _, more = word.strip().partition("[")
            skipped = bool(_FRESH.fullmatch(name)) and self._is_set("use_existing_db")
            if not name or name in _NO_REPORT or skipped:
                continue
            repeats = dict(_REPEATED.findall(more))
            found += [name] * (int(repeats.get("W", 0)) + max(int(repeats.get("X", 1)), 1))
        return found

    @property
    def meant_flags(self) -> dict[str, str]:
        """By name, whatever their order and spelling, but for those that a comparison sets for every process."""
        return {name: _meant(value) for name, value in sorted(self.flags.items()) if name not in _set_for_each()}

    @property
    def threads(self) -> int:
        return self._number("threads", 1)

    def clients(self, benchmark: str) -> int:
        """Threads that send the queries of a benchmark; a writer beside them is none of these."""
        return 1 if _SINGLE_THREAD.fullmatch(benchmark) else self.threads

    def has_writer(self, benchmark: str) -> bool:
        """Whether one more thread writes beside its queries."""
        return bool(_WITH_WRITER.fullmatch(benchmark))

    def has_company(self, benchmark: str) -> bool:
        """Whether one more thread does anything else beside its queries."""
        return "while" in benchmark

    def writes(self, benchmark: str) -> bool:
        """Whether its queries are writes."""
        return bool(_WRITES.fullmatch(benchmark))

    def kind(self, benchmark: str) -> str:
        """What its queries are, as the rules of operations call it; "" where they are of several kinds."""
        if self.writes(benchmark):
            return "write"
        return next((kind for pattern, kind in _KINDS if pattern.fullmatch(benchmark)), "")

    @property
    def writes_its_log(self) -> bool:
        """Whether each write is one call of write, to the log: then a writer's calls count its operations."""
        return not (self._is_set("disable_wal") or self._is_set("manual_wal_flush"))

    def seconds(self, benchmark: str) -> float | None:
        """How long it was asked to run; None where its number of operations ends it."""
        seconds = self._number("duration", 0)
        return float(seconds) if seconds > 0 and not _BY_NUMBER.fullmatch(benchmark) else None

    def operations(self, benchmark: str) -> int:
        """After how many operations of all its threads it ends, where no duration ends it."""
        keys = self._number("num", _DEFAULT_NUM)
        own = self._number("writes" if self.writes(benchmark) else "reads", -1)
        each = own if own >= 0 else keys // _FEWER.get(benchmark, 1)
        return each * self.clients(benchmark)

    @property
    def report(self) -> Path | None:
        """The file that gets a line of finished operations each interval; None without one."""
        if self.interval <= 0:
            return None
        return self.place / self.flags.get("report_file", "report.csv")

    @property
    def interval(self) -> int:
        """Seconds between two lines of the report; 0 without one."""
        return self._number("report_interval_seconds", 0)

    @property
    def database(self) -> Path | None:
        return self.place / self.flags["db"] if "db" in self.flags else None

    @property
    def direct_reads(self) -> bool:
        return self._is_set("use_direct_reads")

    def missing(self, report: Path) -> list[str]:
        """Words to be added to the command line, so that its queries are counted and their latencies printed."""
        words = []
        if "report_interval_seconds" not in self.flags:
            if "report_file" not in self.flags:
                words.append(f"--report_file={report}")
            words.append("--report_interval_seconds=1")
        if "histogram" not in self.flags:
            words.append("--histogram")
        return words

    # ---- as an arm of a comparison ----------------------------------------------------------------------------------
    @property
    def refused(self) -> Refused | None:
        """Why it cannot be compared with another; None where it can."""
        return next(self._refusals(), None)

    def _refusals(self) -> Iterator[Refused]:
        asked = self.flags.get("benchmarks", "")
        named = [word for word in asked.split(",") if word]
        if len(named) != 1 or self.benchmarks != named:
            yield Refused(
                f"--benchmarks={asked}: a comparison is of one benchmark that reads or changes an existing database",
                "windows of several would be mixed",
                "--benchmarks=<one, such as a random read>",
            )
        if not self._is_set("use_existing_db"):
            means = "each arm would load a tree of its own, and what they read would differ"
            yield Refused("it has no --use_existing_db", means, "--use_existing_db")
        if self.database is None:
            yield Refused("it has no --db", "which tree the arms read is not known", "--db=<the database>")
        turns = "it would end within a session, in which arms alternate for minutes"
        if _BY_NUMBER.fullmatch(named[0]):
            why = f"{named[0]} ends by itself after a number of operations, whatever --duration says"
            yield Refused(why, turns, "--benchmarks=<one that runs for --duration>")
        elif self.seconds(named[0]) is None:
            why = "it has no --duration, so it ends by itself after a number of operations"
            yield Refused(why, f"{turns}; how long is the session's to say", "--duration=60")
        log = self.flags.get("wal_dir", "")
        if log and self.place / log != self.database:
            why, means = f"--wal_dir={log} is another directory than --db", "arms would share one write-ahead log"
            yield Refused(why, means, "<the same without --wal_dir>")

    @property
    def keys(self) -> int:
        return self._number("num", _DEFAULT_NUM)

    @property
    def cache_size(self) -> int:
        """Bytes of the block cache."""
        return max(self._number("cache_size", _DEFAULT_CACHE), 0)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Bytes of a key, a value and a block."""
        own = ("key_size", _DEFAULT_KEY), ("value_size", _DEFAULT_VALUE), ("block_size", _DEFAULT_BLOCK)
        key, value, block = (self._number(name, otherwise) for name, otherwise in own)
        return key, value, block

    def measured(self, database: Path, report: Path, seconds: int, seed: int) -> list[str]:
        """Its flags in one spelling, for a process of so many seconds on a copy of its database."""
        flags = self._on(database) | {"report_file": str(report), "report_interval_seconds": "1"}
        flags["duration"] = str(seconds)
        flags.setdefault("seed", str(seed))
        if self.has_writer(self.benchmarks[0]):
            flags |= _WRITERS_LINES
        return _spelled(flags)

    def levels(self, database: Path) -> list[str]:
        """The same, which prints the levels of the tree and ends."""
        flags = {name: value for name, value in self._on(database).items() if name not in _set_for_each()}
        return _spelled({**flags, "benchmarks": "memstats,levelstats", "threads": "1"})

    def _on(self, database: Path) -> dict[str, str]:
        own = {"db": str(database)} | ({"wal_dir": str(database)} if self.flags.get("wal_dir") else {})
        return {**self.flags, **own}

    def _is_set(self, name: str) -> bool:
        return self.flags.get(name, "false").lower() in ("true", "t", "1", "yes", "y")

    def _number(self, name: str, otherwise: int) -> int:
        try:
            return int(self.flags[name])
        except (KeyError, ValueError):
            return otherwise


def bench_command(argv: Sequence[str], place: Path) -> BenchCommand | None:
    """None where it is no db_bench's: neither is it called so, nor has it a flag --benchmarks. place: where it runs"""
    if not argv:
        return None
    flags = given_flags(argv[1:], place)
    if "benchmarks" not in flags and "db_bench" not in Path(argv[0]).name:
        return None
    return BenchCommand(argv[0], flags, place)


def given_flags(words: Sequence[str], place: Path) -> dict[str, str]:
    """--name=value, -name value, --name and --noname as gflags reads them, and those in files of --flagfile; the last
    of a name counts."""
    return dict(_flags(words, place, _MOST_FLAGFILES))


def _flags(words: Sequence[str], place: Path, files: int) -> Iterator[tuple[str, str]]:
    rest = list(words)
    while rest:
        word = rest.pop(0)
        matched = re.fullmatch(r"--?([A-Za-z]\w*)(?:=(.*))?", word, re.DOTALL)
        if matched is None:
            continue
        name, value = matched[1], matched[2]
        if value is None and name not in _BOOLEAN and rest and not rest[0].startswith("-"):
            value = rest.pop(0)
        if name == "flagfile" and value:
            if files:
                yield from _flags(_words_of(place / value), place, files - 1)
        elif value is None and name.startswith("no") and len(name) > 2:
            yield name[2:], "false"
        else:
            yield name, "true" if value is None else value


def differing_flags(commands: Sequence[BenchCommand]) -> dict[str, list[str]]:
    """Flags whose values differ, whatever their order and spelling: the value in each command; "-" where not given."""
    found = {}
    for name in sorted({name for one in commands for name in one.meant_flags}):
        if len({one.meant_flags.get(name) for one in commands}) > 1:
            found[f"--{name}"] = [one.flags.get(name, "-") for one in commands]
    return found


def _set_for_each() -> set[str]:
    """The flags that a comparison sets for every process: how long it runs, and its report."""
    return {"duration", "report_file", "report_interval_seconds"}


def _meant(value: str) -> str:
    """Of the ways to write a truth value one; a flag is either that or a number."""
    word = value.lower()
    return "true" if word in _TRUE else "false" if word in _FALSE else value


def _spelled(flags: Mapping[str, str]) -> list[str]:
    return [f"--{name}={value}" for name, value in flags.items()]


def _words_of(file: Path) -> list[str]:
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [word for line in lines if line.lstrip().startswith("-") for word in shlex.split(line)[:1]]
