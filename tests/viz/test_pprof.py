"""What pprof adds to the stacks: objects and threads, checked against the text they come from."""

from __future__ import annotations

import gzip
import re
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from folding.stackfold import stackfold_binary
from ioflame.errors import MeasurementError
from tests.viz.conftest import Opener
from tests.viz.runs import view
from viz.details import detailed, undetailed_weight
from viz.frames import Stack, read_folded
from viz.pprof import Pprof, Sample, read_pprof
from viz.report import render_report, render_stacks

CAPTURE = Path(__file__).parents[2] / "folding" / "tests" / "data" / "readrandom_fp.txt"


@pytest.fixture(scope="module")
def folded(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Stack], Pprof]:
    """The capture as folded stacks and as pprof, with its threads made two."""
    directory = tmp_path_factory.mktemp("folded")
    first, second = (
        re.sub(rb"^(\S.*?)(\d+)( +\d+\.\d+: )", rb"\1\2/%s\2\3" % mark, CAPTURE.read_bytes(), flags=re.M)
        for mark in (b"", b"7")
    )
    argv = [stackfold_binary(), "-q", "--kernel", "-o", "stacks", "--counts", "counts", "--pprof", "stacks.pb.gz"]
    subprocess.run(argv, cwd=directory, input=first + b"\n" + second, check=True)
    counts = {stack.frames: stack.weight for stack in read_folded((directory / "counts").read_bytes().splitlines())}
    stacks = read_folded((directory / "stacks").read_bytes().splitlines())
    return [replace(s, samples=counts[s.frames]) for s in stacks], read_pprof(directory / "stacks.pb.gz")


def by_frames(weighed: list[Stack] | list[Sample]) -> Counter[tuple[str, ...]]:
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


def test_pprof_holds_the_folded_stacks_with_the_objects_of_the_text(folded: tuple[list[Stack], Pprof]) -> None:
    stacks, known = folded
    assert known.unit == "ns"
    assert by_frames(known.samples) == by_frames(stacks)
    leaves: Counter[str] = Counter()
    for sample in known.samples:
        leaves[sample.objects[-1] or "[unknown]"] += sample.weight
        for frame, name in zip(sample.frames, sample.objects, strict=True):
            assert frame.endswith("_[k]") == name.startswith("[kernel")
    assert leaves == objects_of_leaves() and len(leaves) > 3


def test_stacks_are_split_by_thread_without_loss(folded: tuple[list[Stack], Pprof]) -> None:
    stacks, known = folded
    split = detailed(stacks, known.samples)
    assert by_frames(split) == by_frames(stacks) and undetailed_weight(split) == 0
    threads: Counter[str] = Counter()
    for stack in split:
        threads[stack.thread] += stack.weight
    assert len(threads) == 2 and len(set(threads.values())) == 1
    assert sum(stack.samples or 0 for stack in split) == sum(stack.samples or 0 for stack in stacks)


def test_a_stack_that_does_not_add_up_stays_as_it_is(folded: tuple[list[Stack], Pprof]) -> None:
    stacks, known = folded
    others = [replace(stacks[0], weight=stacks[0].weight + 1), *stacks[1:], Stack(("new",), 5, 1)]
    split = detailed(others, known.samples)
    assert by_frames(split) == by_frames(others)
    assert undetailed_weight(split) == stacks[0].weight + 1 + 5


@given(st.binary(max_size=60), st.integers(0, 400))
def test_what_is_no_pprof_is_said_to_be_none(tmp_path_factory: pytest.TempPathFactory, junk: bytes, cut: int) -> None:
    path = tmp_path_factory.mktemp("junk") / "x.pb.gz"
    for data in (junk, b"\x1f\x8b" + junk, gzip.compress(junk)[: cut + 1]):
        path.write_bytes(data)
        with pytest.raises(MeasurementError, match=r"x\.pb\.gz (is no pprof|cannot be read)"):
            read_pprof(path)


@pytest.mark.needs("chromium")
def test_the_page_shows_threads_and_objects(chromium_page: Opener, folded: tuple[list[Stack], Pprof]) -> None:
    stacks, known = folded
    split = detailed(stacks, known.samples)
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
    # one thread is found by its name, and its share is told
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


def number(field: int, value: int) -> bytes:
    out = bytearray([field << 3])
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def message(field: int, content: bytes) -> bytes:
    return bytes([field << 3 | 2]) + number(0, len(content))[1:] + content


def with_lines() -> bytes:
    """By hand, from profile.proto: `copy` inlined into `main`, at two lines of one file; one weighs more."""
    strings = [
        "",
        "cpu",
        "nanoseconds",
        "/bin/app",
        "copy",
        "copy.h",
        "main",
        "main.cc",
        "comm",
        "app",
        "tid",
        "no lines",
    ]
    table = b"".join(message(6, text.encode()) for text in strings)
    functions = b"".join(
        message(5, number(1, place) + number(2, name) + number(4, file))
        for place, name, file in ((1, 4, 5), (2, 6, 7), (3, 11, 0))
    )

    def location(place: int, *lines: tuple[int, int]) -> bytes:
        made = b"".join(message(4, number(1, function) + number(2, line)) for function, line in lines)
        return message(4, number(1, place) + number(2, 1) + made)

    locations = location(1, (1, 31), (2, 7)) + location(2, (1, 44), (2, 300)) + location(3, (3, 0))

    def sample(place: int, weight: int) -> bytes:
        labels = message(3, number(1, 8) + number(2, 9)) + message(3, number(1, 10) + number(3, 12345))
        return message(
            2, message(1, number(0, place)[1:] + number(0, 3)[1:]) + message(2, number(0, weight)[1:]) + labels
        )

    mapping = message(3, number(1, 1) + number(5, 3))
    types = message(1, number(1, 1) + number(2, 2))
    return types + sample(1, 1000) + sample(2, 1001) + mapping + locations + functions + table


def test_source_lines_are_those_that_weigh_most(tmp_path: Path) -> None:
    (tmp_path / "x.pb").write_bytes(with_lines())
    known = read_pprof(tmp_path / "x.pb")
    frames, objects = ("app", "no lines", "main", "copy"), ("", "/bin/app", "/bin/app", "/bin/app")
    assert known.samples == [Sample(frames, objects, "app/12345", weight, None) for weight in (1000, 1001)]
    assert known.sources == {("copy", "/bin/app"): "copy.h:44", ("main", "/bin/app"): "main.cc:300"}


def test_what_we_wrote_by_hand_is_pprof(tmp_path: Path) -> None:
    """The file above, judged by stackfold's reader."""
    (tmp_path / "x.pb").write_bytes(with_lines())
    done = subprocess.run(
        [stackfold_binary(), "-q", str(tmp_path / "x.pb")], check=True, capture_output=True, text=True
    )
    assert done.stdout == "app;no lines;main;copy 2001\n"


@pytest.mark.needs("chromium")
def test_the_tooltip_names_the_source_line(chromium_page: Opener, tmp_path: Path) -> None:
    (tmp_path / "x.pb").write_bytes(with_lines())
    known = read_pprof(tmp_path / "x.pb")
    stacks = detailed([Stack(("app", "no lines", "main", "copy"), 2001)], known.samples)
    page = chromium_page.html(render_stacks(stacks, "t", "ns", sources=known.sources))
    page.locator("canvas").hover(position={"x": 300, "y": 18 * 4 + 9})
    tip = page.locator('[data-part="tip"]').inner_text()
    assert "object\n/bin/app" in tip and "source\ncopy.h:44" in tip
    page.locator("canvas").hover(position={"x": 301, "y": 18 * 2 + 9})
    assert "source" not in page.locator('[data-part="tip"]').inner_text()


@pytest.mark.parametrize("large", ["unpacked", "frames"])
def test_a_few_kilobytes_that_unpack_to_gigabytes_are_refused(tmp_path: Path, large: str) -> None:
    path = tmp_path / "stacks.pb.gz"
    if large == "unpacked":
        with gzip.open(path, "wb", compresslevel=1) as file:
            for _ in range(1 << 9):
                file.write(bytes(1 << 20))
    else:
        # One stack of 30,000 locations, each of 1,000 inlined lines.
        location = message(4, number(1, 9) + message(4, number(1, 1)) * 1000)
        sample = message(2, message(1, number(0, 9)[1:] * 30_000) + message(2, number(0, 1)[1:]))
        path.write_bytes(gzip.compress(with_lines() + location + sample, 1))
    assert path.stat().st_size < 4 << 20
    with pytest.raises(MeasurementError, match=r"unpacks to more than 256\.0 MiB|more than 20,000,000 frames"):
        read_pprof(path)
