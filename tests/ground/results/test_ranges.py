"""Ranges of numbers in result files: checked where a file is read, with the place of what cannot be."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest

from ground.results.ranges import Amount, Count, in_order


@dataclass
class Window:
    start_ns: Count
    end_ns: Count
    queries: Amount | None = None

    def __post_init__(self) -> None:
        in_order(self.start_ns, self.end_ns)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"start_ns": 7, "end_ns": 7, "queries": 0}', ""),
        ('{"start_ns": -1, "end_ns": 7}', r"Expected `int` >= 0 - at `\$.start_ns`"),
        ('{"start_ns": 1, "end_ns": 9223372036854775808}', r"at `\$.end_ns`"),
        ('{"start_ns": 1, "end_ns": 2, "queries": -5}', r"Expected `float` >= 0.0 - at `\$.queries`"),
        ('{"start_ns": 2000, "end_ns": 1}', "it ends 1,999 ns before it begins"),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_read(text: str, says: str) -> None:
    if not says:
        assert msgspec.json.decode(text, type=Window).queries == 0
        return
    with pytest.raises(msgspec.ValidationError, match=says):
        msgspec.json.decode(text, type=Window)
