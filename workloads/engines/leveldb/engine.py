"""LevelDB through our own client: its tables are those of the property `leveldb.stats`."""

from __future__ import annotations

import re
from pathlib import Path

from ground.errors import MeasurementError
from ground.results.stored_files import StoredFiles
from workloads.build import EngineBuild
from workloads.engine import Engine, EngineResult, LevelSize, Tree
from workloads.engines.rocksdb.stored_files import Form, read_database_files
from workloads.engines.rocksdb.window_files import files_of_window
from workloads.our_client import inspected, result_of, totals_of
from workloads.scales import DatabaseShape
from workloads.tables import last_table

_DATABASE_FILE = re.compile(r"\d+\.(ldb|sst|log|dbtmp)|MANIFEST-\d+|CURRENT|LOCK|LOG(\.old)?")
_LEVELS = ("Level", "Files", "Size(MB)", "Write(MB)")


class LevelDB(Engine):
    """LevelDB 1.20 and later."""

    def inspect(self, binary: Path) -> EngineBuild:
        return inspected(self, binary, "_ZN7leveldb")

    def shape_flags(self, shape: DatabaseShape) -> dict[str, object]:
        return {"compression_type": shape.compression, "bloom_bits": shape.bloom_bits}

    def parse_tree(self, log: str) -> Tree:
        if not re.search(r"^Level +Files +Size\(MB\)", log, re.MULTILINE):
            raise MeasurementError(
                f"{self.about.client} printed no level table",
                means=f"the state of the LSM tree is unknown. Its last output: {log.strip()[-300:] or 'none'}",
            )
        levels = [LevelSize(int(r["Level"]), int(r["Files"]), int(r["Size(MB)"])) for r in last_table(log, *_LEVELS)]
        # It empties its memtable as it opens: what the log holds becomes a file in L0.
        return Tree([level for level in levels if level.files], 0)

    def parse_result(self, log: str, workload: str) -> EngineResult | None:
        return result_of(log, self.step(workload).benchmarks.partition(",")[0])

    def compacted_gb(self, log: str) -> float | None:
        if "Write(MB)" not in log:
            return None
        return sum(float(row["Write(MB)"]) for row in last_table(log, *_LEVELS)) / 1024

    def statistics(self, log: str) -> dict[str, float]:
        written = self.compacted_gb(log)
        return {} if written is None else {"compacted_gb": written}

    own_log = "LOG"

    def thread_totals(self, log: str) -> dict[int, list[tuple[float, int]]]:
        return totals_of(log)

    def is_database_file(self, name: str) -> bool:
        return _DATABASE_FILE.fullmatch(name) is not None

    def stored_files(self, directory: Path) -> StoredFiles:
        return read_database_files(directory, self._form())

    def stored_files_of_window(self, before: StoredFiles, after: StoredFiles) -> StoredFiles:
        return files_of_window(before, after, self._form())

    def _form(self) -> Form:
        return Form(self.about.file_kinds, "", "ldb")  # it has no column families


ENGINE = LevelDB
