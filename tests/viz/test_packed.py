"""The packed profile: what goes in comes out, in Python and in the script of the page alike."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.viz.categorised import read_categorised
from tests.viz.conftest import Opener
from tests.viz.runs import leaf_of, view
from tests.viz.samples import CATEGORIES, stacks
from tests.viz.test_hostile_names import NAMES
from tests.viz.unpacked import unpack
from viz.flame.embedded import pack
from viz.flame.stacks import Stack
from viz.flame.tree import FrameTree
from viz.page.report import render_report


def rows(some: list[tuple[Stack, str | None]]) -> list[tuple[Any, ...]]:
    return sorted(
        (s.frames, s.weight, s.samples, s.category, s.anchor_depth, leaf, s.objects, s.thread) for s, leaf in some
    )


def packed(some: list[Stack]) -> dict[str, Any]:
    return pack(FrameTree(some, [name for name, _ in CATEGORIES]), dict(CATEGORIES), leaf_of(some))


def test_every_stack_comes_back_with_its_categories() -> None:
    assert rows(unpack(packed(stacks()))) == rows([(s, leaf_of(stacks())[s.frames]) for s in stacks()])


def test_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="format 1"):
        unpack({**packed(stacks()), "format": 1})


frames = st.lists(st.sampled_from(["a", "b::c", "d_[k]", "\u00e9", "<x>"]), min_size=1, max_size=6).map(tuple)


@settings(deadline=None)
@given(st.dictionaries(frames, st.integers(1, 2**70), min_size=1, max_size=12))
def test_any_stacks_come_back(some: dict[tuple[str, ...], int]) -> None:
    made = [Stack(path, weight, 1) for path, weight in some.items()]
    assert rows(unpack(packed(made))) == rows([(s, leaf_of(made)[s.frames]) for s in made])


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


def test_one_name_of_two_objects_is_two_names() -> None:
    data = packed(DETAILED)
    assert data["names"] == ["all", "c", "copy", "copy", "d", "main", "x_[k]", "c/9", "c/10", "d/11"]
    assert data["objects"] == ["", "/bin/db", "/lib/libc.so.6", "[kernel.kallsyms]"]
    assert [data["objects"][place] for place in data["object"]][2:4] == ["/bin/db", "/lib/libc.so.6"]
    assert rows(unpack(data)) == rows([(s, leaf_of(DETAILED)[s.frames]) for s in DETAILED])


STACKS = """(() => { const p = ioflameRuns[0].profile; const { data } = p; return Array.from(p.ends, (node, s) => {
  const nodes = p.nodesOf(s); const inside = data.categories[p.category[node]][0];
  const objects = nodes.map((i) => p.objectOf(p.name[i]));
  return [nodes.map((i) => data.names[p.name[i]]), String(p.exactOf([s])), p.samplesOf ? p.samplesOf(s) : null, inside,
    inside === "other" ? -1 : nodes.findIndex((i) => p.category[i] === p.category[node]),
    p.leafOf ? data.leaves[p.leafOf(s)][0] : null, objects.some(Boolean) ? objects : [],
    p.threadOf && p.threadOf(s) >= 0 ? data.names[p.threadOf(s)] : ""]; }); })()"""


@pytest.mark.needs("chromium")
@pytest.mark.parametrize("some", [stacks(), HOSTILE, BIG, DETAILED], ids=["sample", "hostile", "big", "detailed"])
def test_the_script_reads_what_python_reads(chromium_page: Opener, some: list[Stack]) -> None:
    page = chromium_page.html(render_report([view(some)]))
    read = page.evaluate(STACKS)
    seen = sorted((tuple(frames), int(weight), *rest, tuple(objects), thread)
                  for frames, weight, *rest, objects, thread in read)  # fmt: skip
    assert seen == rows(unpack(pack(FrameTree(some, [n for n, _ in CATEGORIES]), {}, leaf_of(some))))
