"""`counted.json`: how many instructions operations take, arm by arm, as `ioflame count` counted them."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import msgspec

from ground.results.ranges import Amount, Count
from ground.results.study import StudyRun

# Where the trees are kept that its operations worked on copies of.
TREES = "trees"
# Two counts with one padding, of what the main thread does.
REPEATS_WITHIN = 1e-4
# The arm that an earlier count gives.
BASELINE = "baseline"


class Event(str, enum.Enum):
    """What is counted; mispredictions are those of a simulated predictor."""

    INSTRUCTIONS = "instructions"
    MISPREDICTIONS = "mispredictions"
    LOCKED = "locked instructions"
    ALLOCATIONS = "allocations"
    MUTEX_LOCKS = "mutex locks"
    SYSTEM_CALLS = "system calls"


class Category(msgspec.Struct):
    """events: by padding, as in `Counted`; those of instructions, mispredictions, locked instructions"""

    name: str
    label: str
    events: dict[Event, list[Count]] = {}


class Counted(msgspec.Struct):
    """An operation of an arm.

    operations: that the counts are of
    events:     counts, one a padding
    again:      instructions with the first padding, counted once more
    stored:     bytes of the data files afterwards
    views:      by name, the categories that the counts fall into, in the order of the rules
    lacks:      why it was not counted; "" where it was
    """

    operations: Count = 0
    events: dict[Event, list[Count]] = {}
    again: Count = 0
    stored: Count = 0
    views: dict[str, list[Category]] = {}
    lacks: str = ""


class OfOperation(msgspec.Struct):
    """arms: by name; view: of the categories that are shown

    repeats_within: the part by which two counts with one padding may differ
    """

    about: str
    per: str
    view: str
    arms: dict[str, Counted] = {}
    repeats_within: Amount = REPEATS_WITHIN


class CountedArm(msgspec.Struct):
    """tools: what a run records of its build"""

    name: str
    version: str
    tools: dict[str, str]


@dataclass
class CountRecord:
    """arms: the base first; depends_on: what counts depend on besides the engine; paddings: bytes of each, in order

    commands: by operation, how the first arm's was counted; seconds: that all took
    trees: by name, an id of the tree that was loaded; the cache's keys, and so its chains, are the tree's own
    """

    ioflame: str
    created: str
    engine: str
    depends_on: dict[str, str]
    paddings: list[Count]
    arms: list[CountedArm]
    operations: dict[str, OfOperation] = field(default_factory=dict)
    commands: dict[str, str] = field(default_factory=dict)
    trees: dict[str, str] = field(default_factory=dict)
    seconds: Amount = 0.0
    schema: int = 1


class CountRun(StudyRun[CountRecord]):
    """The directory of a count: its record, the trees, and the folded stacks of every operation and arm."""

    file = "counted.json"
    form = CountRecord
    what = "a count"
    kind = "count"

    @staticmethod
    def identity(record: CountRecord) -> dict[str, object]:
        return {**record.depends_on, "engine": record.engine, "paddings": record.paddings}

    def summary(self) -> tuple[str, str]:
        arms = ", ".join(arm.name for arm in self.record.arms)
        return f"{self.record.engine}: {arms}", f"counted: {', '.join(self.record.operations)}"
