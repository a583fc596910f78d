"""RocksDB through db_bench. What that prints is read by the words it prints: tables by header, figures by name."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from ground.errors import HostError, MeasurementError
from ground.results.jobs import Jobs
from ground.results.stored_files import StoredFiles
from ground.settings import Setting
from ground.system.process import capture
from ground.system.scratch import scratch_directory
from workloads.build import EngineBuild
from workloads.elf import exports, frame_pointer_share, symbol_kind
from workloads.engine import Engine, EngineResult, LevelSize, Tree
from workloads.engines.rocksdb.log_jobs import read_jobs
from workloads.engines.rocksdb.mixgraph import closing_figures, flags_of, hit_rate
from workloads.engines.rocksdb.options import newest_options
from workloads.engines.rocksdb.statistics import in_windows, level_writes, size_gib, statistics, written_by_events
from workloads.engines.rocksdb.stored_files import Form, read_database_files
from workloads.engines.rocksdb.window_files import files_of_window
from workloads.libraries import Library
from workloads.our_client import inspected, result_of, totals_of
from workloads.scales import DatabaseShape
from workloads.steps import StepParameters
from workloads.tables import last_table

_ASSERTIONS = "Assertions are enabled"

# gflags: `    -num (Number of key/values to place in database) type: int64`
_HELP_FLAG = re.compile(r"^ {4}-(\w+) \(", re.MULTILINE)
_DATABASE_FILE = re.compile(
    r"\d+\.(sst|log|blob)|MANIFEST-\d+|OPTIONS-\d+(\.dbtmp)?|CURRENT|IDENTITY|LOCK|LOG(\.old\.\d+)?|\d+\.dbtmp"
)
_MEMTABLE_ENTRIES = re.compile(r"^rocksdb\.num-entries-(?:active-mem-table|imm-mem-tables): (\d+)$", re.MULTILINE)
# `readrandom   :   87.537 micros/op 11423 ops/sec 8.053 seconds 91999 operations;    4.6 MB/s (91999 of 91999 found)`
_RESULT = (
    r"^{workload}\s*:\s+(?P<micros_per_op>[\d.]+) micros/op (?P<ops_per_second>\d+) ops/sec "
    r"(?P<seconds>[\d.]+) seconds (?P<operations>\d+) operations;(?:\s*(?P<mb_per_second>[\d.]+) MB/s)?"
    r"(?:.*\((?P<found>\d+) of (?P<reads>\d+) found\))?"
)
_MAXIMUM = re.compile(r"^Min: .*\bMax: ([\d.]+)$", re.MULTILINE)
_PERCENTILES = re.compile(r"^Percentiles: (.+)$", re.MULTILINE)
# `... thread 0: (5000,24000) ops and (3759.3,4289.0) ops/second in (1.064038,5.595727) seconds`
_THREAD = re.compile(r"\.\.\. thread (\d+): \(\d+,(\d+)\) ops and .* in \([\d.]+,([\d.]+)\) seconds$", re.MULTILINE)
_QUERIES = "interval_qps"
# rocksdb::SyncPoint::Process, which a build without assertions does not have. That a library asks for __assert_fail may
# be due to what is bundled in it.
_SYNC_POINT = "_ZN7rocksdb9SyncPoint7Process"
# The function, and the first version that has it.
_MULTI_GET = ("rocksdb_batched_multi_get_cf", "7.3.1")
# LOG's lines on what it uses of the CPU.
_HARDWARE = re.compile(r"\b(Fast CRC32 supported): (.+)$", re.MULTILINE)
# `compress`: how large its output is.
_OUTPUT = re.compile(r"\(output: ([\d.]+)%\)")


class RocksDB(Engine):
    """RocksDB 7 and later, by its db_bench or by our client: statistics and tables are RocksDB's own, and the same."""

    def inspect(self, binary: Path) -> EngineBuild:
        if self.by_our_client:
            return inspected(self, binary, hardware=_hardware)
        with scratch_directory() as scratch:
            argv = [str(binary), "--benchmarks=fillseq", "--num=1", "--compression_type=none", f"--db={scratch}/db"]
            done = capture(argv, timeout=60)
            own_log = Path(scratch, "db", self.own_log)
            said = own_log.read_text(encoding="utf-8", errors="replace") if own_log.exists() else ""
        output = done.text + done.errors
        version = re.search(r"RocksDB:\s+version (\S+)", output)
        if done.returncode != 0 or version is None:
            raise HostError(
                f"{binary} did not run a one-operation job: exit code {done.returncode}, its output: "
                f"{output.strip()[-600:] or 'none'}",
                means="it is not a db_bench, or this machine lacks a library it needs",
                mend=f"ldd {shlex.quote(str(binary))}; {shlex.join(argv[:-1])} --db=$(mktemp -d)",
            )
        warnings = tuple(dict.fromkeys(re.findall(r"^WARNING: (.+)$", output, re.MULTILINE)))
        code = _code_file(binary)
        flags = frozenset(_HELP_FLAG.findall(capture([str(binary), "--help"], timeout=60).text))
        return EngineBuild(
            path=binary,
            version=version[1],
            assertions=any(_ASSERTIONS in warning for warning in warnings),
            symbols=symbol_kind(code),
            frame_pointers=frame_pointer_share(code),
            code=code,
            warnings=tuple(warning for warning in warnings if _ASSERTIONS not in warning),
            flags=flags,
            left_out=self.left_out(flags),
            hardware=_hardware(said),
        )

    def inspect_library(self, binary: Path, library: Library) -> EngineBuild:
        build = inspected(self, binary, library=library, hardware=_hardware)
        lacks = {} if exports(build.code, _MULTI_GET[0]) else {"multiread": _MULTI_GET[1]}
        return replace(build, assertions=exports(build.code, _SYNC_POINT), lacks=lacks)

    def placeholders(self, parameters: StepParameters) -> dict[str, object]:
        return {**super().placeholders(parameters), "overwrite_buffer": _overwrite_buffer(parameters.sizing.shape)}

    def shape_flags(self, shape: DatabaseShape) -> dict[str, object]:
        return {
            "block_align": shape.block_align,
            "compression_type": shape.compression,
            "bloom_bits": shape.bloom_bits,
        }

    def parse_tree(self, log: str) -> Tree:
        levels = last_table(log, "Level", "Files", "Size(MB)")
        if not levels:
            raise MeasurementError(
                f"{self.about.client} printed no level table",
                means=f"the state of the LSM tree is unknown; this {self.about.client} does not know `levelstats`, or "
                f"prints it in another form. Its last output: {log.strip()[-300:] or 'none'}",
                mend=Setting.DB_BENCH.to(f"<{self.about.versions}>"),
            )
        sizes = [LevelSize(int(row["Level"]), int(row["Files"]), int(row["Size(MB)"])) for row in levels]
        # `memstats` is printed before `levelstats`: the last two lines are of the same moment.
        entries = [int(count) for count in _MEMTABLE_ENTRIES.findall(log)[-2:]]
        return Tree([level for level in sizes if level.files], sum(entries) if entries else None)

    def compacted_gb(self, log: str) -> float | None:
        return self.statistics(log).get("compacted_gb")

    def thread_totals(self, log: str) -> dict[int, list[tuple[float, int]]]:
        if self.by_our_client:
            return totals_of(log)
        found: dict[int, list[tuple[float, int]]] = {}
        for thread, operations, seconds in _THREAD.findall(log):
            found.setdefault(int(thread), []).append((float(seconds), int(operations)))
        return found

    own_log = "LOG"

    def figures(self, log: str, step: str, db_dir: Path) -> dict[str, float]:
        own = db_dir / self.own_log
        said = own.read_text(encoding="utf-8", errors="replace") if own.exists() else ""
        found = {**written_by_events(said), **closing_figures(log), **super().figures(log, step, db_dir)}
        if (size := size_gib(log)) is not None:
            found["size_gb"] = size
        if {"compacted_gb", "flushed_gb"} <= found.keys():
            found["sum_gb"] = _written_gb(found)
        if "operations" in found and self.step(step).benchmarks.startswith(("fill", "overwrite")):
            found["puts"] = found["operations"]
        elif self.step(step).write_rate and (writer := self.thread_totals(log).get(0)):
            found["puts"] = writer[-1][1]
        below = [row for row in level_writes(log) if row.level not in ("L0", "Sum")]
        found["below_l0.moved_gb"] = sum(row.moved_gb for row in below)
        found |= {f"hardware.{name}": float(value.startswith("Supported")) for name, value in _hardware(said).items()}
        if output := _OUTPUT.search(log):
            found["output_percent"] = float(output[1])
        return found

    def predicted(self, argv: Sequence[str], data_bytes: int) -> dict[str, float]:
        flags = flags_of(argv)
        if not data_bytes or not flags.get("benchmarks", "").startswith("mixgraph"):
            return {}
        found = {"cache_percent": 100 * int(flags["cache_size"]) / data_bytes}
        simulated = hit_rate(flags, data_bytes)
        return found if simulated is None else {**found, "lru_hit_percent": simulated}

    def in_windows(self, own_log: str, windows: Sequence[tuple[float, float]]) -> list[dict[str, float]]:
        return in_windows(own_log, windows)

    def statistics(self, log: str) -> dict[str, float]:
        return statistics(log)

    def parse_result(self, log: str, workload: str) -> EngineResult | None:
        benchmark = self.step(workload).benchmarks.partition(",")[0]
        if self.by_our_client:
            return result_of(log, benchmark)
        match = re.search(_RESULT.format(workload=re.escape(benchmark)), log, re.MULTILINE)
        if match is None:
            return None
        mixed = {name: int(v) for name, v in closing_figures(log).items() if name in ("found", "reads")}
        return msgspec.convert({**match.groupdict(), **_last_percentiles(log), **mixed}, EngineResult, strict=False)

    @property
    def report_column(self) -> str:
        return super().report_column if self.by_our_client else _QUERIES

    def stored_settings(self, db_dir: Path) -> dict[str, str]:
        parser = newest_options(db_dir)
        if parser is None:
            return {}
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
            "compression": {
                "none": "kNoCompression",
                "lz4": "kLZ4Compression",
                "zstd": "kZSTD",
                "snappy": "kSnappyCompression",
            }[shape.compression],
            "filter_policy": f"bloomfilter:{shape.bloom_bits}" if shape.bloom_bits > 0 else "nullptr",
        }

    def is_database_file(self, name: str) -> bool:
        return _DATABASE_FILE.fullmatch(name) is not None

    def stored_files(self, directory: Path) -> StoredFiles:
        return read_database_files(directory, self._form())

    def stored_files_of_window(self, before: StoredFiles, after: StoredFiles) -> StoredFiles:
        return files_of_window(before, after, self._form())

    def jobs(self, directory: Path, begin: float, end: float) -> Jobs | None:
        return read_jobs(directory, begin, end)

    def _form(self) -> Form:
        return Form(self.about.file_kinds, "default", "sst")


def _hardware(log: str) -> dict[str, str]:
    return dict(_HARDWARE.findall(log))


def _written_gb(stated: Mapping[str, float]) -> float:
    """What flushes and compactions wrote; flushes are part of it, and are printed with one digit more."""
    return max(stated["compacted_gb"], stated["flushed_gb"])


def _last_percentiles(log: str) -> dict[str, str]:
    """`p50`, `p99_9` and the others of the last latency histogram, its maximum as `pmax`; empty where none is whole."""
    lines, maxima = _PERCENTILES.findall(log), _MAXIMUM.findall(log)
    if not lines or not maxima:
        return {}
    named = re.findall(r"(P[\d.]+): ([\d.]+)", lines[-1])
    return {**{name.lower().replace(".", "_"): value for name, value in named}, "pmax": maxima[-1]}


def _overwrite_buffer(shape: DatabaseShape) -> int:
    """Bytes of a memtable, so that overwriting a tenth of the keys fills at least eight; within 1 to 16 MiB."""
    return max(1 << 20, min(16 << 20, shape.data_bytes // 10 // 8))


def _canonical(name: str, value: str) -> str:
    # 6.29 names the class and not its bits. 7.8 writes `bloomfilter:10:false`, later versions `bloomfilter:10`: compare
    # what they share.
    if value == "rocksdb.BuiltinBloomFilter":
        return "not stated"
    return ":".join(value.split(":")[:2]) if name == "filter_policy" else value


def _code_file(binary: Path) -> Path:
    """The shared librocksdb that `binary` loads, or `binary` itself when it is linked statically."""
    loaded = capture(["ldd", str(binary)], timeout=20).text if shutil.which("ldd") else ""
    match = re.search(r"librocksdb\S* => (\S+)", loaded)
    return Path(os.path.realpath(match[1])) if match else binary.resolve()


ENGINE = RocksDB
