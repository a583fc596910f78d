"""Reading stacks, and the tree they make."""

from __future__ import annotations

import random

import pytest

from ground.errors import MeasurementError
from tests.viz.samples import CATEGORIES, LINES, VERSION_GET, stacks, total
from viz.flame.stacks import Stack, read_folded
from viz.flame.tree import FrameTree
from viz.printable import printable

NAMES = [name for name, _ in CATEGORIES]


def test_a_folded_line_may_hold_spaces_in_its_names() -> None:
    assert read_folded([b"my comm;(anonymous namespace)::f 12\n"]) == [
        Stack(("my comm", "(anonymous namespace)::f"), 12)
    ]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"comm;f", "no stack before the weight"),
        (b" 12", "no stack before the weight"),
        (b"comm;f twelve", "weight 'twelve'"),
        (b"comm;f 9.5", "weight '9.5'"),
        (b"comm;f -9", "weight '-9'"),
        (b"comm;f 1_0", "weight '1_0'"),
    ],
)
def test_a_bad_line_is_named_with_its_fault(line: bytes, why: str) -> None:
    with pytest.raises(MeasurementError) as error:
        read_folded([b"comm;f 1", line])
    assert "line 2" in error.value.what
    assert why in error.value.what
    assert error.value.mend


@pytest.mark.parametrize("some", [[], [Stack(("comm", "f"), 0)]])
def test_no_weight_is_an_error_with_a_mend(some: list[Stack]) -> None:
    with pytest.raises(MeasurementError, match="nothing to draw") as error:
        FrameTree(some)
    assert error.value.means
    assert error.value.mend


def test_totals_and_own_weights_add_up() -> None:
    tree = FrameTree(stacks(), NAMES)
    assert tree.total == sum(int(line.split(b"\t")[3]) for line in LINES)
    assert sum(tree.own) == tree.total
    node = tree.name.index("rocksdb::Version::Get")
    assert tree.weight[node] == total(stacks(), VERSION_GET)
    for i in range(len(tree)):
        children, below = 0, i + 1
        while below < tree.end[i]:
            assert tree.depth[below] == tree.depth[i] + 1
            children += tree.weight[below]
            below = tree.end[below]
        assert tree.weight[i] == children + tree.own[i]


def test_the_category_begins_at_the_anchor() -> None:
    tree = FrameTree(stacks(), NAMES)
    category = {name: NAMES[tree.category[i]] for i, name in enumerate(tree.name)}
    assert category["rocksdb::BlockFetcher::ReadBlockContents"] == "other"
    assert category["__libc_pread"] == "libc+k"
    assert category["__schedule_[k]"] == "libc+k"


def test_category_weights_are_those_of_the_lines() -> None:
    tree = FrameTree(stacks(), NAMES)
    truth = dict.fromkeys(NAMES, 0)
    for line in LINES:
        category, _, _, weight, _ = line.split(b"\t")
        truth[category.decode()] += int(weight)
    assert dict(zip(NAMES, tree.category_weights(), strict=True)) == truth
    assert truth["LRU"] == 0


def test_one_name_in_two_categories_is_two_nodes() -> None:
    tree = FrameTree([Stack(("c", "f"), 3, 1, "LRU", 1), Stack(("c", "f"), 4, 1)], ["LRU", "other"])
    assert tree.name == ["all", "c", "f", "f"]
    assert tree.category_weights() == [3, 4]


def test_the_order_of_the_stacks_does_not_matter() -> None:
    shuffled = stacks()
    random.Random(7).shuffle(shuffled)
    assert vars(FrameTree(shuffled, NAMES)) == vars(FrameTree(stacks(), NAMES))


def test_siblings_are_in_the_order_of_their_bytes() -> None:
    names = ["z", "A", "a", "\u00e9", "\U0001f600", "\uffee", "_"]
    tree = FrameTree([Stack((name,), 1) for name in names])
    assert tree.name[1:] == sorted(names, key=lambda name: name.encode())


def test_samples_are_unknown_when_one_stack_has_none() -> None:
    assert FrameTree([Stack(("a",), 1, 5), Stack(("b",), 1, 6)]).samples == [11, 5, 6]
    assert FrameTree([Stack(("a",), 1, 5), Stack(("b",), 1)]).samples is None


def test_a_very_deep_stack_is_no_trouble() -> None:
    tree = FrameTree([Stack(tuple(f"f{i}" for i in range(50_000)), 1)])
    assert max(tree.depth) == 50_000
    assert set(tree.end) == {50_001}


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"plain", "plain"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"a\x00b\x1b[31mc\x7f", "a\ufffdb\ufffd[31mc\ufffd"),
        ("left\u202eright", "left\ufffdright"),
        ("\ufffe\uffff\ud800", "\ufffd\ufffd\ufffd"),
        ("\u05d0\u05d1 \U0001f600", "\u05d0\u05d1 \U0001f600"),
    ],
)
def test_printable(raw: bytes | str, shown: str) -> None:
    assert printable(raw) == shown
