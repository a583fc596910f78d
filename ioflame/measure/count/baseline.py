"""An earlier count as the base of a new one, where both were counted alike."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from ground.errors import UsageError
from ground.results.counted import BASELINE, CountRecord, read_count
from ground.settings import Setting


@dataclass(frozen=True)
class Baseline:
    """The first arm of an earlier count. directory: that may have kept its trees"""

    record: CountRecord
    directory: Path

    def other_trees(self, record: CountRecord) -> list[str]:
        """Of `record`, those that are not the baseline's."""
        return [name for name, tree in record.trees.items() if self.record.trees.get(name, tree) != tree]

    def before(self, record: CountRecord) -> CountRecord:
        """`record` with the baseline's arm before its own; operations that only one of them has stay the one's."""
        first = self.record.arms[0]
        operations = {}
        for name, found in record.operations.items():
            earlier = self.record.operations.get(name)
            both = {BASELINE: earlier.arms[first.name], **found.arms} if earlier else found.arms
            operations[name] = msgspec.structs.replace(found, arms=both)
        arms = [msgspec.structs.replace(first, name=BASELINE), *record.arms]
        return msgspec.structs.replace(record, arms=arms, operations=operations)


def with_baseline(path: Path, record: CountRecord) -> Baseline:
    """UsageError where the count at `path` depends on other things than `record` does."""
    found = read_count(path)
    wanted = {**record.depends_on, "engine": record.engine, "paddings": str(record.paddings)}
    had = {**found.depends_on, "engine": found.engine, "paddings": str(found.paddings)}
    differing = [f"{name} {had.get(name)}, now {value}" for name, value in wanted.items() if had.get(name) != value]
    if differing:
        raise UsageError(
            f"--baseline {path} was counted with another {'; another '.join(differing)}",
            means="the difference would be of these as well; nothing was started",
            mend=f"count the base here, beside the new one: {Setting.ROCKSDB.to('<base>,<new>')}",
        )
    return Baseline(found, path if path.is_dir() else path.parent)
