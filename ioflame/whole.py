"""Files that are written whole or not at all, so that a reader never sees half of one, and how they are read."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from ioflame.errors import MeasurementError

__all__ = ("read_json", "write_json", "write_whole")

_T = TypeVar("_T")


def write_whole(path: Path, data: bytes) -> None:
    """Puts `data` into `path`, by way of a file `<name>.part` beside it."""
    partial = path.with_name(path.name + ".part")
    partial.write_bytes(data)
    partial.replace(path)


def write_json(path: Path, value: object) -> None:
    """A record, for people to read as well."""
    write_whole(path, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def read_json(path: Path, form: type[_T], what: str = "") -> _T:
    """A result file; `what` names its form for people. MeasurementError when it is missing or of another form."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=form)
    except OSError as error:
        raise MeasurementError(f"{path} cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise MeasurementError(f"{path} is not {what or f'a file of {form.__name__}'}: {error}") from None
