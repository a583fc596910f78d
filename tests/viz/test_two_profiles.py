"""`ioflame flamegraph A B`: one drawing of two profiles, with colour only where they differ."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from ground.errors import EXIT_OK, EXIT_USAGE
from ground.results.files import Files
from ioflame.analysis.what_differs import barriers
from ioflame.cli import main
from ioflame.present.two_profiles import compare_two
from tests.folding.recordings import record
from tests.programs import FRAMES, compiled
from tests.viz.compared import sample_lines
from tests.viz.markup import data_of
from tests.viz.test_report_command import profiled
from viz.flame.difference import PER_QUERY, SHARE, DifferenceTree, rows_of
from viz.svg.difference import difference_graph
from viz.svg.flame_graph import FlamegraphOptions

# Samples of each stack.
BASE: Mapping[str, int] = {"main;get;lookup": 6000, "main;get;block;crc": 3000, "main;log": 1000}
OTHER: Mapping[str, int] = {"main;get;lookup": 6100, "main;get;block;crc": 2900, "main;verify": 1000}
# One of eleven samples, wherever the program is.
INTERRUPTS = {f"{stack};asm_common_interrupt_[k];common_interrupt_[k]": count // 10 for stack, count in BASE.items()}


def script(samples: Mapping[str, int], path: Path) -> str:
    """A file as perf script prints it: a form in which samples can be counted."""
    lines = []
    for stack, count in samples.items():
        for place in range(count):
            lines += sample_lines(f"prog 1/1 [000] {place // 1000}.{place % 1000:06}", stack, "/a/prog")
    path.write_text("\n".join([*lines, ""]))
    return str(path)


def folded(samples: Mapping[str, int], path: Path) -> str:
    path.write_text("".join(f"prog;{stack} {count}\n" for stack, count in samples.items()))
    return str(path)


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    return [script(BASE, tmp_path / "a.txt"), script(OTHER, tmp_path / "b.txt")]


def coloured(paths: list[str], **more: Any) -> dict[str, str]:
    """By frame with a colour: which."""
    found = compare_two(paths, None, more.pop("us_per_query", None), **more)
    tree = DifferenceTree(found.found, found.unit)
    places = zip(tree.name, tree.category, strict=True)
    return {name: tree.categories[place] for name, place in places if place}


def test_colour_is_where_a_frame_differs_and_nowhere_else(
    two: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 6,000 and 6,100 of 10,000 samples are within chance.
    assert coloured(two) == {"log": "vanished in b.txt", "verify": "new in b.txt"}
    assert coloured([two[0], two[0]]) == {}
    interrupted = script({**BASE, **INTERRUPTS}, tmp_path / "c.txt")
    assert coloured([two[0], interrupted]) == {}
    # One of them may come through a pipe.
    piped = SimpleNamespace(buffer=io.BytesIO(Path(two[0]).read_bytes()), isatty=lambda: False)
    monkeypatch.setattr(sys, "stdin", piped)
    assert set(coloured(["-", two[1]])) == {"log", "verify"}


def test_the_drawing_says_what_it_is(two: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "x.svg"
    assert main(["flamegraph", *two, "-o", str(out), "--width", "1000"]) == EXIT_OK
    told = capsys.readouterr().out
    assert "verify (below main) +10.00 % of all" in told and "new in b.txt" in told and "2 of 9 frames differ" in told
    svg = out.read_text()
    root = ElementTree.fromstring(svg)
    assert root.get("width") == "1000"
    words = " ".join(" ".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text"))
    for part in (
        "b.txt against a.txt", "Base: a.txt (10,000 samples)", "both totals scaled to 100 %", "the mean of both sides",
        "leaves zero", "chance in sampling alone", "new in b.txt 1", "vanished in b.txt 1",
        "no significant difference 7",
    ):  # fmt: skip
        assert part in " ".join(words.split()), part
    titles = [title.text or "" for title in root.iter("{http://www.w3.org/2000/svg}title")]
    (log,) = [title for title in titles if title.startswith("log\n")]
    assert log.splitlines()[1:3] == ["a.txt: 10.000 % of all, n 1,000", "b.txt: 0.000 % of all, n 0"]
    assert log.endswith("different: not seen in b.txt")
    # What a frame is as wide as.
    data = data_of(svg)
    widths = {data["names"][name]: weight for name, weight in zip(data["name"], data["weight"], strict=True)}
    assert widths["log"] == widths["verify"] == pytest.approx(widths["all"] / 20)


def test_what_a_query_costs_is_compared_where_it_is_known(two: list[str]) -> None:
    found = compare_two(two, None, (20.0, 30.0))
    nodes = found.found.nodes
    assert (found.unit, nodes.before[0], nodes.after[0]) == (PER_QUERY, 20.0, 30.0)
    names = [found.found.names[name] for name in nodes.name]
    lookup = names.index("lookup")
    assert [nodes.before[lookup], nodes.after[lookup]] == pytest.approx([12.0, 18.3])
    # All grew by half but what vanished.
    every = set(BASE) | set(OTHER)
    all_of_them = {"all", "prog", *(name for stack in every for name in stack.split(";"))}
    assert set(coloured(two, us_per_query=(20.0, 30.0))) == all_of_them
    assert compare_two(two, None, None).unit == SHARE


def test_folded_text_has_a_threshold_and_says_so(tmp_path: Path) -> None:
    given = [folded(BASE, tmp_path / "a.folded"), folded(OTHER, tmp_path / "b.folded")]
    found = compare_two(given, None, None).found
    assert (found.rule.by, found.rule.least_share) == ("share", 0.01)
    svg = difference_graph(found, SHARE, FlamegraphOptions("two"))
    assert "1 % of the whole or more. No interval: the numbers of samples are not known" in data_of(svg)["notes"][1]
    assert all("[" not in text and ", n " not in text for _, text in rows_of(found, 3, SHARE))
    # 1 % more and 1 % less are at the threshold, 10 % are not.
    assert set(coloured(given)) >= {"log", "verify"}
    # The same text as numbers of samples has intervals.
    assert coloured(given, weights_are_samples=True) == {"log": "vanished in b.folded", "verify": "new in b.folded"}


def test_the_numbers_of_samples_beside_a_run_s_stacks_are_taken(tmp_path: Path) -> None:
    paths = []
    for name, samples in (("a", BASE), ("b", OTHER)):
        (tmp_path / name).mkdir()
        paths.append(folded({stack: 7 * count for stack, count in samples.items()}, tmp_path / name / Files.FOLDED))
        folded(samples, tmp_path / name / Files.SAMPLE_COUNTS)
    found = compare_two(paths, None, None).found
    assert [side.samples for side in found.sides] == [10_000, 10_000] and found.rule.by == "samples"
    assert [side.name for side in found.sides] == paths, "their last parts are the same"


def test_two_runs_are_compared_by_what_a_query_costs_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rates = {"main;f": 100}
    runs = [profiled(tmp_path / "a", rates, 1), profiled(tmp_path / "b", {**rates, "main;g": 90}, 2)]
    out = tmp_path / "x.html"
    assert main(["flamegraph", *(str(run.directory) for run in runs), "-o", str(out)]) == EXIT_OK
    assert "us per query" in capsys.readouterr().out
    page = out.read_text()
    assert '"unit":"us per query"' in page and "new: " in page and "Base: " in page
    # Of another database and cache: as a report says it, values and all.
    for run, num, cache in zip(runs, ("1000", "2000"), ("8", "16"), strict=True):
        run.record.options |= {"--num": num, "--cache_size": cache, "--db": num, "scale": num}
        run.save()
    assert main(["flamegraph", *(str(run.directory) for run in runs), "-o", str(tmp_path / "z.html")]) == EXIT_OK
    told = "Also different: setting --num 1000, 2000; setting --cache_size 8, 16; option scale 1000, 2000."
    assert told in " ".join(capsys.readouterr().out.split())
    assert barriers([run.record for run in runs]) == ["setting --num", "setting --cache_size"]
    assert main(["flamegraph", str(runs[0].directory), str(out), "-o", str(tmp_path / "y.svg")]) == EXIT_USAGE
    assert "one is a directory and one a file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--inverted"], "--inverted: of no effect on a graph of two profiles"),
        (["--rules", "rocksdb"], "--rules: of no effect on a graph of two profiles"),
        (["--unit", "ns"], "--unit: of no effect on a graph of two profiles"),
        (["--unit", "samples"], "is not folded text and has its own numbers of samples"),
        (["--us-per-query", "20"], "--us-per-query 20: expected 2 numbers above 0"),
        (["--us-per-query", "20", "-1"], "--us-per-query=-1 is out of range"),
        (["-o", "x.speedscope.json"], "x.speedscope.json: this kind of file holds one profile"),
        (["-o", "x.html", "--width", "900"], "--width: of no effect on x.html"),
    ],
)
def test_what_makes_no_sense_is_refused(
    two: list[str], words: list[str], says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["flamegraph", *two, *words]) == EXIT_USAGE
    told = capsys.readouterr()
    assert told.out == "" and says in told.err and "fix:" in told.err
    assert not list(tmp_path.glob("*.svg")) and not list(tmp_path.glob("*.html"))


def test_profiles_of_two_units_and_empty_ones_are_not_compared(
    two: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cycles = Path(two[1])
    cycles.write_text(cycles.read_text().replace("cpu-clock:", "cycles:"))
    assert main(["flamegraph", *two]) == EXIT_USAGE
    assert f"{two[0]} is in ns and {cycles} in cycles" in capsys.readouterr().err
    cycles.write_text("")
    assert main(["flamegraph", *two, "-o", str(tmp_path / "x.svg")]) == 1
    assert f"{cycles} is empty" in capsys.readouterr().err


_SOURCE = """
static volatile unsigned long sink;
__attribute__((noinline)) void burn(long n) { for (long i = 0; i < n; i++) sink += i; }
__attribute__((noinline)) void get(void) { burn(90000); sink++; }
__attribute__((noinline)) void verify(void) { burn(10000); sink++; }
int main(void) { for (int i = 0; i < 4000; i++) { get(); if (EXTRA) verify(); } }
"""


@pytest.mark.long
@pytest.mark.needs("perf")
def test_a_function_of_one_recording_alone_is_found_with_its_share_of_the_samples(tmp_path: Path) -> None:
    paths = []
    for name, extra in (("a", 0), ("b", 1)):
        (tmp_path / name).mkdir()
        program = compiled(_SOURCE, tmp_path / name / "prog", *FRAMES, "-O0", f"-DEXTRA={extra}")
        paths.append(str(record(tmp_path / f"{name}.data", ["-N", "-e", "cpu-clock", "-F", "999", "-g"], program)))
    found = compare_two(paths, None, None).found
    nodes = found.nodes
    # A sample at its first instruction has the stack of its caller, so no caller: a node of its own.
    places = [place for place, name in enumerate(nodes.name) if found.names[name] == "verify"]
    node = max(places, key=lambda place: nodes.after[place])
    assert nodes.different[node] and nodes.before[node] == 0, rows_of(found, node, SHARE)
    argv = ["perf", "script", "-F", "period,ip,sym", "-i", paths[1]]
    text = subprocess.run(argv, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
    samples = [(int(block.split()[0]), " verify\n" in f"{block}\n") for block in text.split("\n\n") if block.strip()]
    wanted = 100 * sum(period for period, within in samples if within) / sum(period for period, _ in samples)
    assert sum(nodes.after[place] for place in places) == pytest.approx(wanted, abs=1e-3), rows_of(found, node, SHARE)
