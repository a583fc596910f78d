from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ground.text.file_name import file_name


def test_letters_digits_and_four_signs_stay() -> None:
    assert file_name("readrandom, 8 threads/../a+b_1.2-x") == "readrandom__8_threads_.._a+b_1.2-x"


@given(st.text(min_size=1, max_size=200))
def test_any_text_is_one_part_of_a_path(text: str) -> None:
    name = file_name(text)
    assert len(name) == len(text)
    assert name in (".", "..") or Path(name).parts == (name,)
