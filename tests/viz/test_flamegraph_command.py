"""`ioflame flamegraph`: anybody's folded stacks, from a file and from a pipe."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ground.results.files import Files
from ground.results.run import Run
from ioflame.cli import main
from tests.places import RECORDINGS
from tests.viz.runs import record

FOLDED = b"app;main;a::f 30\napp;main;a::f;memcpy 50\napp;main;g 20\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.folded"
    path.write_bytes(FOLDED)
    return path


def test_a_drawing_beside_the_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flamegraph", str(file), "--title", "<mine>", "--unit", "bytes", "--width", "640"]) == 0
    told = f"wrote {file.with_suffix('.svg')}: 3 stacks, 100 bytes   (open it in a browser)\n"
    assert capsys.readouterr().out == told
    root = ElementTree.parse(file.with_suffix(".svg")).getroot()
    assert root.get("width") == "640"
    assert root.findtext("{http://www.w3.org/2000/svg}title") == "<mine>"
    assert "a::f\n80 bytes (80 bytes)\n80.00 % of all, other" in file.with_suffix(".svg").read_text()


def test_stacks_of_a_run_keep_their_unit(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stacks = file.rename(file.with_name("stacks.folded"))
    stacks.with_name("stacks.stats.json").write_text('{"event": "cpu-clock", "unit": "ns"}')
    assert main(["flamegraph", str(stacks)]) == 0
    assert "3 stacks, 100 ns of cpu-clock" in capsys.readouterr().out


def test_off_cpu_stacks_are_ns(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stacks = file.rename(file.with_name(Files.OFF_CPU_FOLDED))
    stacks.with_name(Files.OFF_CPU).write_text("{}")
    assert main(["flamegraph", str(stacks)]) == 0
    assert "3 stacks, 100 ns of off-cpu" in capsys.readouterr().out


def test_the_unit_of_anybodys_stacks_is_not_guessed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flamegraph", str(file)]) == 0
    assert "3 stacks, 100 units " in capsys.readouterr().out
    assert "samples" not in file.with_suffix(".svg").read_text().partition("<script")[0]


def test_stacks_of_a_run_have_the_colours_of_its_report(tmp_path: Path) -> None:
    run = Run.create(tmp_path, record())
    run.path(Files.FOLDED).write_bytes(b"db_bench;rocksdb::DBImpl::Get;__libc_pread;vfs_read_[k] 600\ndb_bench;x 400\n")
    drawn = []
    for number, rules in enumerate([[], ["--rules", "rocksdb"]]):
        out = tmp_path / f"{number}.svg"
        assert main(["flamegraph", str(run.path(Files.FOLDED)), "-o", str(out), *rules]) == 0
        drawn.append(out.read_text())
    assert drawn[0] == drawn[1] and "libc+k" in drawn[0]


def test_nothing_is_overwritten_unasked(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = file.with_suffix(".svg")
    out.write_text("mine")
    assert main(["flamegraph", str(file)]) == 2
    assert "--force" in capsys.readouterr().err
    assert out.read_text() == "mine"
    assert main(["flamegraph", str(file), "--force"]) == 0
    assert out.read_text() != "mine"


@pytest.mark.parametrize(
    "words, said",
    [
        (["-o", "x.png"], ".speedscope.json"),
        (["--width", "3"], "300 to 20000"),
        (["--min-width=-1"], "below 0"),
        (["--width", "800", "-o", "new.html"], "takes the width of its window"),
        (["--inverted", "-o", "new.speedscope.json"], "of no effect"),
        (["--unit", "ns", "-o", "new.pb.gz"], "of no effect"),
        (["--event", "cycles"], "folded text has no event"),
    ],
)
def test_bad_requests(file: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flamegraph", str(file), *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "data, said",
    [
        (b"", "nothing to draw"),
        (b"\n\n", "nothing to draw"),
        (b"a;b 0\n", "nothing to draw"),
        (b"a;b 1\na;b x\n", "line 2"),
        (b"a;b 1\na;b 1.5\n", "line 2"),
        (b"PERFILE2 and no more", "x.folded cannot be read as a profile"),
    ],
)
def test_bad_input(file: Path, data: bytes, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(data)
    assert main(["flamegraph", str(file)]) == 1
    assert said in capsys.readouterr().err
    assert not file.with_suffix(".svg").exists()


def test_what_looks_like_pprof_and_is_none(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(b"\x1f\x8bnot gzip at all")
    assert main(["flamegraph", str(file)]) == 2
    assert "x.folded cannot be folded: reading pprof failed" in capsys.readouterr().err


def test_rules_that_are_not_there(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flamegraph", str(file), "--rules", "no-such-rules"]) != 0
    assert "no-such-rules" in capsys.readouterr().err and not file.with_suffix(".svg").exists()


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flamegraph", str(tmp_path / "none")]) == 2
    assert "cannot be read: No such file" in capsys.readouterr().err


def test_a_terminal_instead_of_a_pipe_is_told_and_not_waited_for() -> None:
    ours, theirs = os.openpty()
    argv = [sys.executable, "-m", "ioflame.cli", "flamegraph"]
    done = subprocess.run(argv, stdin=theirs, capture_output=True, check=False)
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 2 and b"standard input is a terminal" in done.stderr


def test_a_pipe_in_and_out() -> None:
    argv = [sys.executable, "-m", "ioflame.cli", "flamegraph", "-o", "-", "--inverted"]
    done = subprocess.run(argv, input=FOLDED, capture_output=True, check=True)
    assert b"memcpy\n50 units (50 units)" in done.stdout
    ElementTree.fromstring(done.stdout)


def test_rules_give_the_published_shares(tmp_path: Path) -> None:
    out = tmp_path / "x.svg"
    given = RECORDINGS / "readrandom-1u-profile13.folded"
    assert main(["flamegraph", str(given), "-o", str(out), "--unit", "cycles", "--rules", "rocksdb"]) == 0
    shown = {name: float(share) for name, share in re.findall(r">([\w:+]+) (\d+\.\d\d) %</text>", out.read_text())}
    for name, published in (("libc+k", 37.30), ("checksm", 3.76), ("bloom", 18.35), ("BSI", 2.28), ("File", 3.74)):
        assert shown[name] == pytest.approx(published, abs=0.011)


def test_speedscope_holds_every_stack(file: Path) -> None:
    out = file.with_name("x.speedscope.json")
    assert main(["flamegraph", str(file), "-o", str(out), "--unit", "ns"]) == 0
    told = json.loads(out.read_text())
    names = [frame["name"] for frame in told["shared"]["frames"]]
    (profile,) = told["profiles"]
    stacks = {";".join(names[i] for i in s): w for s, w in zip(profile["samples"], profile["weights"], strict=True)}
    assert stacks == {"app;main;a::f": 30, "app;main;a::f;memcpy": 50, "app;main;g": 20}
    assert profile["endValue"] == 100 and profile["unit"] == "nanoseconds"


def test_the_firefox_profile_holds_every_stack_and_its_category(tmp_path: Path) -> None:
    given = RECORDINGS / "readrandom-1u-profile13.folded"
    out = tmp_path / "x.firefox.json"
    assert main(["flamegraph", str(given), "-o", str(out), "--unit", "ns", "--rules", "rocksdb"]) == 0
    told = json.loads(out.read_text())
    stacks: dict[str, float] = {}
    own: dict[str, float] = {}
    for thread in told["threads"]:
        table, frames, functions = thread["stackTable"], thread["frameTable"], thread["funcTable"]
        samples = thread["samples"]
        assert samples["weightType"] == "tracing-ms"
        for end, weight in zip(samples["stack"], samples["weight"], strict=True):
            names: list[str] = []
            node = end
            while node is not None:
                names.insert(0, thread["stringArray"][functions["name"][frames["func"][table["frame"][node]]]])
                node = table["prefix"][node]
            stacks[";".join(names)] = stacks.get(";".join(names), 0) + weight
            kind = told["meta"]["categories"][table["category"][end]]["name"]
            own[kind] = own.get(kind, 0) + weight
        for part in (samples, table, frames, functions):
            assert {len(column) for column in part.values() if isinstance(column, list)} == {part["length"]}
        assert samples["time"] == sorted(samples["time"])
    lines = [line.rpartition(" ") for line in given.read_text().splitlines()]
    assert stacks == pytest.approx({stack: int(weight) / 1e6 for stack, _, weight in lines})
    assert 100 * own["bloom"] / sum(own.values()) == pytest.approx(18.35, abs=0.011)
