"""The database of a run, or the files of a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from ground.results.ranges import Count

# The record has every value as text, as it has those of options and tools: `"20000"`, `"true"`.
_WHOLE = ("num_keys", "data_bytes", "cache_size", "memtable_entries", "l0_files", "memory_limit")
_TRUTH = {"true": True, "false": False}


@dataclass
class DatabaseFacts:
    """What is known of a database; None for what is not. Of a target there are `description` and `device` alone.

    directory:    where it is; device: the block device below it, or `none`
    num_keys, data_bytes: as loaded, keys and values before compression
    cache_size:   of the engine's cache, bytes
    levels:       files and bytes of each level before the workload; "" for an empty tree
    memtable_entries: that were not flushed; None where the engine does not state it
    configuration: by name; cached: the data fit into the engine's cache; direct: read with O_DIRECT
    l0_files:     of level 0, whose files each query may look into
    description:  in words
    page_cache:   what was done to it; None where nothing was
    memory_limit: of the workload's control group, bytes
    levels_after: as `levels`, after the workload
    """

    directory: str | None = None
    device: str | None = None
    num_keys: Count | None = None
    data_bytes: Count | None = None
    cache_size: Count | None = None
    levels: str | None = None
    memtable_entries: Count | None = None
    configuration: str | None = None
    cached: bool | None = None
    direct: bool | None = None
    l0_files: Count | None = None
    description: str | None = None
    page_cache: str | None = None
    memory_limit: Count | None = None
    levels_after: str | None = None

    def as_text(self) -> dict[str, str]:
        """What is known, as the record has it: in the order of the fields; of a target the description is first."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        if self.directory is None:
            found = {"description": self.description, **found}
        return {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in found.items()
            if value is not None
        }

    @classmethod
    def of_text(cls, text: Mapping[str, str]) -> DatabaseFacts:
        """The other way round. ValueError for a text that is no such value; names that are not known are passed by."""
        known: dict[str, Any] = {one.name: _value(one.name, text[one.name]) for one in fields(cls) if one.name in text}
        return cls(**known)


def _value(name: str, text: str) -> str | int | bool:
    if name in ("cached", "direct"):
        if text not in _TRUTH:
            raise ValueError(f"database.{name} is {text!r}, neither true nor false")
        return _TRUTH[text]
    if name not in _WHOLE:
        return text
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"database.{name} is {text!r}, no whole number")
    return int(text)
