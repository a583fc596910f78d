"""LMDB through our own client, which prints what `mdb_env_stat` and `mdb_env_info` say."""

from __future__ import annotations

from pathlib import Path

from ground.errors import MeasurementError
from workloads.build import EngineBuild
from workloads.engine import Engine, EngineResult, LevelSize, Tree
from workloads.our_client import inspected, lines_of, result_of
from workloads.scales import DatabaseShape
from workloads.steps import StepParameters

# A page of a leaf is half full at worst; pages that are freed are used again only later.
_MAP_TO_DATA = 4
_SMALLEST_MAP = 64 << 20


class LMDB(Engine):
    """LMDB 0.9."""

    def inspect(self, binary: Path) -> EngineBuild:
        return inspected(self, binary, "mdb_")

    def placeholders(self, parameters: StepParameters) -> dict[str, object]:
        map_size = max(_SMALLEST_MAP, parameters.sizing.shape.data_bytes * _MAP_TO_DATA) >> 20 << 20
        return {**super().placeholders(parameters), "map_size": map_size}

    def shape_flags(self, shape: DatabaseShape) -> dict[str, object]:
        return {}  # it has pages of 4 KiB, and neither blocks nor filters nor compression

    def parse_tree(self, log: str) -> Tree:
        stated = lines_of(log, "lmdb")
        if not stated:
            raise MeasurementError(
                f"{self.about.client} printed no tree",
                means=f"its state is unknown. Its last output: {log.strip()[-300:] or 'none'}",
            )
        # One file, with the pages in use: no level lies above another.
        pages = stated[-1]["last_page"] + 1
        return Tree([LevelSize(1, 1, pages * stated[-1]["page_size"] >> 20)], 0)

    def parse_result(self, log: str, workload: str) -> EngineResult | None:
        return result_of(log, self.step(workload).benchmarks.partition(",")[0])

    def compacted_gb(self, log: str) -> float | None:
        return 0.0 if lines_of(log, "lmdb") else None  # nothing is ever compacted

    def is_database_file(self, name: str) -> bool:
        return name in ("data.mdb", "lock.mdb")


ENGINE = LMDB
