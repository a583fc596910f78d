"""`profile.json` read back: what it stands for, and what is refused."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from folding.stackfold import run_stackfold, stackfold_binary
from ioflame.errors import MeasurementError
from ioflame.results.profile import read_profile
from viz.frames import by_name, read_categorised, stacks_of

CAPTURE = Path(__file__).parents[2] / "folding" / "tests" / "data" / "readrandom_fp.txt"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("profile")
    argv = ["--kernel", "--slice-ms", "500", "-o", str(directory / "stacks"), "--counts", str(directory / "counts")]
    run_stackfold([*argv, str(CAPTURE)], directory / "profile.json", "rocksdb").require("stackfold")
    return directory


@pytest.mark.parametrize("view", ["owner", "leaf"])
def test_its_stacks_are_the_categorised_ones(made: Path, view: str) -> None:
    argv = [stackfold_binary(), "categories", "--view", view, "--format", "stacks", "--counts", "counts", "stacks"]
    lines = subprocess.run(argv, cwd=made, capture_output=True, check=True).stdout.splitlines()
    sums: Counter[Any] = Counter()
    samples: Counter[Any] = Counter()
    for stack in by_name(stacks_of(read_profile(made / "profile.json"), view)):
        sums[stack.frames, stack.category, stack.anchor_depth] += stack.weight
        samples[stack.frames] += stack.samples or 0
    theirs = read_categorised(lines)
    assert sums == {(s.frames, s.category, s.anchor_depth): s.weight for s in theirs}
    assert samples == {s.frames: s.samples for s in theirs}


def test_its_slices_add_up_to_its_rows_and_carry_an_interval(made: Path) -> None:
    found = read_profile(made / "profile.json").categories("owner")
    assert [sum(second[place] for second in found.slices) for place in range(len(found.rows))] == [
        row.weight for row in found.rows
    ]
    assert sum(row.weight for row in found.rows) == found.total_weight > 0
    largest = max(found.rows, key=lambda row: row.weight)
    assert largest.interval is not None and largest.interval.low < largest.share < largest.interval.high
    assert largest.interval.n == len(found.slices) >= 5


@given(st.data())
def test_one_that_was_cut_or_changed_is_refused_and_never_misread(made: Path, data: st.DataObject) -> None:
    whole = (made / "profile.json").read_bytes()
    broken = made / "broken.json"
    broken.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 2))])
    with pytest.raises(MeasurementError, match=r"broken\.json"):
        read_profile(broken)
    content = json.loads(whole)
    table, column = data.draw(
        st.sampled_from([("stacks", "thread"), ("stacks", "node"), ("nodes", "frame"), ("frames", "name")])
    )
    values = content[table][column]
    values[data.draw(st.integers(0, len(values) - 1))] = data.draw(st.sampled_from([10**6, -(10**6)]))
    broken.write_text(json.dumps(content))
    with pytest.raises(MeasurementError, match="does not hold together"):
        read_profile(broken)
    content["schema"] = 2
    broken.write_text(json.dumps(content))
    with pytest.raises(MeasurementError, match="has schema 2"):
        read_profile(broken)
