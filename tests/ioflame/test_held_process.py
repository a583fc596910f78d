"""Which numbers a process can have."""

from __future__ import annotations

import argparse

import pytest

from ioflame.errors import UsageError
from ioflame.held_process import HeldProcess, process_number


def test_a_number_that_a_process_can_have() -> None:
    assert process_number("1") == 1
    assert process_number("4194304") == 4194304


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "4194305",
        "99999999999",
        "9" * 5000,
        "-3",
        "+3",
        " 3",
        "1_0",
        "1e3",
        "",
        "self",
        "\N{ARABIC-INDIC DIGIT ONE}",
    ],
)
def test_one_that_none_can_have_is_named(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"no process|not the number") as refused:
        process_number(text)
    assert len(str(refused.value)) < 200 or not text.isdigit()


@pytest.mark.parametrize("pid", [99_999_999_999, 1 << 70, -1])
def test_holding_what_is_not_there(pid: int) -> None:
    with pytest.raises(UsageError, match=f"there is no process {pid}$|there is no process"):
        HeldProcess(pid)
