"""What `ioflame count` counts of an engine: trees, and operations on them, as its `counted.toml` lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from ground.errors import RefusedError, UsageError
from ground.results.counted import REPEATS_WITHIN
from ground.settings import Setting
from ground.system.atomic_files import read_toml
from ground.text.ranges import choice
from workloads.steps import flag_value

_FILE = "counted.toml"
# The client's function that makes one call of the engine; what it counts besides is on docs/counting.md.
_ONE_CALL = "ioflame_client::worker::Operations::call"
_Flag = int | float | str | bool


class _Tree(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    about: str
    benchmarks: str = ""
    flags: dict[str, _Flag] = {}
    like: str = ""


class CountedOperation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An operation and how it is counted.

    tree:       that it works on a copy of; "" for an empty directory
    benchmarks: of the client, the last is counted
    root:       the function below which is counted, be it in a thread of the engine's
    per:        what a figure is divided by
    operations: how many there are; 0 where the client says so itself
    view:       of the engine's rules, which sorts it best
    workloads:  of the engine, which do this operation
    repeats_within: the part by which two counts with one padding may differ
    """

    name: str
    about: str
    tree: str = ""
    benchmarks: str = ""
    flags: dict[str, _Flag] = {}
    root: str = _ONE_CALL
    per: Literal["operation", "record"] = "operation"
    operations: int = 0
    view: str = "owner"
    workloads: list[str] = []
    repeats_within: float = REPEATS_WITHIN
    like: str = ""

    @property
    def counted_benchmark(self) -> str:
        return self.benchmarks.rpartition(",")[2]


class CountedPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """flags: of every command; on_tree: of operations on one; tree: by name; operation: in their order"""

    flags: dict[str, _Flag]
    on_tree: dict[str, _Flag]
    tree: dict[str, _Tree]
    operation: list[CountedOperation]

    def of(self, names: Sequence[str]) -> list[CountedOperation]:
        """Those of these names, all of them where none is named; UsageError for one that is not known."""
        known = {one.name: one for one in self.operation}
        for name in names:
            choice("--operation", name, known)
        return [_like(known, one) for one in self.operation if not names or one.name in names]

    def of_workload(self, workload: str) -> list[str]:
        """Names of the operations that it does; UsageError where none of them does what it does."""
        found = [one.name for one in self.operation if workload in one.workloads]
        if not found:
            raise RefusedError(
                f"none of the operations that are counted does what {workload} does",
                mend=f"--operation {'|'.join(one.name for one in self.operation)}",
            )
        return found

    def tree_words(self, name: str) -> list[str]:
        """Of the client, which make it; the first is --benchmarks."""
        tree = _like(self.tree, self.tree[name])
        return _words(tree.benchmarks, {**self.flags, **tree.flags})

    def operation_words(self, operation: CountedOperation) -> list[str]:
        tree = {**_like(self.tree, self.tree[operation.tree]).flags, **self.on_tree} if operation.tree else {}
        return _words(operation.benchmarks, {**self.flags, **tree, **operation.flags})


_Of = TypeVar("_Of", _Tree, CountedOperation)


def _like(known: Mapping[str, _Of], one: _Of) -> _Of:
    """With what it lacks taken from the one it is like; flags are added to those of the other."""
    if not one.like:
        return one
    base = _like(known, known[one.like])
    # What was left out is not among the builtins.
    own = {**msgspec.to_builtins(one), "flags": {**base.flags, **one.flags}, "like": ""}
    return msgspec.structs.replace(base, **own)


def _words(benchmarks: str, flags: Mapping[str, object]) -> list[str]:
    """Options of the client."""
    return [f"--benchmarks={benchmarks}", *(f"--{name}={flag_value(value, {})}" for name, value in flags.items())]


def counted_plan(engine: str, folder: Path) -> CountedPlan:
    """Of the engine in `folder`; UsageError where nothing of it can be counted."""
    path = folder / _FILE
    if not path.exists():
        raise UsageError(f"{Setting.ENGINE.to(engine)}: it is not known which of its operations could be counted")
    return msgspec.convert(read_toml(path), CountedPlan)
