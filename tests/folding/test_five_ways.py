"""One program built in five ways by two compilers, recorded, and compared frame by frame."""

from __future__ import annotations

import functools
import itertools
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from folding.frames import ProfileRun, compare_frames
from ground.results.frame_differences import FrameDifferences, FrameFigure
from tests.figures import Report
from tests.folding.recordings import record, run
from tests.programs import compiled

pytestmark = pytest.mark.needs("perf", "clang")

SOURCE = Path(__file__).parent / "five_ways.cc"
WAYS = ("PLAIN", "INLINED", "RENAMED", "SPLIT", "MOVED")
COMPILERS = ("g++", "g++ -flto", "clang++", "clang++ -flto")
QUERIES = 30_000
# What all of a program costs: shares are compared, so that a CPU that is busier for one than for another is no matter.
US_PER_QUERY = 100.0


@dataclass(frozen=True)
class Built:
    """A program's profiles, by whether its file still had its symbols and debug information when it was folded."""

    named: Path
    stripped: Path


Maker = Callable[[str, str], Built]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    directory = tmp_path_factory.mktemp("five-ways")

    def folded(binary: Path, name: str) -> Path:
        options = ["-q", "--kernel", "--all-annotations", "--slice-ms", "20", "--profile", str(binary.with_name(name))]
        done = run(*options, binary.with_name("data"))
        assert done.returncode == 0, done.stderr
        return binary.with_name(name)

    @functools.cache
    def made(way: str, compiler: str) -> Built:
        place = directory / f"{way}-{compiler.replace(' ', '')}"
        place.mkdir()
        flags = ["-std=c++17", "-O2", "-g1", "-fno-omit-frame-pointer", f"-DWAY={way}"]
        binary = compiled(SOURCE, place / "prog", *flags, compiler=compiler)
        # Of user space alone: whose interrupts the kernel serves meanwhile is another's matter.
        options = ["-e", "cpu-clock:u", "-F", "4999", "--call-graph", "fp"]
        record(place / "data", options, binary, str(QUERIES))
        named = folded(binary, "named.json")
        subprocess.run(["strip", binary], check=True)
        return Built(named, folded(binary, "stripped.json"))

    return made


@pytest.fixture
def compared(tmp_path: Path) -> Callable[[Path, Path], FrameDifferences]:
    def compare(before: Path, after: Path) -> FrameDifferences:
        sides = [(name, [ProfileRun(path, QUERIES, US_PER_QUERY)]) for name, path in (("A", before), ("B", after))]
        return compare_frames(sides, tmp_path / "frames.json")

    return compare


Compare = Callable[[Path, Path], FrameDifferences]


def function(found: FrameDifferences, name: str) -> FrameFigure:
    return next(row.total for row in found.functions if found.names[row.name] == name)


def new_us(found: FrameDifferences) -> float:
    """us per query of the topmost frames that count as new."""
    nodes, total, inside = found.nodes, 0.0, -1
    for place, depth in enumerate(nodes.depth):
        if 0 <= inside < depth:
            continue
        inside = -1
        if nodes.different[place] and not nodes.samples_before[place]:
            total += nodes.after[place]
            inside = depth
    return total


@pytest.mark.long
def test_a_recording_against_itself_has_no_different_frame_with_and_without_names(
    built: Maker, compared: Compare
) -> None:
    for compiler in ("g++", "clang++ -flto"):
        one = built("INLINED", compiler)
        for profile in (one.named, one.stripped):
            found = compared(profile, profile)
            assert found.totals.different_nodes == 0 and not found.explanation and not found.moved
        assert new_us(compared(one.named, one.stripped)) == 0


@pytest.mark.by_hand
def test_only_what_costs_more_differs_however_it_was_built(built: Maker, compared: Compare, figure: Report) -> None:
    base = built("PLAIN", "g++")
    figures = [
        function(compared(before.named, after.named), "eng::checksum")
        for before, after in itertools.combinations(itertools.starmap(built, itertools.product(WAYS, COMPILERS)), 2)
    ]
    figure(f"of {len(figures)} pairs differ in the unchanged function", sum(one.different for one in figures),
           expected="0")  # fmt: skip
    slower = function(compared(base.named, built("SLOWER", "g++").named), "eng::checksum")
    middle = (slower.low + slower.high) / 2
    # 3000 turns of 7000 against 12000 of 16000, of 100 us.
    figure("the slower one's more, us", middle, slower.low, slower.high, expected=f"{75 - 3000 / 70:.1f}")
    stripped = [new_us(compared(base.named, built(way, compiler).stripped)) for way in WAYS for compiler in COMPILERS]
    figure("new in a stripped program, at most, us of 100", max(stripped), expected="less than 1")
    wanted = {
        "PLAIN": set(),
        # clang's -g1 names an inlined function without its scope.
        "INLINED": {("similar", "eng::Engine::process", "process_[i]")},
        "RENAMED": {("callees", "eng::Engine::process", "eng::Engine::handle_all")},
        "MOVED": {("similar", "eng::Engine::process", "eng::Machine::process")},
    }
    for way, matches in wanted.items():
        found = compared(base.named, built(way, "clang++").named)
        same = {(one.rule, one.before, one.after) for one in found.matches if "eng::" in one.before} == matches
        figure(f"{way}: matched as it was built", same, expected="1")
