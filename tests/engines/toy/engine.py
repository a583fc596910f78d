"""The least that an engine needs."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from ground.errors import MeasurementError
from ground.system.process import capture
from workloads.build import EngineBuild
from workloads.elf import frame_pointer_share, symbol_kind
from workloads.engine import Engine, EngineResult, LevelSize, Tree
from workloads.scales import DatabaseShape
from workloads.steps import StepParameters


class Toy(Engine):
    """One file of blocks."""

    def shape_flags(self, shape: DatabaseShape) -> dict[str, object]:
        return {"block_size": shape.block_size}

    def placeholders(self, parameters: StepParameters) -> dict[str, object]:
        return {**super().placeholders(parameters), "data_bytes": parameters.sizing.shape.data_bytes}

    def inspect(self, binary: Path) -> EngineBuild:
        version, flags = capture([str(binary), "--help"], timeout=20).text.splitlines()
        return EngineBuild(
            path=binary,
            version=version.split()[1],
            assertions=False,
            symbols=symbol_kind(binary),
            frame_pointers=frame_pointer_share(binary),
            code=binary,
            warnings=(),
            flags=frozenset(flags.replace("--", "").split()),
            left_out={},
        )

    def parse_tree(self, log: str) -> Tree:
        found = re.findall(r"^tree: bytes=(\d+) files=(\d+)$", log, re.MULTILINE)
        if not found:
            raise MeasurementError("toy_bench printed no tree")
        return Tree([LevelSize(1, int(found[-1][1]), int(found[-1][0]) >> 20)], 0)

    def parse_result(self, log: str, workload: str) -> EngineResult | None:
        match = re.search(r"^get: (\d+) gets, (\d+) found, (\d+) s$", log, re.MULTILINE)
        if match is None:
            return None
        gets, found, seconds = map(int, match.groups())
        return EngineResult(seconds * 1e6 / gets, gets / seconds, seconds, gets, found, gets)

    def parse_report(self, text: str) -> list[int]:
        return [int(row["gets"]) for row in csv.DictReader(text[: text.rfind("\n") + 1].splitlines())]

    def compacted_gb(self, log: str) -> float | None:
        match = re.search(r"^tidied: ([\d.]+) GB$", log, re.MULTILINE)
        return float(match[1]) if match else None

    def is_database_file(self, name: str) -> bool:
        return name.endswith(".toy")


ENGINE = Toy
