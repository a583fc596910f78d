"""Files that are written whole or not at all, so that a reader never sees half of one, and how they are read.

A run may come from somebody else: a file of it may be damaged, of any size, or no file at all.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from ground.errors import MeasurementError, UsageError, error_of_system
from ground.text.units import format_bytes

_T = TypeVar("_T")

# A day of counters by second is 60 MB, the stacks of a long profile less.
_LARGEST = 512 << 20


def write_whole(path: Path, data: bytes) -> None:
    """Puts `data` into `path`, by way of a new file beside it; what `path` was until then stays where that fails.

    HostError when the disk is full, MeasurementError when it cannot be written for another reason, UsageError where
    `path` is a device, a pipe or a directory.
    """
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is no regular file", means="a file would take its place")
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        # Left by a killed process that had our pid. Only a new file is written to: in a directory where others may
        # write, the name could be a link of theirs.
        partial.unlink(missing_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            partial.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                partial.unlink()
            raise
    except OSError as error:
        raise error_of_system(error, path) from None


def write_json(path: Path, value: object) -> None:
    """A record, for people to read as well. UsageError where a name in it is not UTF-8."""
    try:
        text = msgspec.json.encode(value)
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{error.object!r} is no UTF-8",
            means=f"{path.name} cannot hold it",
            mend="names of UTF-8 alone, and LC_ALL=C.UTF-8 where this host has no other locale of UTF-8",
        ) from None
    write_whole(path, msgspec.json.format(text, indent=2) + b"\n")


def check_new(path: Path, what: str, mend: str) -> None:
    """UsageError when there is something of that name, be it a link to nothing."""
    if os.path.lexists(path):
        raise UsageError(
            f"{what} is there already", means="a file is overwritten only where that is asked for", mend=mend
        )


def check_readable(path: Path) -> Path:
    """`path`, for a program of ours that is to read it. Errors as `read_whole` has them."""
    with _opened(path):
        return path


def check_lines(path: Path) -> Path:
    """As `check_readable`, for text of lines that all end: a figure in one that does not may lack its last digits."""
    with _opened(path) as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                raise MeasurementError(f"{path} is cut short: its last line does not end")
        return path


def read_whole(path: Path) -> bytes:
    """The bytes of a file. MeasurementError when it cannot be read, is no regular file, or is too large for a run's."""
    with _opened(path) as file:
        return file.read()


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        # A pipe would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise MeasurementError(f"{path} is no regular file", means="it is not read")
            if status.st_size > _LARGEST:
                raise MeasurementError(
                    f"{path} holds {format_bytes(status.st_size)}",
                    means=f"no file of a run is above {format_bytes(_LARGEST)}; it is not read",
                )
            yield file
    except OSError as error:
        raise MeasurementError(f"{path} cannot be read: {error.strerror}") from None


def file_sha256(path: Path) -> str:
    """Of a file of any size. OSError where it cannot be read."""
    import hashlib  # OpenSSL takes as long to load as msgspec

    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def read_text(path: Path) -> str:
    """The text of a log, UTF-8 or not. Errors as `read_whole` has them."""
    return read_whole(path).decode("utf-8", "replace")


def read_toml(path: Path) -> dict[str, Any]:
    """OSError, or ValueError for a file that is no TOML: tomllib has no bound of its own on how deep values nest."""
    from ground.text.toml import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("its values are nested too deep") from None


def read_json(path: Path, form: type[_T], what: str = "") -> _T:
    """A result file; `what` names its form for people. MeasurementError when it is missing, of another form, or of
    another schema than the form's default says; files of ioflame 0.1.0 without a schema are of the first."""
    try:
        found = msgspec.json.decode(read_whole(path), type=form)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise MeasurementError(f"{path} is not {what or f'a file of {form.__name__}'}: {error}") from None
    known = getattr(form, "schema", None)
    if isinstance(known, int) and found.schema != known:  # type: ignore[attr-defined]
        raise MeasurementError(f"{path} has schema {found.schema}; this ioflame reads schema {known}")  # type: ignore[attr-defined]
    return found


def read_json_text(path: Path) -> str:
    """A file of JSON, whatever its form, as it is written. MeasurementError where it is missing or no JSON."""
    read_json(path, object, "JSON")
    return read_text(path)


def json_reader(form: type[_T], what: str = "") -> Callable[[Path], _T]:
    """Reads files of one form, as `read_json` does."""
    return functools.partial(read_json, form=form, what=what)
