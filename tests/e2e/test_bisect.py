"""`ioflame bisect` on a repository of 16 commits of the toy's client, one of which spins, by compare's own blocks."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Ioflame
from tests.places import ROOT

ENGINES = ROOT / "tests" / "engines"
COMMITS, SPINS = 16, 6
BUILD = "g++ -O1 -g -fno-omit-frame-pointer -pthread toy_bench.cc -o toy_bench"
SIZE = ["--engine=toy", "--scale=smoke", "--config=through_cache", "--duration=1", "--num-keys=20000"]
SEARCH = ["--schedule=frozen", "--sessions=4", "--blocks=1", "--cache-size=1M"]


def git(repository: Path, *arguments: str) -> None:
    own = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", repository, *own, *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    place = tmp_path / "repository"
    place.mkdir()
    git(place, "init", "-q", "-b", "main")
    source = (ENGINES / "toy" / "toy_bench.cc").read_text()
    assert "round < 8" in source
    for number in range(COMMITS):
        text = source.replace("round < 8", f"round < {8 if number < SPINS else 24}")
        (place / "toy_bench.cc").write_text(
            f'{text}\nextern const char *of_commit;\nconst char *of_commit = "{number}";\n'
        )
        git(place, "add", "toy_bench.cc")
        git(place, "commit", "-q", "-m", f"commit {number}")
        git(place, "tag", f"v{number}")
    return place


@pytest.mark.by_hand
def test_the_commit_that_spins_is_named(
    ioflame: Ioflame, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IOFLAME_ENGINES", str(ENGINES))
    what = [f"--repo={repository}", "--good=v0", f"--bad=v{COMMITS - 1}", f"--build={BUILD}", "--binary=toy_bench"]
    place = [f"--db-dir={tmp_path}/db", f"--out={tmp_path}/runs", f"--store={tmp_path}/store"]
    code, out, err = ioflame.run("bisect", *what, *place, *SIZE, *SEARCH, "--symptom=cpuPer", seconds=1800)
    assert code == 0, err + out
    outcome = out.splitlines()[-1]
    assert f"(commit {SPINS}), " in outcome and "unexplained" in outcome, outcome
    (directory,) = (tmp_path / "runs").glob("*-bisect")
    record = json.loads((directory / "bisect.json").read_text())
    assert record["differs"] and record["outcome"] == outcome
    # Every comparison is a directory of its own, in the store as well; that of the commit and its parent has a page.
    comparisons = sorted(directory.glob("*-compare-getrandom*"))
    assert len(comparisons) == len({one["directory"] for one in record["measured"]}) + 1
    assert len(list(directory.glob("*/compare.html"))) == 1
    code, out, err = ioflame.run("store", "sql", tmp_path / "store", "SELECT count(DISTINCT campaign) FROM runs")
    assert (code, out.split()[-1]) == (0, str(len(comparisons))), err
