"""Files that are written whole or not at all, so that a reader never sees half of one."""

from __future__ import annotations

from pathlib import Path

import msgspec

__all__ = ("write_json", "write_whole")


def write_whole(path: Path, data: bytes) -> None:
    """Puts `data` into `path`, by way of a file `<name>.part` beside it."""
    partial = path.with_name(path.name + ".part")
    partial.write_bytes(data)
    partial.replace(path)


def write_json(path: Path, value: object) -> None:
    """A record, for people to read as well."""
    write_whole(path, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
