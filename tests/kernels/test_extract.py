"""Stored extracts of kernels' BTF hold what the programs name, and say what the whole says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernels.extract import EXTRACTS, NAMES, Btf, extract, named_by_programs

_OURS = Path("/sys/kernel/btf/vmlinux")
_STORED = sorted(EXTRACTS.glob("*.btf"))


def _members(btf: Btf, number: int, begin: int = 0) -> Iterator[tuple[str, int]]:
    """Name and place in bits of each member, those of nameless structs within included."""
    kept = btf.types[number]
    assert kept
    for name, member, place in zip(kept.words[::3], kept.words[1::3], kept.words[2::3], strict=True):
        if named := btf.text(name):
            yield named, begin + place
        else:
            yield from _members(btf, member, begin + place)


def _laid_out(btf: Btf, records: frozenset[str]) -> dict[str, tuple[int, list[tuple[str, int]]]]:
    """Size and members of each struct and union, by its name."""
    named = (
        (number, kept) for number, kept in btf.all() if kept.name in records and kept.kind.name in ("STRUCT", "UNION")
    )
    return {kept.name: (kept.size_or_type, list(_members(btf, number))) for number, kept in named}


def test_extracts_were_made_of_the_names_that_the_programs_have_now() -> None:
    fix = (
        "the programs name something new of the kernel: make test-kernels KERNELS=extract, and commit tests/kernels/btf"
    )
    assert NAMES.read_text(encoding="utf-8").splitlines() == named_by_programs().lines(), fix


@pytest.mark.parametrize("path", _STORED, ids=lambda path: path.stem)
def test_an_extract_refers_to_nothing_outside_of_it(path: Path) -> None:
    data, names = path.read_bytes(), named_by_programs()
    stored = Btf.of(data)
    # Types are numbered in the order in which they are asked for: once more, it is the same file.
    assert extract(stored, names) == data
    assert {"comm", "tgid", "in_iowait"} <= {name for name, _ in _laid_out(stored, names.records)["task_struct"][1]}
    assert len(data) < 60_000


@pytest.mark.skipif(not _OURS.exists(), reason="this kernel has no BTF")
def test_an_extract_lays_structs_out_as_the_whole_does() -> None:
    whole, names = Btf.of(_OURS.read_bytes()), named_by_programs()
    here = _laid_out(Btf.of(extract(whole, names)), names.records)
    assert len(here) > 30
    assert here == _laid_out(whole, names.records)
