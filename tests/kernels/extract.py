"""Small extracts of kernels' BTF: the types that our eBPF programs name, as each kernel lays them out.

    make test-kernels KERNELS=extract                        fetches the kernels first
    python -m tests.kernels.extract target/kernels/btf/*.btf      VERSION.btf: the whole BTF of a kernel

Writes `tests/kernels/btf/VERSION.btf`, some 50 kB each, and `names.txt`, what was looked for. Kept are, with true sizes
and offsets:

- structs, unions and enums that the sources of the programs declare as the kernel's (`Names`), with all members;
- `btf_trace_EVENT` of each event that a program is attached to, and functions of the kernel, with their prototypes;
- what those refer to: where the sources do not name it, a struct that is only pointed to as a forward declaration, and
  one that lies within another without its members.
"""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from pathlib import Path
from typing import NamedTuple

from tests.places import ROOT

EXTRACTS = ROOT / "tests" / "kernels" / "btf"
NAMES = EXTRACTS / "names.txt"
_PROGRAMS = ROOT / "ebpf" / "bpf"
# What the loader asks for by name, or libbpf: bits of requests; which helpers, maps and programs the kernel knows.
_ENUMS = frozenset(
    {"bpf_attach_type", "bpf_func_id", "bpf_map_type", "bpf_prog_type", "req_flag_bits", "rqf_flags"}
)  # fmt: skip
_MAGIC, _VERSION = 0xEB9F, 1
_HEADER = struct.Struct("<HBBIIIII")
_TYPE = struct.Struct("<III")


class _Kind(IntEnum):
    INT = 1
    PTR = 2
    ARRAY = 3
    STRUCT = 4
    UNION = 5
    ENUM = 6
    FORWARD = 7
    TYPEDEF = 8
    VOLATILE = 9
    CONST = 10
    RESTRICT = 11
    FUNC = 12
    PROTO = 13
    VAR = 14
    SECTION = 15
    FLOAT = 16
    DECL_TAG = 17
    TYPE_TAG = 18
    ENUM64 = 19


_KINDS = {int(kind): kind for kind in _Kind}
# 32-bit words behind a type: so many, and so many of each member.
_WORDS = {_Kind.INT: 1, _Kind.ARRAY: 3, _Kind.VAR: 1, _Kind.DECL_TAG: 1}
_EACH = {_Kind.STRUCT: 3, _Kind.UNION: 3, _Kind.ENUM: 2, _Kind.PROTO: 2, _Kind.SECTION: 3, _Kind.ENUM64: 3}
_RECORDS = (_Kind.STRUCT, _Kind.UNION)
_ENUMERATIONS = (_Kind.ENUM, _Kind.ENUM64)
# Of which the word behind the flags is a type, not a size.
_REFERS = frozenset(
    {_Kind.PTR, _Kind.TYPEDEF, _Kind.VOLATILE, _Kind.CONST, _Kind.RESTRICT, _Kind.FUNC, _Kind.PROTO, _Kind.VAR}
    | {_Kind.TYPE_TAG}
)


@dataclass(frozen=True)
class Names:
    """What programs name of the kernel."""

    records: frozenset[str]
    events: frozenset[str]
    functions: frozenset[str]
    enums: frozenset[str] = _ENUMS

    def lines(self) -> list[str]:
        """One a name, in order: `struct bio`, `event sched_switch` ..."""
        kinds = {"struct": self.records, "event": self.events, "function": self.functions, "enum": self.enums}
        return [f"{kind} {name}" for kind, names in kinds.items() for name in sorted(names)]


def named_by_programs(folder: Path = _PROGRAMS) -> Names:
    """What C sources declare with `preserve_access_index` (less a ___flavour), attach to, and have as __ksym."""
    records, events, functions = set(), set(), set()
    for path in sorted(folder.iterdir()):
        text = path.read_text(encoding="utf-8")
        pushed = re.findall(r"attribute push\(.*?preserve_access_index(.*?)attribute pop", text, re.DOTALL)
        own = re.findall(
            r"^((?:struct|union) \w+ \{(?:(?!^\}).)*)^\} __attribute__\(\(preserve", text, re.DOTALL | re.M
        )
        for declared in (*pushed, *own):
            records |= {name.split("___")[0] for name in re.findall(r"(?:struct|union) (\w+) \{", declared)}
        events |= set(re.findall(r'"\??tp_btf/(\w+)"', text))
        functions |= set(re.findall(r"extern [^;]*?(\w+)(?:\([^;]*\))? __ksym", text))
    return Names(frozenset(records), frozenset(events), frozenset(name.split("___")[0] for name in functions))


class _Type(NamedTuple):
    name: str
    kind: _Kind
    flag: int
    size_or_type: int
    number: int  # of members; of a function: its linkage
    words: Sequence[int]


@dataclass
class Btf:
    """The types of a kernel, by their numbers; 0 is void."""

    types: list[_Type | None] = field(default_factory=lambda: [None])
    strings: bytes = b"\0"

    @classmethod
    def of(cls, data: bytes) -> Btf:
        """ValueError: `data` is no BTF of this byte order. KeyError: it holds a kind of type that is not known here."""
        magic, version, _, header, types, size, strings, length = _HEADER.unpack_from(data)
        if (magic, version) != (_MAGIC, _VERSION):
            raise ValueError(f"no BTF, or not of this machine: it begins with {magic:#x}, version {version}")
        made = cls(strings=data[header + strings : header + strings + length])
        words = memoryview(data)[header + types : header + types + size].cast("I")
        at = 0
        while at < len(words):
            name, info, size_or_type = words[at : at + 3]
            kind, number = _KINDS[info >> 24 & 0x1F], info & 0xFFFF
            end = at + 3 + _WORDS.get(kind, 0) + number * _EACH.get(kind, 0)
            made.types.append(_Type(made.text(name), kind, info >> 31, size_or_type, number, words[at + 3 : end]))
            at = end
        return made

    def text(self, at: int) -> str:
        return self.strings[at : self.strings.index(b"\0", at)].decode()

    def all(self) -> Iterator[tuple[int, _Type]]:
        return ((number, kept) for number, kept in enumerate(self.types) if kept)


class _As(Enum):
    """In which form a type is kept."""

    WHOLE = 0
    POINTED = 1
    WITHIN = 2


class _Extract:
    """Types of a kernel, numbered anew as they are asked for."""

    def __init__(self, source: Btf, records: frozenset[str]) -> None:
        self._source, self._records = source, records
        self._numbers: dict[tuple[object, ...], int] = {}
        self._left: list[tuple[_Type, _As]] = []
        self._strings, self._places = bytearray(b"\0"), {"": 0}

    def keep(self, number: int, form: _As) -> int:
        """The new number of a type."""
        kept = self._source.types[number]
        if kept is None:
            return 0
        key: tuple[object, ...] = (number, form)
        if kept.kind in _RECORDS:
            if kept.name in self._records:
                form = _As.WHOLE
            elif form is _As.POINTED:
                # It could not be told from others without a name.
                if not kept.name:
                    return 0
                kept = _Type(kept.name, _Kind.FORWARD, int(kept.kind is _Kind.UNION), 0, 0, [])
            elif kept.name:
                kept = _Type(kept.name, kept.kind, 0, kept.size_or_type, 0, [])
            key = (kept.name, kept.kind) if kept.kind is _Kind.FORWARD else (number, form)
        if key not in self._numbers:
            self._numbers[key] = len(self._left) + 1
            self._left.append((kept, form))
        return self._numbers[key]

    def _string(self, text: str) -> int:
        if text not in self._places:
            self._places[text] = len(self._strings)
            self._strings += text.encode() + b"\0"
        return self._places[text]

    def _words(self, kept: _Type, form: _As) -> list[int]:
        words, text = list(kept.words), self._source.text
        width = _EACH.get(kept.kind, 1)
        if kept.kind in (*_RECORDS, *_ENUMERATIONS, _Kind.PROTO):
            words[::width] = [self._string(text(name)) for name in kept.words[::width]]
        if kept.kind in _RECORDS:
            words[1::width] = [self.keep(member, _As.WITHIN) for member in kept.words[1::width]]
        elif kept.kind is _Kind.PROTO:
            words[1::width] = [self.keep(argument, _As.POINTED) for argument in kept.words[1::width]]
        elif kept.kind is _Kind.ARRAY:
            words[:2] = [self.keep(kept.words[0], form), self.keep(kept.words[1], _As.WITHIN)]
        return words

    def data(self) -> bytes:
        """As a file of BTF."""
        types, done = bytearray(), 0
        while done < len(self._left):
            kept, form = self._left[done]
            below = _As.POINTED if kept.kind is _Kind.PTR else form
            size_or_type = self.keep(kept.size_or_type, below) if kept.kind in _REFERS else kept.size_or_type
            words = self._words(kept, form)
            info = kept.flag << 31 | kept.kind << 24 | kept.number
            types += _TYPE.pack(self._string(kept.name), info, size_or_type) + struct.pack(f"<{len(words)}I", *words)
            done += 1
        header = _HEADER.pack(_MAGIC, _VERSION, 0, _HEADER.size, 0, len(types), len(types), len(self._strings))
        return header + bytes(types) + bytes(self._strings)


def extract(source: Btf, names: Names) -> bytes:
    """Of a kernel's types what `names` says, as BTF. What this kernel does not have is left out."""
    made = _Extract(source, names.records)
    traced = {f"btf_trace_{event}" for event in names.events}
    wanted = {
        _Kind.STRUCT: names.records, _Kind.UNION: names.records, _Kind.TYPEDEF: traced, _Kind.FUNC: names.functions,
        _Kind.ENUM: names.enums, _Kind.ENUM64: names.enums,
    }  # fmt: skip
    for number, kept in source.all():
        if kept.name and kept.name in wanted.get(kept.kind, ()):
            made.keep(number, _As.WHOLE)
    return made.data()


def write_extracts(kernels: Iterable[Path]) -> None:
    """VERSION.btf of each kernel's whole BTF, which is called so too, and the names that were looked for."""
    names = named_by_programs()
    EXTRACTS.mkdir(exist_ok=True)
    for path in kernels:
        small = extract(Btf.of(path.read_bytes()), names)
        (EXTRACTS / path.name).write_bytes(small)
        print(f"{path.stem:<8}{len(small) / 1000:8.1f} kB")
    NAMES.write_text("".join(f"{line}\n" for line in names.lines()), encoding="utf-8")


if __name__ == "__main__":
    write_extracts(map(Path, sys.argv[1:]))
