"""One program built in five ways by two compilers, recorded, and compared frame by frame in all pairs."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from folding.frames import ProfileRun, compare_frames
from ground.results.frame_differences import FrameDifferences, FrameFigure
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


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Built]:
    directory = tmp_path_factory.mktemp("five-ways")
    wanted = [*itertools.product(WAYS, COMPILERS), ("SLOWER", "g++")]

    def program(way: str, compiler: str) -> Path:
        place = directory / f"{way}-{compiler.replace(' ', '')}"
        place.mkdir()
        flags = ["-std=c++17", "-O2", "-g1", "-fno-omit-frame-pointer", f"-DWAY={way}"]
        return compiled(SOURCE, place / "prog", *flags, compiler=compiler)

    def folded(binary: Path, name: str) -> Path:
        profile = binary.with_name(name)
        done = run(
            "-q", "--kernel", "--all-annotations", "--slice-ms", "20", "--profile", profile, binary.with_name("data")
        )
        assert done.returncode == 0, done.stderr
        return profile

    def made(way: str, compiler: str) -> Built:
        binary = program(way, compiler)
        # Of user space alone: whose interrupts the kernel serves meanwhile is another's matter.
        options = ["-e", "cpu-clock:u", "-F", "4999", "--call-graph", "fp"]
        record(binary.with_name("data"), options, binary, str(QUERIES))
        named = folded(binary, "named.json")
        subprocess.run(["strip", binary], check=True)
        return Built(named, folded(binary, "stripped.json"))

    # perf takes its time to begin and to end, without a CPU; shares are compared, so neighbours do no harm.
    with ThreadPoolExecutor(4) as pool:
        return dict(zip(wanted, pool.map(lambda one: made(*one), wanted), strict=True))


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path, Path], FrameDifferences]:
    out = tmp_path_factory.mktemp("compared") / "frames.json"

    def compare(before: Path, after: Path) -> FrameDifferences:
        sides = [(name, [ProfileRun(path, QUERIES, US_PER_QUERY)]) for name, path in (("A", before), ("B", after))]
        return compare_frames(sides, out)

    return compare


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


def test_the_unchanged_function_is_unchanged_in_every_pair(
    built: dict[tuple[str, str], Built], compared: Callable[[Path, Path], FrameDifferences]
) -> None:
    ways = {key: one for key, one in built.items() if key[0] != "SLOWER"}
    for (before, a), (after, b) in itertools.combinations(ways.items(), 2):
        found = compared(a.named, b.named)
        figure = function(found, "eng::checksum")
        assert min(figure.samples) > 100, (before, after)
        assert figure.low <= 0 <= figure.high and not figure.different, (before, after, figure)


def test_a_function_that_costs_more_is_found(
    built: dict[tuple[str, str], Built], compared: Callable[[Path, Path], FrameDifferences]
) -> None:
    found = compared(built["PLAIN", "g++"].named, built["SLOWER", "g++"].named)
    figure = function(found, "eng::checksum")
    assert figure.different and figure.low > 0
    # 3000 turns of 7000 against 12000 of 16000, of 100 us.
    assert figure.low < 75 - 3000 / 70 < figure.high


def test_what_the_rules_match_is_told(
    built: dict[tuple[str, str], Built], compared: Callable[[Path, Path], FrameDifferences]
) -> None:
    base = built["PLAIN", "g++"].named

    def matches(way: str) -> set[tuple[str, str, str]]:
        found = compared(base, built[way, "clang++"].named)
        return {(one.rule, one.before, one.after) for one in found.matches if "eng::" in one.before}

    assert matches("PLAIN") == set()
    # clang's -g1 names an inlined function without its scope.
    assert matches("INLINED") == {("similar", "eng::Engine::process", "process_[i]")}
    assert matches("RENAMED") == {("callees", "eng::Engine::process", "eng::Engine::handle_all")}
    assert matches("MOVED") == {("similar", "eng::Engine::process", "eng::Machine::process")}


def test_a_stripped_program_has_no_function_that_is_new(
    built: dict[tuple[str, str], Built], compared: Callable[[Path, Path], FrameDifferences]
) -> None:
    base = built["PLAIN", "g++"]
    for key, one in built.items():
        for before in (base.named, base.stripped):
            found = compared(before, one.stripped)
            assert new_us(found) <= 0.01 * US_PER_QUERY, (key, found.explanation)


def test_a_program_against_itself_has_no_different_frame(
    built: dict[tuple[str, str], Built], compared: Callable[[Path, Path], FrameDifferences]
) -> None:
    for one in built.values():
        for profile in (one.named, one.stripped):
            found = compared(profile, profile)
            assert found.totals.different_nodes == 0 and not found.explanation and not found.moved
