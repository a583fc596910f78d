"""RocksDB through db_bench. Flags and steps are data: `rocksdb.toml`."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ioflame.errors import HostError, MeasurementError, UsageError
from ioflame.process import capture
from ioflame.scratch import scratch_directory
from ioflame.writes import Writes
from workloads.definitions import check_definition
from workloads.elf import frame_pointer_share, symbol_kind
from workloads.engine import (
    Configuration,
    DatabaseShape,
    EngineBuild,
    EngineResult,
    LevelSize,
    Step,
    StepParameters,
    Tree,
)

__all__ = ("RocksDB",)

_DEFINITIONS = Path(__file__).with_name("rocksdb.toml")

_SMALLEST_SHARD = 4 << 20

_LEVEL_TABLE = re.compile(r"^Level Files Size\(MB\)\n-+\n((?:\s*\d+\s+\d+\s+\d+\n?)+)", re.MULTILINE)
_MEMTABLE_ENTRIES = re.compile(r"^rocksdb\.num-entries-(?:active-mem-table|imm-mem-tables): (\d+)$", re.MULTILINE)
# `readrandom   :   87.537 micros/op 11423 ops/sec 8.053 seconds 91999 operations;    4.6 MB/s (91999 of 91999 found)`
_RESULT = (
    r"^{workload}\s*:\s+(?P<micros>[\d.]+) micros/op (?P<ops>\d+) ops/sec (?P<seconds>[\d.]+) seconds "
    r"(?P<count>\d+) operations;(?:\s*(?P<mb>[\d.]+) MB/s)?(?:.*\((?P<found>\d+) of (?P<reads>\d+) found\))?"
)
_PERCENTILES = re.compile(
    r"Max: (?P<pmax>[\d.]+)\nPercentiles: P50: (?P<p50>[\d.]+) P75: (?P<p75>[\d.]+) P99: (?P<p99>[\d.]+) "
    r"P99\.9: (?P<p99_9>[\d.]+) P99\.99: (?P<p99_99>[\d.]+)"
)
# Lines of `stats`; the last of each counts. The sum of the levels stands in the first table, by level.
_STATISTICS = {
    "size": re.compile(r"^ Sum\s+\d+/\d+\s+([\d.]+) ([KMGT]B)\s", re.MULTILINE),
    "flushed": re.compile(r"^Flush\(GB\): cumulative ([\d.]+),", re.MULTILINE),
    "written": re.compile(r"^Cumulative compaction: ([\d.]+) GB write,", re.MULTILINE),
    "uptime": re.compile(r"^Uptime\(secs\): ([\d.]+) total", re.MULTILINE),
    "stall": re.compile(r"^Cumulative stall: (\d+):(\d+):([\d.]+) H:M:S", re.MULTILINE),
}
_GIB = {"KB": 2**-20, "MB": 2**-10, "GB": 1.0, "TB": 2.0**10}
# gflags: `    -num (Number of key/values to place in database) type: int64`
_HELP_FLAG = re.compile(r"^ {4}-(\w+) \(", re.MULTILINE)
_DATABASE_FILE = re.compile(
    r"\d+\.(sst|log|blob)|MANIFEST-\d+|OPTIONS-\d+(\.dbtmp)?|CURRENT|IDENTITY|LOCK|LOG(\.old\.\d+)?|\d+\.dbtmp"
)


class RocksDB:
    """The db_bench of RocksDB 7 and later."""

    name = "rocksdb"

    def __init__(self, own: Mapping[str, Any] | None = None) -> None:
        """own: steps, workloads and configurations of a user, over those of `rocksdb.toml`; UsageError for bad ones."""
        self._definitions: dict[str, Any] = tomllib.loads(_DEFINITIONS.read_text(encoding="utf-8"))
        for kind, definitions in (own or {}).items():
            for name, definition in definitions.items():
                check_definition(kind, name, definition, {**self._definitions[kind], **definitions})
            self._definitions[kind] = {**self._definitions[kind], **definitions}

    def find_binary(self, asked: str | None) -> Path:
        default, package = self._definitions["binary"], self._definitions["package"]
        found = shutil.which(asked or default)
        if found:
            return Path(found).absolute()
        if asked is None:
            raise HostError(
                f"{default} is not installed",
                mend=f"make setup   (or: sudo apt-get install {package}; or DB_BENCH=<path of your own build>)",
            )
        path = Path(asked)
        if path.is_dir():
            reason = "is a directory"
        elif path.exists():
            reason = "is there but cannot be executed"
        else:
            reason = "does not exist"
        raise UsageError(
            f"DB_BENCH={asked} {reason}",
            means="nothing was started",
            mend=f"DB_BENCH=<path of a db_bench>, or leave it out for the one of Debian's {package}",
        )

    def inspect(self, binary: Path) -> EngineBuild:
        with scratch_directory() as scratch:
            argv = [str(binary), "--benchmarks=fillseq", "--num=1", "--compression_type=none", f"--db={scratch}/db"]
            done = capture(argv, timeout=60)
        output = done.text + done.errors
        version = re.search(r"RocksDB:\s+version (\S+)", output)
        if done.returncode != 0 or version is None:
            raise HostError(
                f"{binary} did not run a one-operation job: exit code {done.returncode}, it said: "
                f"{output.strip()[-600:] or 'nothing'}",
                means="it is not a db_bench, or this machine lacks a library it needs",
                mend=f"ldd {shlex.quote(str(binary))}; {shlex.join(argv[:-1])} --db=$(mktemp -d)",
            )
        warnings = tuple(dict.fromkeys(re.findall(r"^WARNING: (.+)$", output, re.MULTILINE)))
        code = _code_file(binary)
        flags = frozenset(_HELP_FLAG.findall(capture([str(binary), "--help"], timeout=60).text))
        return EngineBuild(
            path=binary,
            version=version[1],
            assertions=any("Assertions are enabled" in warning for warning in warnings),
            symbols=symbol_kind(code),
            frame_pointers=frame_pointer_share(code),
            code=code,
            warnings=warnings,
            flags=flags,
            left_out=self.left_out(flags),
        )

    def workloads(self) -> dict[str, Step]:
        return {name: self._step(name) for name in self._definitions["workload"]}

    def configurations(self) -> dict[str, Configuration]:
        found = {}
        for name, data in self._definitions["configuration"].items():
            flags = data.get("flags", {})
            found[name] = Configuration(
                name=name,
                about=str(data["about"]),
                flags=flags,
                block_align=bool(data.get("block_align", True)),
                direct=bool({**self._definitions["common"], **flags}["use_direct_reads"]),
                cached_by_engine=data.get("cache") == "all",
            )
        return found

    def steps(self) -> dict[str, Step]:
        return {name: self._step(name) for name in self._definitions["step"]}

    def _step(self, name: str) -> Step:
        definition = self._definition(name)
        return Step(
            about=str(definition["about"]),
            benchmark=str(definition["benchmarks"]).partition(",")[0],
            changes_tree=bool(definition.get("changes_tree", False)),
            rewrites=float(definition.get("rewrites", 0)),
            settles=bool(definition.get("settles", False)),
            levels=str(definition.get("levels", "any")),
            filters=str(definition.get("filters", "any")),
        )

    def _definition(self, name: str) -> dict[str, Any]:
        """A step or workload as `rocksdb.toml` has it, `like` followed: its own keys and flags add to the other's."""
        definition: dict[str, Any] = self._definitions["step"].get(name) or self._definitions["workload"][name]
        if "like" not in definition:
            return definition
        base = self._definition(definition["like"])
        return {**base, **definition, "flags": {**base["flags"], **definition.get("flags", {})}}

    def command(self, binary: Path, step: str, parameters: StepParameters) -> list[str]:
        definition = self._definition(step)
        shape = parameters.shape
        values = {
            "db_dir": parameters.db_dir,
            "num_keys": shape.num_keys,
            "key_size": shape.key_size,
            "value_size": shape.value_size,
            "block_size": shape.block_size,
            "cache_size": parameters.cache_size,
            "cache_shard_bits": _shard_bits(parameters.cache_size),
            "cache_type": parameters.cache_type,
            "threads": parameters.threads,
            "seed": parameters.seed,
            "duration": parameters.duration,
            "report_file": parameters.report_file,
            "tenth_per_thread": shape.num_keys // 10 // parameters.threads,
            "overwrite_buffer": _overwrite_buffer(shape),
        }
        flags = {**self._definitions["common"], **definition["flags"], **parameters.flags}
        flags |= {
            "block_align": shape.block_align,
            "compression_type": shape.compression,
            "bloom_bits": shape.bloom_bits,
        }
        if parameters.known_flags is not None:
            gone = self.left_out(parameters.known_flags)
            flags = {name: value for name, value in flags.items() if name not in gone}
            _refuse_unknown(binary, step, flags, parameters.known_flags)
        return [
            str(binary),
            f"--benchmarks={definition['benchmarks']}",
            *(f"--{name}={_flag_value(value, values)}" for name, value in flags.items()),
        ]

    def left_out(self, known_flags: frozenset[str]) -> dict[str, str]:
        return {name: why for name, why in self._definitions["optional"].items() if name not in known_flags}

    def parse_tree(self, log: str) -> Tree:
        tables = _LEVEL_TABLE.findall(log)
        if not tables:
            raise MeasurementError(
                "db_bench printed no level table",
                means="the state of the LSM tree is unknown; this db_bench does not know `levelstats`, or prints it in "
                f"another form. It said last: {log.strip()[-300:] or 'nothing'}",
                mend="DB_BENCH=<RocksDB 7.8 to 11>",
            )
        rows = (tuple(map(int, line.split())) for line in tables[-1].splitlines() if line.strip())
        # `memstats` stands before `levelstats`: the last two lines are of the same moment.
        entries = [int(count) for count in _MEMTABLE_ENTRIES.findall(log)[-2:]]
        return Tree(
            [LevelSize(level, files, mib) for level, files, mib in rows if files], sum(entries) if entries else None
        )

    def parse_writes(self, log: str, step: str, shape: DatabaseShape, threads: int, db_dir: Path) -> Writes | None:
        result = self.parse_result(log, step)
        found = {name: pattern.findall(log) for name, pattern in _STATISTICS.items()}
        if result is None or not all(found.values()):
            return None
        size, unit = found["size"][-1]
        hours, minutes, seconds = found["stall"][-1]
        flushed = float(found["flushed"][-1])
        return Writes(
            threads=threads,
            ops_per_second=result.ops_per_second,
            bytes_per_op=shape.key_size + shape.value_size,
            size_gb=float(size) * _GIB[unit],
            l0_gb=flushed,
            # Flushes are part of it, and are printed with one digit more.
            sum_gb=max(float(found["written"][-1]), flushed),
            uptime=float(found["uptime"][-1]),
            stall_seconds=3600 * int(hours) + 60 * int(minutes) + float(seconds),
            du_kib=sum(entry.stat().st_blocks for entry in os.scandir(db_dir)) // 2,
            p50=result.p50,
            p75=result.p75,
            p99=result.p99,
            p99_9=result.p99_9,
            p99_99=result.p99_99,
        )

    def parse_result(self, log: str, workload: str) -> EngineResult | None:
        benchmark = re.escape(self._step(workload).benchmark)
        match = re.search(_RESULT.format(workload=benchmark), log, re.MULTILINE)
        if match is None:
            return None
        return EngineResult(
            micros_per_op=float(match["micros"]),
            ops_per_second=float(match["ops"]),
            seconds=float(match["seconds"]),
            operations=int(match["count"]),
            found=int(match["found"]) if match["found"] else None,
            reads=int(match["reads"]) if match["reads"] else None,
            mb_per_second=float(match["mb"]) if match["mb"] else None,
            **{name: float(value) for name, value in (_last_percentiles(log) or {}).items()},
        )

    def stored_settings(self, db_dir: Path) -> dict[str, str]:
        newest = max(db_dir.glob("OPTIONS-*[0-9]"), key=lambda p: int(p.name.rpartition("-")[2]), default=None)
        if newest is None:
            return {}
        parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
        try:
            parser.read_string(newest.read_text(encoding="utf-8", errors="replace"))
        except configparser.Error as error:
            raise MeasurementError(f"{newest} cannot be read: {error}") from None
        settings: dict[str, str] = {}
        for section in parser.sections():
            if section.startswith(('CFOptions "default"', 'TableOptions/BlockBasedTable "default"')):
                settings |= {name: parser[section][name] for name in parser[section]}
        names = self.expected_settings(DatabaseShape(num_keys=1))
        return {name: _canonical(name, settings.get(name, "not stated")) for name in names}

    def expected_settings(self, shape: DatabaseShape) -> dict[str, str]:
        return {
            "block_size": str(shape.block_size),
            "block_align": str(shape.block_align).lower(),
            "compression": {"none": "kNoCompression", "lz4": "kLZ4Compression", "zstd": "kZSTD"}[shape.compression],
            "filter_policy": f"bloomfilter:{shape.bloom_bits}",
        }

    def is_database_file(self, name: str) -> bool:
        return _DATABASE_FILE.fullmatch(name) is not None


def _refuse_unknown(binary: Path, step: str, flags: Mapping[str, object], known: frozenset[str]) -> None:
    unknown = sorted(flags.keys() - known)
    if unknown:
        raise UsageError(
            f"{binary} does not know {', '.join(f'--{name}' for name in unknown)} of step {step}",
            means="without it the figures would be those of another configuration; nothing was started",
            mend=f"DB_BENCH=<a version that has it>, or take it out of {_DEFINITIONS}, or list it there as [optional]",
        )


def _last_percentiles(log: str) -> dict[str, str] | None:
    found = list(_PERCENTILES.finditer(log))
    return found[-1].groupdict() if found else None


def _shard_bits(cache_size: int) -> int:
    """log2 of the block cache's shards: 64 as benchmark.sh has it, fewer where a shard would be below 4 MiB.

    A shard too small for a file's filter and index block throws them out again at each query: seen with 16 MiB in 64
    shards as 1.23 reads of 38 KiB a query instead of one of 8 KiB.
    """
    return max(0, min(6, (cache_size // _SMALLEST_SHARD).bit_length() - 1))


def _overwrite_buffer(shape: DatabaseShape) -> int:
    """Bytes of a memtable, so that overwriting a tenth of the keys fills at least eight; within 1 to 16 MiB."""
    return max(1 << 20, min(16 << 20, shape.data_bytes // 10 // 8))


def _canonical(name: str, value: str) -> str:
    # 7.8 writes `bloomfilter:10:false`, later versions `bloomfilter:10`: compare what they share.
    return ":".join(value.split(":")[:2]) if name == "filter_policy" else value


def _flag_value(value: object, values: dict[str, object]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).format(**values) if isinstance(value, str) else str(value)


def _code_file(binary: Path) -> Path:
    """The shared librocksdb that `binary` loads, or `binary` itself when it is linked statically."""
    loaded = capture(["ldd", str(binary)], timeout=20).text if shutil.which("ldd") else ""
    match = re.search(r"librocksdb\S* => (\S+)", loaded)
    return Path(os.path.realpath(match[1])) if match else binary.resolve()
