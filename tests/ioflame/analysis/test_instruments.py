"""What may be compared between runs that were not measured alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ioflame.analysis.compare.instruments import comparability
from tests.viz.runs import record

ONE = record()


def other(of: str, **changes: Any) -> Any:
    if of == "profile":
        assert ONE.profile is not None
        return record(profile=replace(ONE.profile, **changes))
    if of == "host":
        return record(host={**ONE.host, **changes})
    return record(**changes)


def test_one_instrument_compares_everything() -> None:
    found = comparability([ONE, record()])
    assert (found.heading, found.leaf, found.frames) == ("", (), ())


@pytest.mark.parametrize(
    ("of", "changes", "words"),
    [
        ("profile", {"event": "cycles"}, "event cpu-clock, cycles"),
        ("profile", {"unit": "cycles"}, "unit ns, cycles"),
        ("profile", {"scope": "process"}, "scope system, process"),
        ("profile", {"callgraph": "dwarf"}, "call graphs fp, dwarf"),
    ],
)
def test_two_instruments_leave_owner_categories(of: str, changes: dict[str, str], words: str) -> None:
    found = comparability([ONE, other(of, **changes)])
    assert found.heading == f"two instruments: {words}"
    assert found.leaf == found.frames == (words,)


def test_another_host_leaves_categories_and_no_frame() -> None:
    for changes in ({"host_id": "b"}, {"cpu": "Other"}, {"kernel": "6.18"}):
        found = comparability([ONE, other("host", **changes)])
        assert (found.heading, found.leaf) == ("", ()) and len(found.frames) == 1
        assert str(next(iter(changes.values()))) in found.frames[0]


def test_another_ioflame_folds_anew() -> None:
    newer = other("", ioflame="0.2.0")
    found = comparability([ONE, newer])
    assert found.frames == ("ioflame 0.1.0, 0.2.0; ioflame analyse RUN folds each anew from perf.data",)
    assert comparability([ONE, newer], folded_alike=True).frames == ()
