from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ground.errors import MeasurementError
from workloads.seeds import SeedLedger


@settings(max_examples=20)
@given(st.lists(st.integers(min_value=1, max_value=500), min_size=2, max_size=20))
def test_no_thread_gets_a_seed_twice(tmp_path_factory: pytest.TempPathFactory, threads: list[int]) -> None:
    directory = tmp_path_factory.mktemp("ledger")
    given_out: list[int] = []
    for count in threads:
        taken = SeedLedger(directory).take("readrandom", count)  # a new ledger each time, as a new process has
        given_out += range(taken.first, taken.first + taken.threads)
    assert len(set(given_out)) == len(given_out)
    assert [r.threads for r in SeedLedger(directory).ranges()] == threads


def test_seeds_start_at_the_clock_and_pass_over_what_was_given(tmp_path: Path) -> None:
    ledger = SeedLedger(tmp_path)
    before = int(time.time())
    assert ledger.take("load", 1).first >= before
    far = before + 10**6
    (tmp_path / SeedLedger.NAME).write_text(json.dumps([{"step": "x", "first": far, "threads": 64}]))
    assert ledger.take("readrandom", 2).first == far + 64


@pytest.mark.parametrize("content", ["", "{", '[{"step": "x"}]', "[1]"])
def test_a_damaged_ledger_is_refused_not_forgotten(tmp_path: Path, content: str) -> None:
    (tmp_path / SeedLedger.NAME).write_text(content)
    with pytest.raises(MeasurementError, match="cannot be read"):
        SeedLedger(tmp_path).take("readrandom", 1)
    assert (tmp_path / SeedLedger.NAME).read_text() == content
