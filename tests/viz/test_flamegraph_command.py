"""`ioflame flamegraph` of folded stacks, and the drawing as a file: valid, complete, the same each time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ground.results.files import Files
from ground.text.titles import title_of
from ioflame.cli import main
from tests.places import RECORDINGS
from tests.viz.markup import data_of, drawn, titles
from tests.viz.runs import saved
from tests.viz.samples import CATEGORIES, options, percent, stacks, total
from viz.flame.stacks import Stack, read_folded
from viz.svg.flame_graph import FlamegraphOptions, flamegraph, write_flamegraph

FOLDED = b"app;main;a::f 30\napp;main;a::f;memcpy 50\napp;main;g 20\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.folded"
    path.write_bytes(FOLDED)
    return path


def test_a_drawing_beside_the_file_that_overwrites_nothing_unasked(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["flamegraph", str(file), "--title", "<mine>", "--unit", "bytes", "--width", "640"]) == 0
    told = f"wrote {file.with_suffix('.svg')}: 3 stacks, 100 bytes   (open it in a browser)\n"
    assert capsys.readouterr().out == told
    root = ElementTree.parse(file.with_suffix(".svg")).getroot()
    assert root.get("width") == "640"
    assert root.findtext("{http://www.w3.org/2000/svg}title") == "<mine>"
    assert "a::f\n80 bytes (80 bytes)\n80.00 % of all, other" in file.with_suffix(".svg").read_text()
    out = file.with_suffix(".svg")
    out.write_text("mine")
    assert main(["flamegraph", str(file)]) == 2
    assert "--force" in capsys.readouterr().err
    assert out.read_text() == "mine"
    assert main(["flamegraph", str(file), "--force"]) == 0
    assert out.read_text() != "mine"


def test_the_unit_is_that_of_the_run_and_of_anybodys_stacks_not_guessed(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["flamegraph", str(file)]) == 0
    assert "3 stacks, 100 units " in capsys.readouterr().out
    assert "samples" not in file.with_suffix(".svg").read_text().partition("<script")[0]
    stacks = file.rename(file.with_name("stacks.folded"))
    stacks.with_name("stacks.stats.json").write_text('{"event": "cpu-clock", "unit": "ns"}')
    assert main(["flamegraph", str(stacks)]) == 0
    assert "3 stacks, 100 ns of cpu-clock" in capsys.readouterr().out
    stacks = stacks.rename(file.with_name(Files.OFF_CPU_FOLDED))
    stacks.with_name(Files.OFF_CPU).write_text("{}")
    assert main(["flamegraph", str(stacks)]) == 0
    assert "3 stacks, 100 ns of off-cpu" in capsys.readouterr().out


def test_stacks_of_a_run_have_the_colours_of_its_report(tmp_path: Path) -> None:
    run = saved(tmp_path)
    seen = []
    for number, rules in enumerate([[], ["--rules", "rocksdb"]]):
        out = tmp_path / f"{number}.svg"
        assert main(["flamegraph", str(run.path(Files.FOLDED)), "-o", str(out), *rules]) == 0
        seen.append(out.read_text())
    assert seen[0] == seen[1] and "read syscall" in seen[0]


@pytest.mark.parametrize(
    "words, said",
    [
        (["-o", "x.png"], ".speedscope.json"), (["--width", "3"], "--width=<300..20000>"),
        (["--min-width=-1"], "=-1 is out of range"),
        (["--width", "800", "-o", "new.html"], "takes the width of its window"),
        (["--inverted", "-o", "new.speedscope.json"], "of no effect"),
        (["--unit", "ns", "-o", "new.pb.gz"], "of no effect"), (["--event", "cycles"], "folded text has no event"),
    ],
)  # fmt: skip
def test_bad_requests(file: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flamegraph", str(file), *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "data, said, code",
    [
        (b"", "nothing to draw", 1), (b"\n\n", "nothing to draw", 1), (b"a;b 0\n", "nothing to draw", 1),
        (b"a;b 1\na;b x\n", "line 2", 2), (b"a;b 1.5\na;b 1\n", "not a whole number", 2),
        (b"PERFILE2 and no more", "x.folded cannot be read as a profile", 1),
        (b"\x1f\x8bnot gzip at all", "x.folded cannot be folded: cannot read", 2),
        (b"a;b 12 14\na;c 8 0\n", "difference of two profiles", 2),
    ],
)  # fmt: skip
def test_bad_input(file: Path, data: bytes, said: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(data)
    assert main(["flamegraph", str(file)]) == code
    assert said in capsys.readouterr().err
    assert not file.with_suffix(".svg").exists()


def test_files_and_rules_that_are_not_there(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flamegraph", str(file), "--rules", "no-such-rules"]) != 0
    assert "no-such-rules" in capsys.readouterr().err and not file.with_suffix(".svg").exists()
    assert main(["flamegraph", str(file.with_name("none"))]) == 2
    assert "cannot be read: No such file" in capsys.readouterr().err


def test_a_terminal_instead_of_a_pipe_is_told_and_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, theirs = os.openpty()
    with os.fdopen(theirs) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        assert main(["flamegraph"]) == 2
    os.close(ours)
    assert "standard input is a terminal" in capsys.readouterr().err


def test_a_pipe_in_and_out() -> None:
    argv = [sys.executable, "-m", "ioflame.cli", "flamegraph", "-o", "-", "--inverted"]
    done = subprocess.run(argv, input=FOLDED, capture_output=True, check=True)
    assert b"memcpy\n50 units (50 units)" in done.stdout
    ElementTree.fromstring(done.stdout)


def test_rules_give_the_published_shares_and_an_engine_is_recognised_without_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = RECORDINGS / "readrandom-1u-profile13.folded"
    seen = []
    for name, words in (("own", ["--rules", "rocksdb"]), ("seen", [])):
        out = tmp_path / f"{name}.svg"
        assert main(["flamegraph", str(given), "-o", str(out), *words]) == 0
        seen.append(out.read_text())
    assert "coloured by the rules of rocksdb" in capsys.readouterr().out and seen[0] == seen[1]
    shown = {name: float(share) for name, share in re.findall(r">([\w :+]+) (\d+\.\d\d) %</text>", seen[0])}
    for name, published in (("libc+k", 37.30), ("checksm", 3.76), ("bloom", 18.35), ("BSI", 2.28), ("File", 3.74)):
        assert shown[title_of(name)] == pytest.approx(published, abs=0.011)


# ---- the drawing -----------------------------------------------------------------------------------------------------
GOLDEN = Path(__file__).parent / "golden"


def test_a_narrow_frame_is_not_drawn_but_counted() -> None:
    text = flamegraph(stacks(), options())
    data = data_of(text)
    narrow = [s for s in stacks() if s.frames[-1].startswith("Bloom0")]
    assert not any(title.startswith("Bloom0") for title in titles(text))
    assert {s.frames[-1] for s in narrow} <= set(data["names"])
    left_out = sum(s.weight for s in stacks() if re.fullmatch(r"Bloom\d+", s.frames[-1]))
    share = percent(left_out, total(stacks()))
    assert f"Those narrower than 0.5 px are not: they hold {share} of the weight" in text
    assert "All 19 frames" not in text
    everything = flamegraph(stacks(), options(min_width_px=0))
    assert len(drawn(everything, "g", "f")) == len(data["depth"])
    assert f"All {len(data['depth'])} frames are drawn." in everything


def test_the_legend_adds_up_to_100_and_keeps_a_category_without_a_stack() -> None:
    data = data_of(flamegraph(stacks(), options()))
    assert [tuple(category[:2]) for category in data["categories"]] == [
        (title_of(name), label) for name, label in CATEGORIES
    ]
    shares = {name: share for name, _, share in data["categories"]}
    assert sum(round(float(share) * 100) for share in shares.values()) == 10_000
    assert shares["block cache"] == "0.00"
    bloom = sum(s.weight for s in stacks() if s.category == "bloom")
    assert abs(float(shares["bloom filter"]) - 100 * bloom / total(stacks())) < 0.01


def test_a_category_nobody_announced_is_added_and_plain_text_is_other() -> None:
    data = data_of(flamegraph([Stack(("c", "f"), 1, 1, "new", 1)], options()))
    assert ["new", "", "100.00"] in data["categories"]
    data = data_of(flamegraph(read_folded([b"c;f 1", b"c;g 2"]), FlamegraphOptions("plain", unit="cycles")))
    assert data["categories"] == [["other", "", "100.00"]]
    assert (data["samples"], data["weight"]) == (None, [3, 3, 1, 2])
    # Weights beyond 2^53 go as text.
    big = 2**60 + 1
    data = data_of(flamegraph([Stack(("c", "f"), big), Stack(("c", "g"), 2)], FlamegraphOptions("big")))
    assert data["weight"] == [str(big + 2), str(big + 2), str(big), "2"]
    assert all(isinstance(w, int) for w in data_of(flamegraph([Stack(("c",), 2**53 - 1)], options()))["weight"])


def test_a_cost_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        flamegraph(stacks(), options(us_per_query=float("nan")))


def test_golden(tmp_path: Path) -> None:
    """BLESS=1 writes the golden file anew. Style and code are left out: they have tests of their own."""
    few = [Stack(("db_bench", "a::B<c::D>::Get", "pread_[k]"), 60, 6, "libc+k", 2), Stack(("db_bench", '&<">'), 40, 4)]
    out = tmp_path / "small.svg"
    write_flamegraph(few, options(title="small", warnings=["amber"], categories=CATEGORIES[:2]), out)
    assert list(tmp_path.iterdir()) == [out]
    text = re.sub(r"<style>.*?</style>", "<style/>", out.read_text(encoding="utf-8"), flags=re.DOTALL)
    text = re.sub(r"<script><!\[CDATA\[.*?\]\]></script>", "<script/>", text, flags=re.DOTALL)
    golden = GOLDEN / "small.svg"
    if os.environ.get("BLESS") == "1":
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
