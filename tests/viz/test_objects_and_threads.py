"""Objects and threads of the stacks that a page shows, checked against the text they come from."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from folding.stackfold import stackfold_binary
from ground.results.profile import read_profile
from tests.places import RECORDINGS
from tests.viz.conftest import Opener
from tests.viz.runs import view
from viz.flame.stacks import Stack, read_folded, stacks_of
from viz.page.report import render_report

CAPTURE = RECORDINGS / "readrandom_fp.txt"


@pytest.fixture(scope="module")
def folded(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Stack], list[Stack]]:
    """The capture as folded text has it, and as a profile has it; with its threads made two."""
    directory = tmp_path_factory.mktemp("folded")
    first, second = (
        re.sub(rb"^(\S.*?)(\d+)( +\d+\.\d+: )", rb"\1\2/%s\2\3" % mark, CAPTURE.read_bytes(), flags=re.M)
        for mark in (b"", b"7")
    )
    argv = [stackfold_binary(), "-q", "--kernel", "-o", "stacks", "--counts", "counts", "--profile", "profile.json"]
    subprocess.run(argv, cwd=directory, input=first + b"\n" + second, check=True)
    counts = {stack.frames: stack.weight for stack in read_folded((directory / "counts").read_bytes().splitlines())}
    stacks = read_folded((directory / "stacks").read_bytes().splitlines())
    return [replace(s, samples=counts[s.frames]) for s in stacks], stacks_of(read_profile(directory / "profile.json"))


def by_frames(weighed: list[Stack]) -> Counter[tuple[str, ...]]:
    sums: Counter[tuple[str, ...]] = Counter()
    for one in weighed:
        sums[one.frames] += one.weight
    return sums


def objects_of_leaves() -> Counter[str]:
    """By regular expressions on the capture itself: what the bottom frames of each object weigh, twice."""
    sums: Counter[str] = Counter()
    for sample in CAPTURE.read_text().split("\n\n"):
        found = re.match(r"\s*\S.*?\s(\d+)\s+\S+:\s*\n\s+[0-9a-f]+ .*\((.+)\)$", sample, re.M)
        if found:
            sums[found[2]] += 2 * int(found[1])
    return sums


def test_a_profile_holds_the_folded_stacks_with_the_objects_of_the_text(
    folded: tuple[list[Stack], list[Stack]],
) -> None:
    stacks, detailed = folded
    assert by_frames(detailed) == by_frames(stacks)
    assert sum(stack.samples or 0 for stack in detailed) == sum(stack.samples or 0 for stack in stacks) > 0
    leaves: Counter[str] = Counter()
    for stack in detailed:
        leaves[stack.objects[-1] or "[unknown]"] += stack.weight
        for frame, name in zip(stack.frames, stack.objects, strict=True):
            assert frame.endswith("_[k]") == name.startswith("[kernel")
    assert leaves == objects_of_leaves() and len(leaves) > 3
    threads: Counter[str] = Counter()
    for stack in detailed:
        threads[stack.thread] += stack.weight
    assert len(threads) == 2 and len(set(threads.values())) == 1


@pytest.mark.needs("chromium")
def test_the_page_shows_threads_and_objects(chromium_page: Opener, folded: tuple[list[Stack], list[Stack]]) -> None:
    _, split = folded
    total = sum(stack.weight for stack in split)
    page = chromium_page.html(render_report([view(split)]), fragment="#threads=split&colour=group")
    threads = sorted({stack.thread for stack in split})
    rows = page.evaluate(
        "(() => { const { graph: g } = ioflameRuns[0]; return g.boxes.filter(b => b.part.tree.depth[b.node] === 1)"
        ".map(b => [g.nameOf(b.part.tree, b.node), b.part.tree.weight[b.node]]); })()"
    )
    assert sorted(map(tuple, rows)) == [(thread, total // 2) for thread in threads]
    legend = page.locator('[data-for="group"]').inner_text()
    for name, weight in objects_of_leaves().most_common(5):
        short = "kernel" if name.startswith("[kernel") else "no object" if name == "[unknown]" else Path(name).name
        assert f"{short} {100 * weight / total:.2f} %" in legend
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


@pytest.mark.needs("chromium")
def test_without_objects_and_threads_none_is_offered(chromium_page: Opener) -> None:
    page = chromium_page.html(render_report([view()]), fragment="#threads=split")
    assert page.locator('[data-part="threads"]').input_value() == "name"
    assert page.locator('[data-part="threads"] option:not([hidden])').count() == 2
    assert not page.locator("th[data-for=object]").is_visible()
    assert page.locator('[data-part="colour"] option[value="group"]').inner_text() == "namespace, by name"
