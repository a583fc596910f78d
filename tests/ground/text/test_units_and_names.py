"""Sizes, counts and names of files, as people write and read them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import UsageError
from ground.text.file_name import file_name
from ground.text.ranges import number, within
from ground.text.units import format_bytes, format_seconds, parse_bytes, parse_count


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("4096", 4096), ("64M", 64 << 20), ("64MiB", 64 << 20), ("1.5g", 3 << 29), (" 2 T ", 2 << 40)],
)
def test_bytes_are_powers_of_1024(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "M", "-1", "1e6", "64 MX", "0x10", "1,000"])
def test_what_is_no_size_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_bytes(text)


def test_counts_are_powers_of_1000_and_whole() -> None:
    assert parse_count("10M") == 10_000_000
    assert parse_count("1.5K") == 1500
    with pytest.raises(ValueError, match="whole number"):
        parse_count("1.5")


@given(st.integers(min_value=0, max_value=1 << 50))
def test_plain_numbers_read_back(plain: int) -> None:
    assert parse_bytes(str(plain)) == plain
    assert parse_count(str(plain)) == plain


def test_formats_name_their_unit() -> None:
    assert format_bytes(1023) == "1023 B"
    assert format_bytes(8192) == "8.0 KiB"
    assert format_bytes(5 << 40) == "5.0 TiB"
    assert format_seconds(119) == "119 s"
    assert format_seconds(185) == "3 min 05 s"


def test_letters_digits_and_four_signs_stay() -> None:
    assert file_name("readrandom, 8 threads/../a+b_1.2-x") == "readrandom__8_threads_.._a+b_1.2-x"


@given(st.text(min_size=1, max_size=200))
def test_any_text_is_one_part_of_a_path(text: str) -> None:
    name = file_name(text)
    assert len(name) == len(text)
    assert name in (".", "..") or Path(name).parts == (name,)


def test_a_number_is_refused_with_the_range_that_it_is_of() -> None:
    assert number("--jobs", "3", int, 1, 4) == 3 and within("--seconds", float, 0.1, 9.0)("0.1") == 0.1
    cases: list[tuple[str, Callable[[str], float], str]] = [
        ("0", int, "--n=0 is out of range"),
        ("x", int, "--n=x: 'x' is not a whole number"),
        ("nan", float, "--n=nan is out of range"),
        ("1.5x", float, "--n=1.5x: '1.5x' is not a number"),
        ("9" * 400 + "G", parse_bytes, "is out of range"),
        ("9" * 400 + "G", parse_count, "is out of range"),
        ("all", parse_bytes, "--n=all: 'all' is not a size"),
    ]
    for text, parse, says in cases:
        with pytest.raises(UsageError, match=re.escape(says)) as caught:
            number("--n", text, parse, 1.0, 4.0)
        assert caught.value.mend == "--n=<1.0..4.0>"
