"""`profile.json` read back: the stacks that it holds, and what is refused."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from folding.stackfold import categorised_profile, run_stackfold, stackfold_binary
from ground.errors import MeasurementError
from ground.results.profile import read_profile
from ioflame.analysis.categories import categories_of, category_file
from tests.places import RECORDINGS
from tests.viz.categorised import read_categorised
from viz.flame.stacks import by_name, stacks_of
from viz.flame.tree import FrameTree
from workloads.registry import service_rules
from workloads.service import rules_text

CAPTURE = RECORDINGS / "readrandom_fp.txt"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("profile")
    argv = ["--kernel", "--slice-ms", "500", "-o", str(directory / "stacks"), "--counts", str(directory / "counts")]
    run_stackfold([*argv, str(CAPTURE)], directory / "profile.json", "rocksdb").require("stackfold")
    return directory


@pytest.mark.parametrize("view", ["owner", "leaf", "parts"])
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


WRITES = """\
rocksdb:low0;start;rocksdb::CompactionJob::Run 31
rocksdb:high0;start;rocksdb::FlushJob::Run 9
db_bench;main;rocksdb::DBImpl::Write;rocksdb::DBImpl::WriteImpl;rocksdb::DBImpl::WriteToWAL;rocksdb::crc32c::Extend 17
db_bench;main;rocksdb::DBImpl::WriteImpl;rocksdb::WriteBatchInternal::InsertInto;rocksdb::MemTable::Add;memcmp 20
db_bench;main;rocksdb::DB::Put;rocksdb::WriteBatch::Put 5
db_bench;main;rocksdb::DBImpl::Get;rocksdb::DataBlockIter::SeekImpl 4
db_bench;main;rocksdb::DBImpl::GetImpl;rocksdb::MemTable::Get;rocksdb::MemTable::KeyComparator::operator() 26
db_bench;main 3
"""


@pytest.mark.parametrize("service", ["rocksdb", "myrocks"])
def test_a_service_that_writes_has_rows_for_it_and_a_graph_their_weights(tmp_path: Path, service: str) -> None:
    """Threads of one name decide some of them: no frame of such a stack is an anchor."""
    rules, stacks = tmp_path / "rules.toml", tmp_path / "stacks"
    rules.write_text(rules_text(service_rules(service)), encoding="utf-8")
    stacks.write_text(WRITES, encoding="ascii")
    profile = categorised_profile(tmp_path / "none", str(rules), folded=stacks, counts=tmp_path / "none")
    rows = {row["name"]: row["weight"] for row in profile.views["owner"].report["rows"] if row["weight"]}
    written = {"compaction": 31, "flush": 9, "WAL": 17, "memtable insert": 20, "write path": 5, "DBI:Sk": 4}
    assert written.items() <= rows.items() and "other" not in rows and rows["memtable"] == 26
    # As of a profile: what `other` mostly is, and some findings, are by its parts.
    parts = {row["name"]: row["weight"] for row in profile.views["parts"].report["rows"]}
    assert parts["memtable"] >= 26
    tree = FrameTree(stacks_of(profile, "owner"), tuple(rows))
    assert {
        name: weight for name, weight in zip(tree.categories, tree.category_weights(), strict=True) if weight
    } == rows


def test_its_slices_add_up_to_its_rows_and_carry_an_interval(made: Path) -> None:
    found = categories_of(category_file(read_profile(made / "profile.json"), "owner", (20.0, None)))
    assert [sum(second[place] for second in found.slices) for place in range(len(found.rows))] == [
        row.weight for row in found.rows
    ]
    assert sum(row.weight for row in found.rows) == found.total_weight > 0
    largest = max(found.rows, key=lambda row: row.weight)
    assert largest.interval is not None and largest.interval.low < largest.share < largest.interval.high
    assert largest.interval.n == len(found.slices) >= 5
    assert largest.us_per_query == 20.0 * largest.share / 100 and largest.us_per_read is None


def test_the_profiles_of_the_threads_add_up_to_that_of_all_of_them(tmp_path: Path) -> None:
    lines = CAPTURE.read_text().splitlines(keepends=True)
    place = lines.index("\n", len(lines) // 2)
    other = "".join(lines[place:]).replace("5076", "5077")
    (tmp_path / "two.txt").write_text("".join(lines[:place]) + other)
    argv = ["--kernel", "--slice-ms", "500", str(tmp_path / "two.txt")]
    run_stackfold(argv, tmp_path / "profile.json", "rocksdb").require("stackfold")
    whole = read_profile(tmp_path / "profile.json")
    parts = [whole.of_threads({tid}) for tid in (5076, 5077)]
    assert all(0 < len(part.stacks.weight) < len(whole.stacks.weight) for part in parts)
    for view in whole.views:
        table, *own = (categories_of(category_file(one, view)) for one in (whole, *parts))
        assert [sum(rows) for rows in zip(*([r.weight for r in t.rows] for t in own), strict=True)] == [
            row.weight for row in table.rows
        ]
        assert sum(t.total_weight for t in own) == table.total_weight
        for part in own:
            assert sum(row.share for row in part.rows) == pytest.approx(100)
            assert [sum(second[i] for second in part.slices) for i in range(len(part.rows))] == [
                row.weight for row in part.rows
            ]
        unknown = Counter({frame.frame: frame.weight for frame in table.other_frames})
        assert sum((Counter({f.frame: f.weight for f in t.other_frames}) for t in own), Counter()) == unknown
    assert whole.of_threads({5076, 5077}) == whole
    assert not whole.of_threads([]).stacks.weight


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
    with pytest.raises(MeasurementError, match="is inconsistent"):
        read_profile(broken)
    content["schema"] = 2
    broken.write_text(json.dumps(content))
    with pytest.raises(MeasurementError, match="has schema 2"):
        read_profile(broken)
