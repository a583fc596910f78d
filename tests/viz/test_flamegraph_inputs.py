"""`ioflame flamegraph` on what other programs leave: recordings, their text, pprof, and folded text of all kinds."""

from __future__ import annotations

import gzip
import io
import lzma
import re
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from folding.stackfold import stackfold_binary
from ioflame.cli import main
from tests.places import RECORDINGS
from tests.viz.conftest import Opener

TWO_EVENTS = RECORDINGS / "two_events.txt"


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What perf leaves of a second of Python."""
    data = tmp_path_factory.mktemp("perf") / "perf.data"
    work = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: sorted(range(5000))"
    argv = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "499", "-g", "-o", str(data), "--", "python3", "-c", work]
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
    return data


def total_of_report(data: Path) -> int:
    argv = ["perf", "report", "-i", str(data), "--stdio", "--no-children", "-g", "none", "-F", "period", "-t", "|"]
    lines = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines()
    return sum(int(line.strip()) for line in lines if line.strip().isdigit())


def drawn_total(svg: Path) -> int:
    ElementTree.parse(svg)
    found = re.search(r"<title>all\n.*?\(([\d,]+) \w+\)", svg.read_text())
    assert found is not None
    return int(found[1].replace(",", ""))


@pytest.mark.long
@pytest.mark.needs("perf")
def test_a_recording_and_its_text_through_a_pipe(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "perf.svg"
    assert main(["flamegraph", str(recording), "-o", str(out)]) == 0
    assert re.search(r" ns of cpu-clock", capsys.readouterr().out)
    assert drawn_total(out) == total_of_report(recording) > 10**8
    assert "samples" in re.findall(r"<title>all\n(.*?)</title>", out.read_text(), re.S)[0]
    text = subprocess.run(["perf", "script", "--no-inline", "-i", str(recording)], check=True, capture_output=True)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.stdout), isatty=lambda: False))
    assert main(["flamegraph", "-o", str(tmp_path / "text.svg")]) == 0
    assert drawn_total(tmp_path / "text.svg") == total_of_report(recording)


@pytest.mark.long
@pytest.mark.needs("perf", "chromium")
def test_a_recording_as_a_page_knows_threads(recording: Path, tmp_path: Path, chromium_page: Opener) -> None:
    out = tmp_path / "perf.html"
    assert main(["flamegraph", str(recording), "-o", str(out), "--inverted"]) == 0
    page = chromium_page.html(out.read_text(), fragment="#threads=split")
    assert page.locator('[data-part="view"]').input_value() == "callers"
    page.select_option('[data-part="view"]', "callees")
    assert "view=callees" in page.url  # what the page does not open with is kept in the address
    names = page.evaluate("ioflameRuns[0].graph.boxes.map(b => ioflameRuns[0].graph.nameOf(b.part.tree, b.node))")
    assert any(re.fullmatch(r"python3/\d+", name) for name in names)


def test_of_several_events_one_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "two.svg"
    assert main(["flamegraph", str(TWO_EVENTS), "-o", str(out)]) == 2
    assert "cpu-clock" in capsys.readouterr().err and not out.exists()
    assert main(["flamegraph", str(TWO_EVENTS), "-o", str(out), "--event", "cpu-clock"]) == 0
    lines = (RECORDINGS / "two_events__event_cpu_clock.expected").read_text().splitlines()
    assert drawn_total(out) == sum(int(line.rpartition(" ")[2]) for line in lines)


@pytest.mark.parametrize("rules", [[], ["--rules", "rocksdb"]])
def test_pprof_is_drawn_as_the_folded_text_it_came_from(tmp_path: Path, rules: list[str]) -> None:
    text = RECORDINGS / "readrandom_fp.txt"
    made = (str(tmp_path / "x.folded"), str(tmp_path / "x.pb.gz"))
    argv = [stackfold_binary(), "-q", "--kernel", str(text), "-o", made[0], "--pprof", made[1]]
    subprocess.run(argv, check=True)
    for name in ("x.folded", "x.pb.gz"):
        out = tmp_path / f"{name}.svg"
        assert main(["flamegraph", str(tmp_path / name), "-o", str(out), "--unit", "ns", "--title", "t", *rules]) == 0
    folded, pprof = ((tmp_path / f"{name}.svg").read_text() for name in ("x.folded", "x.pb.gz"))

    def shares(svg: str) -> Counter[str]:  # what each drawn frame says of itself, but for its number of samples
        return Counter(re.sub(r"\nn = .*", "", title) for title in re.findall(r"<title>(.*?)</title>", svg, re.S))

    assert shares(pprof) == shares(folded)
    assert "\nn = " in pprof and "\nn = " not in folded  # folded text does not tell


def test_folded_text_becomes_pprof(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = RECORDINGS / "readrandom-1u-profile13.folded"
    out = tmp_path / "x.pb.gz"
    assert main(["flamegraph", str(given), "-o", str(out)]) == 0
    assert f"go tool pprof -http=: {out}" in capsys.readouterr().out
    again = subprocess.run([stackfold_binary(), "-q", str(out)], check=True, capture_output=True).stdout
    assert sorted(again.splitlines()) == sorted(given.read_bytes().splitlines())


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_packed_profiles_are_drawn_as_what_they_hold(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    for name in ("readrandom_fp.txt", "readrandom-1u-profile13.folded"):
        data = (RECORDINGS / name).read_bytes()
        drawn = []
        for number, given in enumerate((data, pack(data))):
            (tmp_path / f"{number}").write_bytes(given)
            out = tmp_path / f"{name}.{number}.svg"
            assert main(["flamegraph", str(tmp_path / f"{number}"), "-o", str(out), "--title", "t"]) == 0
            drawn.append(out.read_text())
        assert drawn[0] == drawn[1]
        (tmp_path / "b").write_bytes(data)
        argv = ["flamegraph", str(tmp_path / "b"), str(tmp_path / "1"), "-o", str(tmp_path / f"{name}.two.svg")]
        assert main(argv) == 0


@pytest.mark.parametrize(
    ("text", "total"),
    [
        (b"# austin: 4.0.0\n# duration: 12\n\nP7;T1;/x.py:f:3 100\n# end: 5\n", 100),
        (b"a;b 12.00\r\na;c 8.\r\n", 20),
    ],
    ids=["comments", "points"],
)
def test_folded_text_of_others_is_drawn(tmp_path: Path, text: bytes, total: int) -> None:
    (tmp_path / "x.folded").write_bytes(text)
    assert main(["flamegraph", str(tmp_path / "x.folded")]) == 0
    assert drawn_total(tmp_path / "x.svg") == total


@pytest.mark.long
@pytest.mark.needs("perf")
def test_a_recording_cut_short_is_drawn_as_far_as_it_goes(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = recording.read_bytes()
    # Within the records (struct perf_file_header): what follows them is longer on one host than on another.
    begin, size = struct.unpack_from("<QQ", whole, 40)
    (tmp_path / "cut.data").write_bytes(whole[: begin + size * 3 // 4])
    code = main(["flamegraph", str(tmp_path / "cut.data"), "-o", str(tmp_path / "cut.svg")])
    said = capsys.readouterr().err
    assert code == 1 and said
    if (tmp_path / "cut.svg").exists():
        assert 0 < drawn_total(tmp_path / "cut.svg") < total_of_report(recording)
        assert "cut short" in said and "cut short" in (tmp_path / "cut.svg").read_text()
