"""What an engine has to offer: `Engine`, which a folder of `workloads/engines` implements.

The folder is a package with `engine.py`, which holds the class as `ENGINE`, and four data files: `engine.toml` (facts,
steps, workloads, configurations), `categories.toml` (stackfold's rules), `locks.toml` (lock primitives that are the
engine's own) and `symbols.toml` (where a query begins, for the latency ladder).
"""

from __future__ import annotations

import abc
import contextlib
import csv
import fnmatch
import inspect
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ground.errors import HostError, MeasurementError, RefusedError, UsageError
from ground.results.jobs import Jobs
from ground.results.stored_files import StoredFiles
from ground.settings import Setting
from ground.system.binaries import built_binary
from ground.text.ranges import choice
from ground.text.toml import tomllib
from workloads.about import About
from workloads.build import EngineBuild
from workloads.definitions import check_definition
from workloads.file_kinds import files_below, joined
from workloads.releases import Releases, read_releases
from workloads.scales import DatabaseShape
from workloads.steps import Configuration, Step, StepParameters, flag_value

if TYPE_CHECKING:
    from workloads.libraries import Library


@dataclass(frozen=True)
class LevelSize:
    """A non-empty level of the LSM tree: its number, files, and size in MiB as the engine prints it."""

    level: int
    files: int
    mib: int


@dataclass(frozen=True)
class Tree:
    """The LSM tree: its non-empty levels, and the entries in memtables; None where the engine does not say."""

    levels: Sequence[LevelSize]
    memtable_entries: int | None


@dataclass(frozen=True)
class EngineResult:
    """The engine's own closing line: latency in us, queries a second, seconds, queries, and how many were found.

    mb_per_second: MiB of keys and values a second; p50 to pmax: of its latency histogram, us; None where not printed.
    Those of our client at a rate count from the moment that the rate gave to an operation
    """

    micros_per_op: float
    ops_per_second: float
    seconds: float
    operations: int
    found: int | None
    reads: int | None
    mb_per_second: float | None = None
    p50: float | None = None
    p75: float | None = None
    p99: float | None = None
    p99_9: float | None = None
    p99_99: float | None = None
    pmax: float | None = None


# CLIENT=ioflame: the client that drives every engine alike, and the program it is.
OUR_CLIENT, _OUR_PROGRAM = "ioflame", "ioflame-client"
# The queries of a second in its report.
_QUERIES = "queries"


class Engine(abc.ABC):
    """A storage engine with a benchmark client. Its steps have `load`, `settle` and `levelstats` among them.

    name: of its folder; log_name, report_name: the files in a run directory with what the client printed, and with its
    queries by second
    """

    def __init__(self, own: Mapping[str, Any] | None = None, client: str | None = None) -> None:
        """own: steps, workloads and configurations of a user, over those of `engine.toml`; client: as CLIENT names it.

        UsageError for what makes no sense.
        """
        self._folder = Path(inspect.getfile(type(self))).parent
        self.name = self._folder.name
        data = self.file("engine.toml")
        try:
            self._definitions: dict[str, Any] = tomllib.loads(data.read_text(encoding="utf-8"))
            self.about = msgspec.convert(self._definitions, About)
        except (OSError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
            raise UsageError(f"{data} describes no engine: {error}") from None
        self.clients = (self.about.client, *self.about.other_clients)
        client = choice(Setting.CLIENT, client or self.about.client, self.clients, self.about.title)
        self.by_our_client = client == OUR_CLIENT
        self.about = msgspec.structs.replace(self.about, client=_OUR_PROGRAM if self.by_our_client else client)
        self.log_name = f"{self.about.client}.log"
        self.report_name = f"{self.about.client}.report.csv"
        for kind, definitions in (own or {}).items():
            for name, definition in definitions.items():
                check_definition(kind, name, definition, {**self._definitions[kind], **definitions})
            self._definitions[kind] = {**self._definitions[kind], **definitions}

    def file(self, name: str) -> Path:
        """A file of the engine's folder."""
        return self._folder / name

    def find_binary(self, asked: str | None) -> Path:
        """The client: `asked`, or the one on PATH. HostError when there is none, UsageError when `asked` is none."""
        client, package = self.about.client, self.about.package
        if self.by_our_client:
            if asked is None:
                return built_binary(client)
            # Another build of it has another version of the engine's library in it.
            if Path(asked).name != client:
                raise RefusedError(
                    f"{Setting.DB_BENCH.to(asked)} names another client than {Setting.CLIENT.to(OUR_CLIENT)}",
                    mend=f"leave {Setting.DB_BENCH} out, or {Setting.CLIENT}",
                )
        found = shutil.which(asked or client)
        if found:
            return Path(found).absolute()
        if asked is None:
            raise HostError(
                f"{client} is not installed",
                mend=f"make setup   (or: sudo apt-get install {package}; or "
                f"{Setting.DB_BENCH.to('<path of your own build>')})",
            )
        reason = "is there but cannot be executed" if Path(asked).exists() else "does not exist"
        raise RefusedError(
            f"{Setting.DB_BENCH.to(asked)} {'is a directory' if Path(asked).is_dir() else reason}",
            mend=Setting.DB_BENCH.to(f"<path of a {client}>")
            + f", or leave it out for {'ours' if self.by_our_client else package}",
        )

    def workloads(self) -> dict[str, Step]:
        """What can be measured, by name; the first is the default."""
        return {name: self.step(name) for name in self._definitions["workload"]}

    def steps(self) -> dict[str, Step]:
        """What prepares a database, by name."""
        return {name: self.step(name) for name in self._definitions["step"]}

    def step(self, name: str) -> Step:
        """The step or workload called `name`."""
        return msgspec.convert(self._definition(name), Step)

    def configurations(self) -> dict[str, Configuration]:
        """How a database can be read, by name; the first is the default."""
        found = {}
        for name, data in self._definitions["configuration"].items():
            flags = {**self._definitions["common"], **data.get("flags", {})}
            own = {"name": name, "direct": bool(flags.get(self.about.direct_flag)),
                   "cached_by_engine": data.get("cache") == "all"}  # fmt: skip
            found[name] = msgspec.convert({**data, **own}, Configuration)
        return found

    def configuration(self, name: str) -> Configuration:
        """UsageError with the known names where there is none."""
        known = self.configurations()
        return known[choice(Setting.CONFIG, name, known, self.name)]

    def _definition(self, name: str) -> dict[str, Any]:
        """A step or workload as `engine.toml` has it, `like` followed: its own keys and flags add to the other's."""
        definition: dict[str, Any] = self._definitions["step"].get(name) or self._definitions["workload"][name]
        if "like" not in definition:
            return definition
        base = self._definition(definition["like"])
        return {**base, **definition, "flags": {**base["flags"], **definition.get("flags", {})}}

    def left_out(self, known_flags: frozenset[str]) -> dict[str, str]:
        """Flags that a client of these flags does not get, each with the reason why that changes nothing."""
        return {name: why for name, why in self._definitions["optional"].items() if name not in known_flags}

    def command(self, build: EngineBuild, step: str, parameters: StepParameters) -> list[str]:
        """The full command line of a step or workload, of flags that the client knows.

        UsageError for a flag that it does not know and that may not be left out, or a function that it does not have.
        """
        self.refuse_lacking(build, step)
        definition = self._definition(step)
        flags = {**self._definitions["common"], **definition["flags"], **parameters.flags}
        flags |= {**self.shape_flags(parameters.sizing.shape), **parameters.sizing.shape.tree}
        if build.flags is not None:
            gone = self.left_out(build.flags)
            flags = {name: value for name, value in flags.items() if name not in gone}
            self._refuse_unknown(build.path, step, flags, build.flags)
        values = self.placeholders(parameters)
        return [
            str(build.path),
            *([f"--engine={self.name}"] if self.by_our_client else []),
            *([f"--library={build.library}"] if build.library else []),
            f"--benchmarks={definition['benchmarks']}",
            *(f"--{name}={flag_value(value, values)}" for name, value in flags.items()),
        ]

    def _refuse_unknown(self, binary: Path, step: str, flags: Mapping[str, object], known: frozenset[str]) -> None:
        unknown = sorted(flags.keys() - known)
        if unknown:
            raise UsageError(
                f"{binary} does not know {', '.join(f'--{name}' for name in unknown)} of step {step}",
                means="without it the figures would be those of another configuration; nothing was started",
                mend=f"{Setting.DB_BENCH.to('<a version that has it>')}, or take it out of "
                f"{shlex.quote(str(self.file('engine.toml')))}, or list it there as [optional]",
            )

    def refuse_lacking(self, build: EngineBuild, step: str) -> None:
        """UsageError where a step needs a function that the build does not have."""
        for benchmark in self.step(step).benchmarks.split(","):
            for lacking, since in build.lacks.items():
                if benchmark.startswith(lacking):
                    raise RefusedError(
                        f"{self.about.title} {build.version} has no MultiGet in its C interface, which {step} needs: "
                        f"it came with {since}",
                        mend=f"{Setting.ROCKSDB.to(f'<{since} or newer>')}, or another {Setting.WORKLOAD}",
                    )

    def releases(self) -> Releases:
        """Those that can be had without a build; UsageError where there are none of this engine."""
        found = read_releases(self.file("releases.toml"))
        if found is None:
            raise RefusedError(
                f"{Setting.ROCKSDB} names a library of another engine than {Setting.ENGINE.to(self.name)}",
                mend=f"leave {Setting.ROCKSDB} or {Setting.ENGINE} out",
            )
        return found

    def placeholders(self, parameters: StepParameters) -> dict[str, object]:
        """The value of each {name} in the flags of `engine.toml`."""
        shape = parameters.sizing.shape
        return {
            "db_dir": parameters.db_dir,
            "num_keys": shape.num_keys,
            "key_size": shape.key_size,
            "value_size": shape.value_size,
            "block_size": shape.block_size,
            "cache_size": parameters.sizing.cache_size,
            "cache_shard_bits": parameters.sizing.cache_shard_bits,
            "cache_type": parameters.cache_type or self.about.cache_types[0],
            "threads": parameters.threads,
            "seed": parameters.seed,
            "duration": parameters.duration,
            "report_file": parameters.report_file,
            "tenth_per_thread": shape.num_keys // 10 // parameters.threads,
            "keys_of_16_mib": (parameters.duration << 24) // (shape.key_size + shape.value_size) // parameters.threads,
        }

    @abc.abstractmethod
    def shape_flags(self, shape: DatabaseShape) -> dict[str, object]:
        """Flags by what the database was loaded with, over all others."""

    @abc.abstractmethod
    def inspect(self, binary: Path) -> EngineBuild:
        """Runs a one-operation job and reads the ELF files. HostError when it does not run at all."""

    def inspect_library(self, binary: Path, library: Library) -> EngineBuild:
        """The same of our client with a library that it is to open."""
        raise UsageError(f"{library.path}: {binary.name} opens no library of {self.about.title}")

    @abc.abstractmethod
    def parse_tree(self, log: str) -> Tree:
        """The last level table in a log, and the memtables; MeasurementError when there is no table."""

    @abc.abstractmethod
    def parse_result(self, log: str, workload: str) -> EngineResult | None:
        """The closing line of a workload; None where the log has none."""

    @property
    def report_column(self) -> str:
        """Of the report by second: that with the queries."""
        return _QUERIES

    def parse_report(self, text: str) -> list[int]:
        """Queries of each second, of a report whose last line is whole; MeasurementError for one of another form."""
        rates = []
        for row in csv.DictReader(text[: text.rfind("\n") + 1].replace("\0", "?").splitlines()):
            try:
                rates.append(int(row[self.report_column]))
            except (KeyError, TypeError, ValueError):
                raise MeasurementError(
                    f"a line of {self.report_name} is {','.join(map(str, row.values()))!r}, without a number of "
                    f"{self.report_column}",
                    means=f"this {self.about.client} reports in another form, so its queries cannot be counted",
                    mend=Setting.DB_BENCH.to(f"<{self.about.versions}>"),
                ) from None
        return rates

    def thread_totals(self, log: str) -> dict[int, list[tuple[float, int]]]:
        """By thread of the client, 0 the first: seconds and operations so far, from its lines in the log.

        Only of workloads with a writer beside the queries, which is thread 0.
        """
        del log
        return {}

    # The file in a database's directory where the engine itself says what it does; "" where it keeps none.
    own_log = ""

    def figures(self, log: str, step: str, db_dir: Path) -> dict[str, float]:
        """Everything a step's log and the engine's own log state, by ioflame's own names, for columns of a table."""
        del db_dir
        found = self.statistics(log)
        result = self.parse_result(log, step)
        if result is not None:
            found |= {name: float(value) for name, value in vars(result).items() if value is not None}
        with contextlib.suppress(MeasurementError):
            levels = self.parse_tree(log).levels
            found |= {"levels": len(levels), "stored_mib": sum(level.mib for level in levels)}
        return found

    def predicted(self, argv: Sequence[str], data_bytes: int) -> dict[str, float]:
        """What models say of a command line over so many bytes of files, by ioflame's own names; nothing by default."""
        del argv, data_bytes
        return {}

    def in_windows(self, own_log: str, windows: Sequence[tuple[float, float]]) -> list[dict[str, float]]:
        """What the engine's own log states of each stretch of time, Unix seconds; empty where it states nothing."""
        del own_log
        return [{} for _ in windows]

    def statistics(self, log: str) -> dict[str, float]:
        """What a log's last statistics state, by ioflame's own names; what is not stated is left out."""
        del log
        return {}

    @abc.abstractmethod
    def compacted_gb(self, log: str) -> float | None:
        """GiB that flushes and compactions of a process wrote, by its closing statistics; None where they lack it."""

    def stored_settings(self, db_dir: Path) -> dict[str, str]:
        """The settings the database's own files state; empty when they hold no database, or state none."""
        del db_dir
        return {}

    def expected_settings(self, shape: DatabaseShape) -> dict[str, str]:
        """The settings that `stored_settings` should return for a database of this shape."""
        del shape
        return {}

    @abc.abstractmethod
    def is_database_file(self, name: str) -> bool:
        """True for the names of files the engine itself makes in a database's directory."""

    def stored_files(self, directory: Path) -> StoredFiles:
        """A database's current files; it may be in use: its lock is not taken, and nothing is written.

        UsageError where there is no such directory, or it may not be read.
        """
        kinds = self.about.file_kinds or {fnmatch.translate(self.about.data_files): "data"}
        return files_below(directory, kinds)

    def stored_files_of_window(self, before: StoredFiles, after: StoredFiles) -> StoredFiles:
        """Every file that was there at any moment between two readings of `stored_files`, as far as they tell."""
        return joined(before, after)

    def jobs(self, directory: Path, begin: float, end: float) -> Jobs | None:
        """Background jobs and stalls of databases in a directory that overlap a stretch of time, Unix seconds.

        None where the engine's own log says nothing of that time. UsageError as of `stored_files`.
        """
        del directory, begin, end
        return None
