"""What of a name fits into a frame."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ground.text.columns import cells
from viz.flame.layout import fit, shorter_forms


def forms(name: str) -> list[str]:
    return [name[start:] for start in shorter_forms(name)]


@pytest.mark.parametrize(
    ("name", "shorter"),
    [
        ("start_thread", []),
        ("rocksdb::DBImpl::Get", ["DBImpl::Get", "Get"]),
        ("rocksdb::(anonymous namespace)::F", ["(anonymous namespace)::F", "F"]),
        ("a::Map<b::Key, c::Value>::find", ["Map<b::Key, c::Value>::find", "find"]),
        ("a::f(b::C const&)", ["f(b::C const&)"]),
        ("a::B::operator<<", ["B::operator<<", "operator<<"]),
        ("a::operator->", ["operator->"]),
        ("odd::", []),
        ("::odd", []),
    ],
)
def test_namespaces_go_first_and_brackets_stay_whole(name: str, shorter: list[str]) -> None:
    assert forms(name) == shorter


@pytest.mark.parametrize(
    ("room", "shown"),
    [
        (20, "rocksdb::DBImpl::Get"),
        (19, "DBImpl::Get"),
        (10, "Get"),
        (3, "Get"),
        (2, ""),
    ],
)
def test_the_longest_form_that_fits_is_shown(room: int, shown: str) -> None:
    name = "rocksdb::DBImpl::Get"
    assert fit(name, shorter_forms(name), room) == shown


def test_what_is_cut_inside_a_part_ends_in_an_ellipsis() -> None:
    assert fit("a::VeryLongName", shorter_forms("a::VeryLongName"), 6) == "VeryL\u2026"


def test_wide_characters_take_two_columns() -> None:
    assert cells("\u6f22\u5b57") == 4
    assert fit("\u6f22\u5b57\u6f22", [], 5) == "\u6f22\u5b57\u2026"


@settings(deadline=None)  # the machine may be busy
@given(st.text(max_size=60), st.integers(0, 40))
def test_a_label_never_takes_more_than_its_room(name: str, room: int) -> None:
    assert cells(fit(name, shorter_forms(name), room)) <= room
