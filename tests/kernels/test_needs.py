"""Each program's needs, held against the types of kernels that are not this one."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ebpf.backends import NAMES
from ioflame.instruments import INSTRUMENTS
from tests.kernels.extract import EXTRACTS, Btf
from tests.kernels.judge import needs

pytestmark = pytest.mark.needs("co-re")

_KERNELS = sorted(path.stem for path in EXTRACTS.glob("*.btf"))
# What cannot be had on a kernel; on all others each instrument has a way, for disks and for devices without requests.
_LACKING = {
    "5.10": {"ladder", "records", "requests", "requests of bios", "writes"},
}


@cache
def ways(btf: Path) -> Mapping[tuple[str, str], Mapping[str, Any]]:
    """What the loader says of each way of each instrument on a kernel of these types."""
    return {(one["instrument"], one["way"]): one for one in needs(btf)}


@pytest.mark.parametrize("kernel", _KERNELS)
def test_an_instrument_has_a_way_or_is_known_to_have_none(kernel: str) -> None:
    unmet: dict[str, list[list[str]]] = {}
    for (name, way), one in ways(EXTRACTS / f"{kernel}.btf").items():
        unmet.setdefault(f"{name} of bios" if way == "bios" else name, []).append(one["unmet"])
    lacking = {name: of_ways for name, of_ways in unmet.items() if all(of_ways)}
    assert set(lacking) == _LACKING.get(kernel, set()), lacking
    alone = {name for name, one in INSTRUMENTS.items() if one.alone is not None}
    known = {name.removesuffix(" of bios") for name in unmet}
    assert {NAMES.get(name, name) for name in known} - {"uprobes"} == alone


@pytest.mark.parametrize("kernel", _KERNELS)
def test_what_is_named_in_place_of_an_instrument_runs_there(kernel: str) -> None:
    found = ways(EXTRACTS / f"{kernel}.btf")
    run = {NAMES.get(name, name) for (name, _), one in found.items() if one["works"]}
    for one in found.values():
        command, *rest = str(one["instead"]).removeprefix("ioflame ").split()
        assert one["works"] or command != "ebpf" or rest[0] in run, one


def test_an_extract_says_what_the_whole_says() -> None:
    """Of this kernel: what the extracts leave out is nothing that programs need."""
    whole = ways(Path("/sys/kernel/btf/vmlinux"))
    assert not any(one["unmet"] for one in whole.values())


def doctored(structure: str, member: str, *, to: str) -> bytes:
    """The types of 6.18, but that a member has another type."""
    data = (EXTRACTS / "6.18.btf").read_bytes()
    btf = Btf.of(data)
    other = next(number for number, one in btf.all() if one.name == to and one.kind.name == "INT")
    words = next(one.words for _, one in btf.all() if one.name == structure and one.kind.name == "STRUCT")
    place = next(place for place in range(0, len(words), 3) if btf.text(words[place]) == member)
    name, _, offset = words[place : place + 3]
    was, becomes = (struct.pack("<3I", name, kind, offset) for kind in (words[place + 1], other))
    assert data.count(was) == 1
    return data.replace(was, becomes)


def test_a_field_of_another_size_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "doctored.btf"
    path.write_bytes(doctored("task_struct", "tgid", to="unsigned char"))
    found = ways(path)
    wrong = "field task_struct.tgid of 4 bytes: here it has 1"
    assert wrong in found["iolat", "requests"]["unmet"]
    assert "this kernel (doctored) lacks what iolat needs: " in found["iolat", "requests"]["words"]
    # Who does not read it does not mind.
    assert found["writes", ""]["unmet"] == []


def test_an_event_with_other_arguments_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "doctored.btf"
    data = (EXTRACTS / "6.18.btf").read_bytes()
    path.write_bytes(data.replace(b"\0btf_trace_sched_waking\0", b"\0btf_trace_sched_asleep\0"))
    assert ways(path)["runqlat", ""]["unmet"] == ["event sched_waking"]
