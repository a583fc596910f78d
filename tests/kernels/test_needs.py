"""Each program's needs, held against the types of kernels that are not this one."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from ebpf.backends import NAMES
from ground.system.binaries import built_binary
from ioflame.instruments import INSTRUMENTS
from tests.kernels.extract import EXTRACTS, Btf

pytestmark = pytest.mark.needs("co-re")

_KERNELS = sorted(path.stem for path in EXTRACTS.glob("*.btf"))
# What cannot be had on a kernel; on all others each instrument has a way, for disks and for devices without requests.
_LACKING = {
    "5.10": {"ladder", "records", "requests", "requests of bios", "writes"},
}


@cache
def needs(btf: Path) -> Mapping[tuple[str, str], Mapping[str, list[str]]]:
    """What the loader says of each way of each instrument on a kernel of these types."""
    words = [str(built_binary("ioflame-ebpf")), "needs", "--btf", str(btf)]
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return {(one["instrument"], one["way"]): one for one in json.loads(said)}


@pytest.mark.parametrize("kernel", _KERNELS)
def test_an_instrument_has_a_way_or_is_known_to_have_none(kernel: str) -> None:
    ways: dict[str, list[list[str]]] = {}
    for (name, way), one in needs(EXTRACTS / f"{kernel}.btf").items():
        ways.setdefault(f"{name} of bios" if way == "bios" else name, []).append(one["unmet"])
    lacking = {name: unmet for name, unmet in ways.items() if all(unmet)}
    assert set(lacking) == _LACKING.get(kernel, set()), lacking
    alone = {name for name, one in INSTRUMENTS.items() if one.alone is not None}
    known = {name.removesuffix(" of bios") for name in ways}
    assert {NAMES.get(name, name) for name in known} - {"uprobes"} == alone


@pytest.mark.parametrize("kernel", _KERNELS)
def test_what_is_named_in_place_of_an_instrument_runs_there(kernel: str) -> None:
    found = needs(EXTRACTS / f"{kernel}.btf")
    run = {NAMES.get(name, name) for (name, _), one in found.items() if one["works"]}
    for one in found.values():
        command, *rest = str(one["instead"]).removeprefix("ioflame ").split()
        assert one["works"] or command != "ebpf" or rest[0] in run, one


def test_an_extract_says_what_the_whole_says() -> None:
    """Of this kernel: what the extracts leave out is nothing that programs need."""
    whole = needs(Path("/sys/kernel/btf/vmlinux"))
    assert not any(one["unmet"] for one in whole.values())


def encoded(btf: Btf) -> bytes:
    """As a file; types and strings as they are."""
    types = b"".join(
        struct.pack(
            f"<{3 + len(one.words)}I",
            btf.strings.index(b"\0" + one.name.encode() + b"\0") + 1 if one.name else 0,
            one.flag << 31 | one.kind << 24 | one.number,
            one.size_or_type,
            *one.words,
        )
        for _, one in btf.all()
    )
    header = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(btf.strings))
    return header + types + btf.strings


def doctored(structure: str, member: str, *, to: str) -> bytes:
    """The types of 6.18, but that a member has another type."""
    btf = Btf.of((EXTRACTS / "6.18.btf").read_bytes())
    other = next(number for number, one in btf.all() if one.name == to and one.kind.name == "INT")
    place, found = next((n, one) for n, one in btf.all() if one.name == structure and one.kind.name == "STRUCT")
    words = list(found.words)
    names = [btf.text(name) for name in words[::3]]
    words[3 * names.index(member) + 1] = other
    btf.types[place] = found._replace(words=words)
    return encoded(btf)


def test_a_field_of_another_size_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "doctored.btf"
    path.write_bytes(doctored("task_struct", "tgid", to="unsigned char"))
    found = needs(path)
    wrong = "field task_struct.tgid of 4 bytes: here it has 1"
    assert wrong in found["iolat", "requests"]["unmet"]
    assert "this kernel (doctored) lacks what iolat needs: " in found["iolat", "requests"]["words"]
    # Who does not read it does not mind.
    assert found["writes", ""]["unmet"] == []


def test_an_event_with_other_arguments_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "doctored.btf"
    data = (EXTRACTS / "6.18.btf").read_bytes()
    path.write_bytes(data.replace(b"\0btf_trace_sched_waking\0", b"\0btf_trace_sched_asleep\0"))
    assert needs(path)["runqlat", ""]["unmet"] == ["event sched_waking"]
