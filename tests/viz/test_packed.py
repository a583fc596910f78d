"""Stacks: how they are read, the tree they make, and how they are packed for the page's script."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import pytest

from folding.stackfold import run_stackfold
from ground.errors import MeasurementError
from ground.results.profile import read_profile
from ground.text.titles import title_of
from tests.places import RECORDINGS
from tests.viz.categorised import read_categorised
from tests.viz.conftest import Opener
from tests.viz.runs import leaf_of, view
from tests.viz.samples import CATEGORIES, LINES, VERSION_GET, stacks, total
from tests.viz.test_hostile_names import NAMES
from viz.flame.embedded import pack
from viz.flame.stacks import Stack, read_folded, stacks_of
from viz.flame.tree import FrameTree
from viz.page.report import render_report
from viz.printable import printable

# ---- read, and made a tree -------------------------------------------------------------------------------------------
CATEGORY_NAMES = [name for name, _ in CATEGORIES]


def test_a_folded_line_may_hold_spaces_and_a_bad_one_is_named_with_its_fault() -> None:
    whole = Stack(("my comm", "(anonymous namespace)::f"), 12)
    assert read_folded([b"my comm;(anonymous namespace)::f 12\n"]) == [whole]
    for line, why in (
        (b"comm;f", "no stack before the weight"), (b" 12", "no stack before the weight"),
        (b"comm;f twelve", "weight 'twelve'"), (b"comm;f 9.5", "weight '9.5'"), (b"comm;f -9", "weight '-9'"),
        (b"comm;f 1_0", "weight '1_0'"),
    ):  # fmt: skip
        with pytest.raises(MeasurementError) as error:
            read_folded([b"comm;f 1", line])
        assert "line 2" in error.value.what and why in error.value.what and error.value.mend
    for some in ([], [Stack(("comm", "f"), 0)]):
        with pytest.raises(MeasurementError, match="nothing to draw") as error:
            FrameTree(some)
        assert error.value.means and error.value.mend


def test_totals_and_own_weights_add_up() -> None:
    tree = FrameTree(stacks(), CATEGORY_NAMES)
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
    # So do those of categories.
    truth = dict.fromkeys(CATEGORY_NAMES, 0)
    for line in LINES:
        category, _, _, weight, _ = line.split(b"\t")
        truth[category.decode()] += int(weight)
    assert dict(zip(CATEGORY_NAMES, tree.category_weights(), strict=True)) == truth
    assert truth["LRU"] == 0


def test_the_category_begins_at_the_anchor_and_one_name_in_two_is_two_nodes() -> None:
    tree = FrameTree(stacks(), CATEGORY_NAMES)
    category = {name: CATEGORY_NAMES[tree.category[i]] for i, name in enumerate(tree.name)}
    assert category["rocksdb::BlockFetcher::ReadBlockContents"] == "other"
    assert category["__libc_pread"] == "libc+k"
    assert category["__schedule_[k]"] == "libc+k"
    tree = FrameTree([Stack(("c", "f"), 3, 1, "LRU", 1), Stack(("c", "f"), 4, 1)], ["LRU", "other"])
    assert tree.name == ["all", "c", "f", "f"]
    assert tree.category_weights() == [3, 4]


def test_the_order_of_stacks_does_not_matter_and_siblings_are_in_that_of_their_bytes() -> None:
    shuffled = stacks()
    random.Random(7).shuffle(shuffled)
    assert vars(FrameTree(shuffled, CATEGORY_NAMES)) == vars(FrameTree(stacks(), CATEGORY_NAMES))
    names = ["z", "A", "a", "\u00e9", "\U0001f600", "\uffee", "_"]
    tree = FrameTree([Stack((name,), 1) for name in names])
    assert tree.name[1:] == sorted(names, key=lambda name: name.encode())


def test_samples_are_unknown_when_one_stack_has_none() -> None:
    assert FrameTree([Stack(("a",), 1, 5), Stack(("b",), 1, 6)]).samples == [11, 5, 6]
    assert FrameTree([Stack(("a",), 1, 5), Stack(("b",), 1)]).samples is None
    # A very deep stack is no trouble.
    tree = FrameTree([Stack(tuple(f"f{i}" for i in range(50_000)), 1)])
    assert max(tree.depth) == 50_000
    assert set(tree.end) == {50_001}


def test_what_cannot_be_printed_is_replaced() -> None:
    for raw, shown in (
        (b"plain", "plain"), (b"\xff\xfe", "\ufffd\ufffd"), (b"a\x00b\x1b[31mc\x7f", "a\ufffdb\ufffd[31mc\ufffd"),
        ("left\u202eright", "left\ufffdright"), ("\ufffe\uffff\ud800", "\ufffd\ufffd\ufffd"),
        ("\u05d0\u05d1 \U0001f600", "\u05d0\u05d1 \U0001f600"),
    ):  # fmt: skip
        assert printable(raw) == shown


# ---- packed ----------------------------------------------------------------------------------------------------------
HOSTILE = read_categorised(b"bloom\t1\t1\t%d\tcomm;%s;inner" % (1000 + i, name) for i, name in enumerate(NAMES))
BIG = [Stack(("c", "f"), 2**60 + 1, 3), Stack(("c", "g_[k]"), 2, 1), Stack(("c",), 2**53 + 1, 1)]

# one function of two objects, one stack of two threads, a thread nobody knows
DETAILED = [
    Stack(("c", "main", "copy"), 5, 1, objects=("", "/bin/db", "/lib/libc.so.6"), thread="c/9"),
    Stack(("c", "main", "copy"), 7, 2, objects=("", "/bin/db", "/lib/libc.so.6"), thread="c/10"),
    Stack(("c", "main", "copy"), 11, 3, objects=("", "/bin/db", "/bin/db"), thread="c/10"),
    Stack(("c", "main"), 13, 4, objects=("", "/bin/db")),
    Stack(("d", "x_[k]"), 17, 5, objects=("", "[kernel.kallsyms]"), thread="d/11"),
]


def any_stacks() -> list[Stack]:
    """Trees of any shape, some of them heavier than a number of JavaScript holds."""
    dice, names = random.Random(13), ("a", "b::c", "d_[k]", "\u00e9", "<x>")
    paths = {tuple(dice.choices(names, k=dice.randint(1, 6))) for _ in range(300)}
    return [Stack(path, dice.randint(1, 2 ** dice.randint(1, 70)), 1) for path in sorted(paths)]


def test_one_name_of_two_objects_is_two_names() -> None:
    data = pack(FrameTree(DETAILED), {})
    assert data["names"] == ["all", "c", "copy", "copy", "d", "main", "x_[k]", "c/9", "c/10", "d/11"]
    assert data["objects"] == ["", "/bin/db", "/lib/libc.so.6", "[kernel.kallsyms]"]
    assert [data["objects"][place] for place in data["object"]][2:4] == ["/bin/db", "/lib/libc.so.6"]


STACKS = """(() => { const p = ioflameRuns[0].profile; const { data } = p; return Array.from(p.ends, (node, s) => {
  const nodes = p.nodesOf(s); const inside = data.categories[p.category[node]][0];
  const objects = nodes.map((i) => p.objectOf(p.name[i]));
  return [nodes.map((i) => data.names[p.name[i]]), String(p.exactOf([s])), p.samplesOf ? p.samplesOf(s) : null, inside,
    inside === "other" ? -1 : nodes.findIndex((i) => p.category[i] === p.category[node]),
    p.leafOf ? data.leaves[p.leafOf(s)][0] : null, objects.some(Boolean) ? objects : [],
    p.threadOf && p.threadOf(s) >= 0 ? data.names[p.threadOf(s)] : ""]; }); })()"""


@pytest.mark.long
@pytest.mark.needs("chromium")
@pytest.mark.parametrize(
    "some", [stacks(), HOSTILE, BIG, DETAILED, any_stacks()], ids=["sample", "hostile", "big", "detailed", "any"]
)
def test_the_script_reads_every_stack_with_its_categories(chromium_page: Opener, some: list[Stack]) -> None:
    page = chromium_page.html(render_report([view(some)]))
    read = page.evaluate(STACKS)
    seen = sorted((tuple(frames), int(weight), *rest, tuple(objects), thread)
                  for frames, weight, *rest, objects, thread in read)  # fmt: skip
    leaves = leaf_of(some)
    # A page has titles of categories.
    assert seen == sorted(
        (
            one.frames, one.weight, one.samples, title_of(one.category), one.anchor_depth,
            title_of(leaves[one.frames]), one.objects, one.thread,
        )
        for one in some
    )  # fmt: skip


# ---- with objects and threads ----------------------------------------------------------------------------------------
CAPTURE = RECORDINGS / "readrandom_fp.txt"


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> list[Stack]:
    """The capture as a profile has it, with its threads made two."""
    profile = tmp_path_factory.mktemp("folded") / "profile.json"
    first, second = (
        re.sub(rb"^(\S.*?)(\d+)( +\d+\.\d+: )", rb"\1\2/%s\2\3" % mark, CAPTURE.read_bytes(), flags=re.M)
        for mark in (b"", b"7")
    )
    run_stackfold(["--kernel", "-"], profile, data=first + b"\n" + second).require("stackfold")
    return stacks_of(read_profile(profile))


def objects_of_leaves() -> Counter[str]:
    """By regular expressions on the capture itself: what the bottom frames of each object weigh, twice."""
    sums: Counter[str] = Counter()
    for sample in CAPTURE.read_text().split("\n\n"):
        found = re.match(r"\s*\S.*?\s(\d+)\s+\S+:\s*\n\s+[0-9a-f]+ .*\((.+)\)$", sample, re.M)
        if found:
            sums[found[2]] += 2 * int(found[1])
    return sums


def test_a_profile_holds_the_objects_of_the_text_and_the_threads(split: list[Stack]) -> None:
    leaves: Counter[str] = Counter()
    threads: Counter[str] = Counter()
    for stack in split:
        leaves[stack.objects[-1] or "[unknown]"] += stack.weight
        threads[stack.thread] += stack.weight
        for frame, name in zip(stack.frames, stack.objects, strict=True):
            assert frame.endswith("_[k]") == name.startswith("[kernel")
    assert leaves == objects_of_leaves() and len(leaves) > 3
    assert len(threads) == 2 and len(set(threads.values())) == 1


@pytest.mark.long
@pytest.mark.needs("chromium")
def test_the_page_shows_threads_and_objects(chromium_page: Opener, split: list[Stack]) -> None:
    whole = sum(stack.weight for stack in split)
    page = chromium_page.html(render_report([view(split)]), fragment="#threads=split&colour=group")
    threads = sorted({stack.thread for stack in split})
    rows = page.evaluate(
        "(() => { const { graph: g } = ioflameRuns[0]; return g.boxes.filter(b => b.part.tree.depth[b.node] === 1)"
        ".map(b => [g.nameOf(b.part.tree, b.node), b.part.tree.weight[b.node]]); })()"
    )
    assert sorted(map(tuple, rows)) == [(thread, whole // 2) for thread in threads]
    legend = page.locator('[data-for="group"]').inner_text()
    for name, weight in objects_of_leaves().most_common(5):
        short = "kernel" if name.startswith("[kernel") else "no object" if name == "[unknown]" else Path(name).name
        assert f"{short} {100 * weight / whole:.2f} %" in legend
    # one thread is found by its name, and its share is shown
    page.locator('[data-part="search"]').fill(threads[0])
    assert page.locator('[data-part="found"]').inner_text().startswith("matched 50.00 % of all")
    page.reload()
    assert page.locator('[data-part="threads"]').input_value() == "split"
    page.select_option('[data-part="threads"]', "name")
    assert page.locator('[data-part="found"]').inner_text() == "no frame matches"
    # the tooltip names the object, and so does the table of functions
    page.locator("canvas").hover(position={"x": 300, "y": 18 * 2 + 9})
    assert "/" in page.locator('[data-part="tip"] dd').first.inner_text()
    assert page.locator("td.object").first.inner_text()
    # Without objects and threads none is offered.
    page = chromium_page.html(render_report([view()]), fragment="#threads=split")
    assert page.locator('[data-part="threads"]').input_value() == "name"
    assert page.locator('[data-part="threads"] option:not([hidden])').count() == 2
    assert not page.locator("th[data-for=object]").is_visible()
    assert page.locator('[data-part="colour"] option[value="group"]').inner_text() == "namespace, by name"
