"""Profiles of other programs, with their labels: pprof in and out, OTLP in (profiles v1development, of 2026).

https://github.com/google/pprof/blob/main/proto/profile.proto
https://github.com/open-telemetry/opentelemetry-proto, profiles.proto of release 1.9 and later
"""

from __future__ import annotations

import functools
import gzip
import io
import shlex
import sys
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ground.errors import HostError, MeasurementError
from ground.text.units import format_bytes


@dataclass(frozen=True)
class ForeignFrame:
    """object: the file that the code is of; file, line: of the source; "" and 0 where they are not known"""

    name: str
    object: str = ""
    file: str = ""
    line: int = 0


@dataclass(frozen=True)
class ForeignSample:
    """frames: the root first; values: one a type of the profile

    labels: each (key, text), or (key, number, unit); sorted
    """

    frames: tuple[ForeignFrame, ...]
    values: tuple[int, ...]
    labels: tuple[tuple[str | int, ...], ...] = ()


@dataclass
class ForeignProfile:
    """types: name and unit of each value; time_ns: of its begin, Unix; it and duration_ns 0 where they are not told"""

    types: list[tuple[str, str]]
    time_ns: int = 0
    samples: list[ForeignSample] = field(default_factory=list)
    duration_ns: int = 0

    @property
    def columns(self) -> list[tuple[str, str]]:
        """The types by names of their own, or `go tool pprof` refuses them: of two, the second is `NAME (2)`."""
        counts: Counter[str] = Counter()
        columns = []
        for name, unit in self.types:
            counts[name] += 1
            columns.append((f"{name} ({counts[name]})" if counts[name] > 1 else name, unit))
        return columns


# Profiles with few equal samples pack to 1/1.3 up to 1/10; of equal samples alone, to 1/334, but these are small.
_PACKED = 32
_SMALL = 16 << 20


# ---- pprof -----------------------------------------------------------------------------------------------------------
# The messages of pprof: each field with its number and type; * before the type: repeated. Those that are not named are
# kept by the library and mean nothing here. Strings are read as bytes, for not every writer's are UTF-8.
_PPROF: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "ValueType": {"type": (1, "int64"), "unit": (2, "int64")},
    "Label": {"key": (1, "int64"), "str": (2, "int64"), "num": (3, "int64"), "num_unit": (4, "int64")},
    "Sample": {"location_id": (1, "*uint64"), "value": (2, "*int64"), "label": (3, "*Label")},
    "Mapping": {"id": (1, "uint64"), "filename": (5, "int64"), "has_functions": (7, "bool")},
    "Line": {"function_id": (1, "uint64"), "line": (2, "int64")},
    "Location": {"id": (1, "uint64"), "mapping_id": (2, "uint64"), "address": (3, "uint64"), "line": (4, "*Line")},
    "Function": {"id": (1, "uint64"), "name": (2, "int64"), "system_name": (3, "int64"), "filename": (4, "int64")},
    "Profile": {
        "sample_type": (1, "*ValueType"),
        "sample": (2, "*Sample"),
        "mapping": (3, "*Mapping"),
        "location": (4, "*Location"),
        "function": (5, "*Function"),
        "string_table": (6, "*bytes"),
        "time_nanos": (9, "int64"),
        "duration_nanos": (10, "int64"),
    },
}


def _no_library(package: str) -> HostError:
    return HostError(
        f"profiles of other programs need the package {package}, which is not installed",
        means="nothing was read",
        mend=f"{shlex.quote(sys.executable)} -m pip install {package}",
    )


@functools.cache
def _pprof_class() -> Any:
    """The class of pprof's Profile, made from the table above."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError:
        raise _no_library("protobuf") from None
    of = descriptor_pb2.FieldDescriptorProto
    scalars = {"int64": of.TYPE_INT64, "uint64": of.TYPE_UINT64, "bool": of.TYPE_BOOL, "bytes": of.TYPE_BYTES}
    file = descriptor_pb2.FileDescriptorProto(name="pprof.proto", syntax="proto3")
    for name, fields in _PPROF.items():
        message = file.message_type.add(name=name)
        for key, (number, kind) in fields.items():
            scalar = scalars.get(kind.lstrip("*"))
            message.field.add(
                name=key,
                number=number,
                label=of.LABEL_REPEATED if kind.startswith("*") else of.LABEL_OPTIONAL,
                type=of.TYPE_MESSAGE if scalar is None else scalar,
                type_name=f".{kind.lstrip('*')}" if scalar is None else None,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Profile"))


def _parsed(message: Any, data: bytes, what: str) -> Any:
    from google.protobuf.message import DecodeError

    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise MeasurementError(f"the file is no {what}, or is cut short: {error}") from None
    return message


def _unpacked(data: bytes) -> bytes:
    """What gzip packed. MeasurementError where that is more than a profile of its size could hold, or broken."""
    most = max(_SMALL, len(data) * _PACKED)
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            unpacked = file.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise MeasurementError(f"the profile is cut short or broken: {error}") from None
    if len(unpacked) > most:
        raise MeasurementError(
            f"the profile, {format_bytes(len(data))} packed, unpacks to more than {format_bytes(most)}",
            means=f"no profile packs to less than 1/{_PACKED} of itself; it was not read further",
        )
    return unpacked


def read_pprof(data: bytes) -> ForeignProfile:
    """A profile, packed with gzip or not. MeasurementError where it is none, or points outside of its tables."""
    whole = _parsed(_pprof_class()(), _unpacked(data) if data[:2] == b"\x1f\x8b" else data, "pprof profile")
    strings = [text.decode("utf-8", "replace") for text in whole.string_table]
    try:
        objects = {mapping.id: strings[mapping.filename] for mapping in whole.mapping}
        functions = {function.id: (strings[function.name], strings[function.filename]) for function in whole.function}
        locations = {
            location.id: _frames(
                [(functions[line.function_id], line.line) for line in location.line],
                objects.get(location.mapping_id, ""),
                location.address,
            )
            for location in whole.location
        }
        types = [(strings[kind.type], strings[kind.unit]) for kind in whole.sample_type]
        profile = ForeignProfile(types, whole.time_nanos, duration_ns=whole.duration_nanos)
        for sample in whole.sample:
            labels: list[tuple[str | int, ...]] = [
                (strings[label.key], strings[label.str])
                if label.str
                else (strings[label.key], label.num, strings[label.num_unit])
                for label in sample.label
            ]
            frames = [frame for number in reversed(sample.location_id) for frame in locations[number]]
            profile.samples.append(_sample(frames, sample.value, labels, types))
    except (IndexError, KeyError) as error:
        raise _outside(error) from None
    return profile


def _sample(
    frames: Sequence[ForeignFrame],
    values: Sequence[int],
    labels: list[tuple[str | int, ...]],
    types: Sequence[object],
) -> ForeignSample:
    if len(values) != len(types):
        raise MeasurementError(f"a sample has {len(values)} values, the profile {len(types)} types")
    return ForeignSample(tuple(frames), tuple(values), tuple(sorted(labels, key=repr)))


def _frames(lines: Sequence[tuple[tuple[str, str], int]], obj: str, address: int) -> list[ForeignFrame]:
    """The frames of a location, the root first: the last line called those before it, which were inlined.

    lines: ((name, file) of the function, line)
    """
    if not lines:
        return [ForeignFrame(f"{address:#x}", obj)]
    return [ForeignFrame(name, obj, file, line) for (name, file), line in reversed(lines)]


def _outside(error: Exception) -> MeasurementError:
    return MeasurementError(f"the profile points outside of its tables: {error}", means="it is broken")


def encode_pprof(profile: ForeignProfile) -> bytes:
    """Packed with gzip. Frames that were inlined are locations of their own."""
    # The first string is empty, and has to be there.
    strings: dict[str, int] = {"": 0}
    objects: dict[str, int] = {}
    functions: dict[tuple[str, str], int] = {}
    locations: dict[ForeignFrame, int] = {}

    def text(words: str) -> int:
        return strings.setdefault(words, len(strings))

    def location_of(frame: ForeignFrame) -> int:
        if frame.object:
            objects.setdefault(frame.object, len(objects) + 1)
        functions.setdefault((frame.name, frame.file), len(functions) + 1)
        return locations.setdefault(frame, len(locations) + 1)

    message = _pprof_class()(time_nanos=profile.time_ns, duration_nanos=profile.duration_ns)
    for name, unit in profile.columns:
        message.sample_type.add(type=text(name), unit=text(unit))
    for sample in profile.samples:
        numbers = [location_of(frame) for frame in reversed(sample.frames)]
        row = message.sample.add(location_id=numbers, value=sample.values)
        for key, value, *rest in sample.labels:
            if isinstance(value, int):
                row.label.add(key=text(str(key)), num=value, num_unit=text(str(*rest)))
            else:
                row.label.add(key=text(str(key)), str=text(value))
    for name, number in objects.items():
        message.mapping.add(id=number, filename=text(name), has_functions=True)
    for frame, number in locations.items():
        location = message.location.add(id=number, mapping_id=objects.get(frame.object, 0))
        location.line.add(function_id=functions[frame.name, frame.file], line=frame.line)
    for (name, file), number in functions.items():
        message.function.add(id=number, name=text(name), system_name=text(name), filename=text(file))
    message.string_table.extend(words.encode() for words in strings)
    return gzip.compress(message.SerializeToString(deterministic=True), mtime=0)


# ---- OTLP ------------------------------------------------------------------------------------------------------------
def read_otlp(data: bytes) -> list[ForeignProfile]:
    """Every profile of a ProfilesData message. MeasurementError where it is none, for a field that is not known (the
    format still changes), and where it points outside of its dictionary.

    A sample without values has one of 1 for each of its times.
    """
    try:
        from opentelemetry.proto.profiles.v1development import profiles_pb2
    except ImportError:
        raise _no_library("opentelemetry-proto") from None
    whole: Any = _parsed(profiles_pb2.ProfilesData(), data, "OTLP profile of v1development")
    size = whole.ByteSize()
    whole.DiscardUnknownFields()
    if whole.ByteSize() != size:
        raise MeasurementError(
            f"{size - whole.ByteSize()} bytes of the profile are of fields that are not known",
            means="a newer version of the format wrote it, in which others may mean something else too",
            mend=f"{shlex.quote(sys.executable)} -m pip install --upgrade opentelemetry-proto",
        )
    tables = whole.dictionary
    strings = tables.string_table
    try:
        objects = [strings[mapping.filename_strindex] for mapping in tables.mapping_table]
        functions = [(strings[row.name_strindex], strings[row.filename_strindex]) for row in tables.function_table]
        locations = [
            _frames(
                [(functions[line.function_index], line.line) for line in location.lines],
                objects[location.mapping_index] if objects else "",
                location.address,
            )
            for location in tables.location_table
        ]
        stacks = [
            [frame for index in reversed(stack.location_indices) for frame in locations[index]]
            for stack in tables.stack_table
        ]
        labels = [_attribute(attribute, strings) for attribute in tables.attribute_table]
        scopes = [scope for resource in whole.resource_profiles for scope in resource.scope_profiles]
        profiles = []
        for message in (message for scope in scopes for message in scope.profiles):
            kind = message.sample_type
            types = [(strings[kind.type_strindex], strings[kind.unit_strindex])]
            profile = ForeignProfile(types, message.time_unix_nano)
            for sample in message.samples:
                value = sum(sample.values) if sample.values else len(sample.timestamps_unix_nano)
                own = [labels[index] for index in sample.attribute_indices]
                profile.samples.append(_sample(stacks[sample.stack_index], [value], own, types))
            profiles.append(profile)
    except IndexError as error:
        raise _outside(error) from None
    return profiles


def _attribute(attribute: Any, strings: Sequence[str]) -> tuple[str | int, ...]:
    key, value = strings[attribute.key_strindex], attribute.value
    kind = value.WhichOneof("value")
    if kind == "int_value":
        return (key, value.int_value, strings[attribute.unit_strindex])
    if kind == "string_value_strindex":
        return (key, strings[value.string_value_strindex])
    if kind == "bytes_value":
        return (key, value.bytes_value.hex())
    if kind in ("array_value", "kvlist_value"):
        return (key, getattr(value, kind).SerializeToString(deterministic=True).hex())
    return (key, "" if kind is None else str(getattr(value, kind)))
