"""A search in a real repository of 16 commits, each of which is built. What noise does to it is simulated elsewhere."""

from __future__ import annotations

import math
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ground.errors import UsageError
from ground.results.bisect import BisectRecord, BisectRun, Measured
from ground.text.progress import Reporter
from ioflame.measure.bisect.builds import Builds, commits_between, listed_arms
from ioflame.measure.bisect.conduct import Proof, search

COMMITS, COSTS, BROKEN, UNCHANGED = 16, 11, 8, 5
QUIET = Reporter(quiet=True)


def git(repository: Path, *arguments: str) -> str:
    own = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", "-C", repository, *own, *arguments], check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("repository")
    git(place, "init", "-q", "-b", "main")
    for number in range(COMMITS):
        if number != UNCHANGED:
            (place / "cost").write_text(f"commit {number}\n{2_000 * (2 if number >= COSTS else 1)}\n")
        builds = f"cp cost built # {number}\n"
        (place / "build.sh").write_text(builds if number != BROKEN else "echo error: it does not compile; exit 1\n")
        git(place, "add", ".")
        git(place, "commit", "-q", "-m", f"commit {number}")
        git(place, "tag", f"v{number}")
    return place


def cost(program: Path) -> float:
    return math.log(int(program.read_text().splitlines()[1]))


@dataclass
class ByCost:
    """Blocks as a comparison has them, without its noise."""

    interrupted_after: int | None = None
    asked: list[str] = field(default_factory=list)

    def _block(self, *programs: Path) -> list[float]:
        return [cost(program) for program in programs]

    def prove(self, good: Path, bad: Path, *, explain: bool = False) -> Proof:
        assert explain == (len(self.asked) > 0)
        ends = [second - first for first, second in (self._block(good, bad) for _ in range(6))]
        words = f"{100 * (math.exp(ends[0]) - 1):+.1f} %"
        return Proof(any(ends), words, words, 0.0, [Measured(None, ends[:3], [], ""), Measured(None, ends[3:], [], "")])

    def session(self, good: Path, candidate: Path, bad: Path, blocks: int) -> Measured:
        if len(self.asked) == self.interrupted_after:
            raise KeyboardInterrupt
        self.asked.append(candidate.parent.name)
        found = Measured(None, [], [], "")
        for _ in range(blocks):
            first, own, second = self._block(good, candidate, bad)
            found.ends.append(second - first)
            found.off.append(own - (first + second) / 2)
        return found


def searched(going: BisectRun, measuring: ByCost) -> str:
    builds = Builds(going, QUIET)
    outcome = search(going, builds, measuring, QUIET)
    builds.end()
    return outcome


def started(repository: Path, out: Path, good: str, bad: str) -> BisectRun:
    names, titles = commits_between(repository, good, bad)
    build = "sh build.sh"
    return BisectRun.create(out, BisectRecord("0", "", "cpuPer", names, titles, str(repository), build, "built"))


def test_the_commit_that_costs_is_found_also_after_an_interruption(repository: Path, tmp_path: Path) -> None:
    going = started(repository, tmp_path, "v0", f"v{COMMITS - 1}")
    first = ByCost(interrupted_after=1)
    with pytest.raises(KeyboardInterrupt):
        search(going, Builds(going, QUIET), first, QUIET)
    # Gone on with from what is on disk: what was measured and built is not done again.
    again = BisectRun.open(going.directory)
    built = dict(again.record.binaries)
    assert len(again.record.measured) == 3 and again.record.differs
    measuring = ByCost()
    outcome = searched(again, measuring)
    record = again.record
    assert outcome.startswith(f"{record.names[COSTS][:12]} (commit {COSTS}), ")
    assert "unexplained" in outcome and "against its parent +" in outcome
    assert record.outcome == outcome == BisectRun.open(going.directory).record.outcome
    assert built.items() <= record.binaries.items() and len(measuring.asked) <= 8
    # The one that cannot be built was skipped, if it was asked for, and the source tree is as it was.
    assert set(record.skipped) <= {str(BROKEN)}
    assert git(repository, "worktree", "list").count("\n") == 1
    assert git(repository, "status", "--porcelain") == ""


def test_a_commit_that_cannot_be_built_is_skipped_and_its_log_named(repository: Path, tmp_path: Path) -> None:
    going = started(repository, tmp_path, f"v{BROKEN - 1}", f"v{BROKEN + 1}")
    builds = Builds(going, QUIET)
    assert builds.binary(1) is None
    builds.end()
    why = going.record.skipped["1"]
    log = Path(why.partition("(")[2].removesuffix(")"))
    assert "its build ended with 1" in why and "error" in log.read_text()


def test_equal_ends_name_no_commit(repository: Path, tmp_path: Path) -> None:
    going = started(repository, tmp_path, "v0", f"v{BROKEN - 1}")
    measuring = ByCost()
    assert searched(going, measuring).startswith("no commit is named: the ends do not differ here")
    assert measuring.asked == []
    # Neither do ends of which no bit differs.
    same = started(repository, tmp_path, f"v{UNCHANGED - 1}", f"v{UNCHANGED}")
    assert "they are the same bits" in searched(same, measuring)


def test_what_makes_no_sense_is_refused(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="v3 is no ancestor of v1"):
        commits_between(repository, "v3", "v1")
    with pytest.raises(UsageError, match="are one commit"):
        commits_between(repository, "v3", "v3")
    (tmp_path / "arms").write_text("a=/bin/true\nb=/nowhere/at/all\n")
    with pytest.raises(UsageError, match="is not NAME=BIN"):
        listed_arms(tmp_path / "arms")
    (tmp_path / "arms").write_text("# first\na=/bin/true\n\nb=/bin/false\n")
    assert listed_arms(tmp_path / "arms") == (["a", "b"], ["/bin/true", "/bin/false"])
