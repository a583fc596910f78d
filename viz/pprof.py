"""Reads what a pprof file of `stackfold` knows beyond folded text: objects, threads and source lines.

The format is profile.proto of google/pprof: https://github.com/google/pprof/blob/main/proto/profile.proto. Only what a
report needs is read; other files are brought into this form by `stackfold` first.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ioflame.errors import MeasurementError
from ioflame.sizes import format_bytes
from ioflame.whole import read_whole
from viz.frames import printable

__all__ = ("Pprof", "Sample", "read_pprof")

# Field numbers of profile.proto.
_SAMPLE_TYPE, _SAMPLE, _MAPPING, _LOCATION, _FUNCTION, _STRING = range(1, 7)
# Hundreds of times what a profile of minutes holds. A few KB may unpack to gigabytes, and name one location of many
# lines a million times.
_MOST_BYTES = 256 << 20
_MOST_FRAMES = 20_000_000


@dataclass(frozen=True, slots=True)
class Sample:
    """One stack of one thread.

    frames:   root first, the command (comm) being the first, as folded text has them
    objects:  the object of each frame, "" where it is not known
    thread:   `comm/tid`, "" where the thread is not known
    """

    frames: tuple[str, ...]
    objects: tuple[str, ...]
    thread: str
    weight: int
    samples: int | None


@dataclass(frozen=True, slots=True)
class Pprof:
    """unit: of the weights, `ns` for nanoseconds; sources: `file:line` where a function (name, object) weighs most."""

    unit: str
    samples: list[Sample]
    sources: dict[tuple[str, str], str]


def read_pprof(path: Path) -> Pprof:
    """The profile in `path`; MeasurementError when it cannot be read or is none."""
    try:
        return _Reader(_unpacked(read_whole(path))).read()
    except OSError as error:  # gzip.BadGzipFile among them
        raise MeasurementError(f"{path} cannot be read: {error.strerror or error}") from None
    except (EOFError, zlib.error, IndexError, KeyError, ValueError, TypeError) as error:
        raise MeasurementError(f"{path} is no pprof profile, or is cut short: {error}") from None


def _unpacked(raw: bytes) -> bytes:
    if not raw.startswith(b"\x1f\x8b"):
        return raw
    with gzip.GzipFile(fileobj=io.BytesIO(raw)) as packed:
        data = packed.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"it unpacks to more than {format_bytes(_MOST_BYTES)}")
    return data


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: number, and a varint or the bytes of what has a length."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
        elif kind == 2:
            length, at = _varint(data, at)
            if at + length > end:
                raise ValueError("a field is longer than its message")
            yield tag >> 3, data[at : at + length]
            at += length
        elif kind in (1, 5):  # fixed width: profile.proto has none, but a reader must step over them
            at += 8 if kind == 1 else 4
        else:
            raise ValueError(f"wire type {kind}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _numbers(value: int | bytes) -> list[int]:
    """A repeated number, packed or one by one."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = _varint(value, at)
        found.append(number)
    return found


def _record(value: int | bytes) -> dict[int, int]:
    """A message of single numbers, by field."""
    return {field: number for field, number in _fields(_message(value)) if isinstance(number, int)}


def _message(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where a message belongs")
    return value


@dataclass(frozen=True, slots=True)
class _Line:
    """A frame of a location; source: `file:line`, "" where it is not known."""

    name: str
    object: str
    source: str


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._strings: list[str] = []
        self._types: list[dict[int, int]] = []
        self._samples: list[bytes] = []
        self._default = self._frames = 0
        mappings: dict[int, dict[int, int]] = {}
        functions: dict[int, dict[int, int]] = {}
        locations: list[bytes] = []
        for field, value in _fields(data):
            if field == _STRING:
                self._strings.append(printable(_message(value)))
            elif field == _SAMPLE:
                self._samples.append(_message(value))
            elif field == _SAMPLE_TYPE:
                self._types.append(_record(value))
            elif field == _LOCATION:
                locations.append(_message(value))
            elif field in (_MAPPING, _FUNCTION):
                record = _record(value)
                (mappings if field == _MAPPING else functions)[record[1]] = record
            elif field == 14 and isinstance(value, int):
                self._default = value
        objects = {number: self._text(record, 5) for number, record in mappings.items()}
        self._lines: dict[int, list[_Line]] = {}  # of each location, innermost first
        for location in locations:
            self._location(location, objects, functions)

    def read(self) -> Pprof:
        units = [self._text(one, 2) for one in self._types]
        if not units:
            raise ValueError("no sample types")
        names = [self._text(one, 1) for one in self._types]
        weighed = [i for i, unit in enumerate(units) if unit != "count"]
        default = self._strings[self._default] if self._default < len(self._strings) else ""
        weight = weighed[0] if len(weighed) == 1 else names.index(default) if default in names else 0
        counted = next(
            (
                i
                for i, (name, unit) in enumerate(zip(names, units, strict=True))
                if (name, unit) == ("samples", "count")
            ),
            None,
        )
        heaviest: dict[tuple[str, str], dict[str, int]] = {}
        samples = [self._sample(raw, weight, counted, heaviest) for raw in self._samples]
        sources = {key: max(lines, key=lambda line: (lines[line], line)) for key, lines in heaviest.items()}
        return Pprof({"nanoseconds": "ns", "count": "samples"}.get(units[weight], units[weight]), samples, sources)

    def _text(self, record: dict[int, int], field: int) -> str:
        return self._strings[record.get(field, 0)]

    def _location(self, raw: bytes, objects: dict[int, str], functions: dict[int, dict[int, int]]) -> None:
        number, mapping, lines = 0, 0, []
        for field, value in _fields(raw):
            if field == 1 and isinstance(value, int):
                number = value
            elif field == 2 and isinstance(value, int):
                mapping = value
            elif field == 4:
                lines.append(_record(value))
        made = []
        for line in lines:
            function = functions[line[1]]
            file, at = self._text(function, 4), line.get(2, 0)
            source = f"{file}:{at}" if file and at else file
            made.append(_Line(self._text(function, 2), objects.get(mapping, ""), source))
        self._lines[number] = made

    def _sample(
        self, raw: bytes, weight: int, counted: int | None, heaviest: dict[tuple[str, str], dict[str, int]]
    ) -> Sample:
        places: list[int] = []
        values: list[int] = []
        comm, tid = "", None
        for field, value in _fields(raw):
            if field == 1:
                places += _numbers(value)
            elif field == 2:
                values += _numbers(value)
            elif field == 3:
                label = _record(value)
                key = self._text(label, 1)
                if key == "comm":
                    comm = self._text(label, 2)
                elif key == "tid":
                    tid = label.get(3, 0)
        frames: list[str] = []
        objects: list[str] = []
        if comm:
            frames.append("".join("_" if char.isspace() else char for char in comm).replace(";", ":"))
            objects.append("")
        self._frames += sum(len(self._lines[place]) for place in places)
        if self._frames > _MOST_FRAMES:
            raise ValueError(f"its stacks have more than {_MOST_FRAMES:,} frames")
        for place in reversed(places):
            for line in reversed(self._lines[place]):
                frames.append(line.name or "[no name]")
                objects.append(line.object)
                if line.source:
                    lines = heaviest.setdefault((frames[-1], line.object), {})
                    lines[line.source] = lines.get(line.source, 0) + values[weight]
        return Sample(
            tuple(frames),
            tuple(objects),
            f"{frames[0]}/{tid}" if comm and tid is not None else "",
            values[weight],
            None if counted is None else values[counted],
        )
