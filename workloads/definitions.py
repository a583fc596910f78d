"""Steps, workloads and configurations that a user wrote: checked before anything runs.

gflags ignores words that are no flag in silence, so a typing error would measure another workload: each flag is a name
with a value, and nothing else reaches the client's command line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ground.errors import RefusedError, UsageError
from workloads.steps import Step

_HOLDS = {
    str: "text", bool: "true or false", float: "a number with a point", int: "a whole number", dict: "a table of flags",
}  # fmt: skip
# What only an engine's steps have, and only its workloads.
_OF_STEPS = {"changes_tree", "rewrites", "settles"}
_OF_WORKLOADS = {"levels", "filters", "writes", "write_rate", "compacts", "missing_keys"}
_STEP: dict[str, type] = {one.name: one.type for one in msgspec.structs.fields(Step)} | {"like": str, "flags": dict}
# The kinds of definition, each with its keys and the types of what they hold.
KINDS: dict[str, dict[str, type]] = {
    "step": {name: kind for name, kind in _STEP.items() if name not in _OF_WORKLOADS},
    "workload": {name: kind for name, kind in _STEP.items() if name not in _OF_STEPS},
    "configuration": {"about": str, "block_align": bool, "cache": str, "flags": dict},
}
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_BENCHMARKS = re.compile(r"[a-z0-9]+(,[a-z0-9]+)*")
_CHOICES = {"levels": ("any", "several", "one"), "filters": ("any", "unused"), "cache": ("all",)}


def check_definition(kind: str, name: str, definition: Any, known: Mapping[str, Any]) -> None:
    """UsageError naming what is wrong with a definition. known: all of its kind, for `like`."""
    where = f"[{kind}.{name}]"
    if not _NAME.fullmatch(name) or not isinstance(definition, dict):
        raise _wrong(where, "a name of small letters, digits and _, and a table")
    for key, value in definition.items():
        if key not in KINDS[kind]:
            raise _wrong(where, f"no {key!r}; it has {', '.join(KINDS[kind])}")
        if not isinstance(value, KINDS[kind][key]):
            raise _wrong(where, f"{key} = {_HOLDS[KINDS[kind][key]]}, not {value!r}")
        if key in _CHOICES and value not in _CHOICES[key]:
            raise _wrong(where, f"{key} = {' or '.join(_CHOICES[key])}, not {value!r}")
    if "about" not in definition:
        raise _wrong(where, "about = a line on what it is")
    like = definition.get("like")
    if like is not None and (like not in known or name in _ancestors(like, known)):
        raise _wrong(where, f"like = one of {', '.join(sorted(known))} that is not like itself, not {like!r}")
    if kind != "configuration" and like is None and not {"benchmarks", "flags"} <= definition.keys():
        raise _wrong(where, "benchmarks and flags, or `like` another")
    if not _BENCHMARKS.fullmatch(definition.get("benchmarks", "x")):
        raise _wrong(where, f"benchmarks = names parted by commas, not {definition['benchmarks']!r}")
    for flag, value in definition.get("flags", {}).items():
        plain = isinstance(value, bool | int | float) or (isinstance(value, str) and not re.search(r"\s", value))
        if not _NAME.fullmatch(flag) or not plain:
            raise _wrong(where, f"flags as names with plain values, not {flag} = {value!r}")


def _ancestors(name: str, known: Mapping[str, Any]) -> list[str]:
    """`name`, what it is like, and so on, each once."""
    found: list[str] = []
    while name in known and name not in found:
        found.append(name)
        name = known[name].get("like", "") if isinstance(known[name], dict) else ""
    return found


def _wrong(where: str, wanted: str) -> UsageError:
    return RefusedError(
        f"{where} needs {wanted}",
    )
