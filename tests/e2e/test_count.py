"""`ioflame count`: planted instructions are counted exactly; what cannot be counted is reported."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import pytest

from folding.callgrind import counts_below
from folding.stackfold import stackfold_binary
from ground.errors import MeasurementError
from ground.results.counted import CountRecord, CountRun, Event
from ground.system.process import capture
from ioflame.analysis.counted_verdicts import CountVerdict, against, spread
from tests.conftest import Ioflame
from tests.places import ROOT
from tests.programs import compiled
from tests.workloads.jars import host_library
from workloads.registry import rules_named

pytestmark = [pytest.mark.long, pytest.mark.needs("valgrind", "allocators")]

PLANTED = 20


def costlier(place: Path, more: int, number: int = 0) -> Path:
    """This host's librocksdb with so many instructions more in each Get. number: that no two builds have in common"""
    library = host_library()
    flags = ("-O2", "-shared", "-fPIC", f"-DMORE={more}", "-Wl,--no-as-needed", library, f"-Wl,-rpath,{library.parent}",
             f"-Wl,--build-id=0x{more:04x}{number:04x}")  # fmt: skip
    place.mkdir()
    return compiled(ROOT / "tests/e2e/costlier_get.c", place / "librocksdb.so", *flags)


@pytest.fixture(scope="module")
def arms(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("arms")
    made = {name: costlier(place / name, more) for name, more in {"as_it_is": 0, "more": PLANTED}.items()}
    return ",".join(f"{name}={path}" for name, path in made.items())


def counted(out: str) -> Path:
    match = re.search(r"^counts: +(\S+)$", out, re.MULTILINE)
    assert match is not None, out
    return ROOT / match[1]


@pytest.fixture(scope="module")
def told(arms: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, CountRecord]:
    place = tmp_path_factory.mktemp("count")
    words = [f"--rocksdb={arms}", "--operation=get", "--repeats=2", f"--out={place}"]
    code, out, err = Ioflame().run("count", *words)
    assert code == 0, err + out
    return out, counted(out), CountRun.open(counted(out)).record


@pytest.mark.xdist_group("counted")
def test_planted_instructions_are_told(told: tuple[str, Path, CountRecord]) -> None:
    out, _, record = told
    of = record.operations["get"].arms
    found = against(of["as_it_is"], of["more"])
    assert found.verdict is CountVerdict.SLIGHT
    assert found.more == pytest.approx(PLANTED, rel=0.01)
    assert re.search(r"^ +get +\+0\.\d\d% \(below 1%\)$", out, re.MULTILINE), out
    # A Get takes its latches whatever is planted in it.
    for event in (Event.LOCKED, Event.ALLOCATIONS, Event.MUTEX_LOCKS, Event.SYSTEM_CALLS):
        one, other = (spread(of[arm], event) for arm in ("as_it_is", "more"))
        assert one is not None and other is not None and one.middle > 0
        # A thread of the engine's holds a lock now and then: a call of the kernel in thousands of Gets.
        assert one.middle == pytest.approx(other.middle, rel=1e-3)


@pytest.mark.xdist_group("counted")
def test_categories_add_up_to_the_whole(told: tuple[str, Path, CountRecord]) -> None:
    _, directory, record = told
    for arm, one in record.operations["get"].arms.items():
        assert {"owner", "leaf", "parts"} <= one.views.keys()
        for view in one.views.values():
            for event in (Event.INSTRUCTIONS, Event.MISPREDICTIONS, Event.LOCKED):
                for place, whole in enumerate(one.events[event]):
                    assert sum(row.events[event][place] for row in view) == whole
        folded = (directory / "get" / f"{arm}.folded").read_text().splitlines()
        assert sum(int(line.rpartition(" ")[2]) for line in folded) == one.events[Event.INSTRUCTIONS][0]
    assert "owner" in (directory / "summary.txt").read_text()


@pytest.mark.xdist_group("counted")
def test_a_build_counted_again_is_the_same_as_its_baseline(
    ioflame: Ioflame, told: tuple[str, Path, CountRecord], arms: str, tmp_path: Path
) -> None:
    new = arms.partition(",more=")[2]
    words = ["count", f"--rocksdb=new={new}", "--operation=get", "--repeats=2", "--quiet", f"--out={tmp_path}"]
    code, out, err = ioflame.run(*words, f"--baseline={told[1]}", "--fail-above=1%", "--limit=get=1000")
    # 20 of some ten thousand are allowed; the limit is not kept.
    assert re.match(r"new against baseline: get \+0\.\d\d% \(below 1%\)$", out.splitlines()[-1])
    assert code == 1, err + out
    assert "above its limit: get of new takes" in out and "above --fail-above" not in out
    assert [arm.name for arm in CountRun.open(counted(out)).record.arms] == ["baseline", "new"]
    code, out, err = ioflame.run(*words, f"--baseline={told[1]}", "--fail-above=0.01%", "--table=markdown")
    assert code == 1, err + out
    assert re.search(r"above --fail-above: get of new takes \+0\.\d\d%, 0\.01% is allowed", err)
    assert "| get | " in out and "fail-above" not in out


@pytest.mark.parametrize("engine", ["leveldb", "lmdb"])
def test_other_engines_are_counted(ioflame: Ioflame, engine: str, tmp_path: Path) -> None:
    words = [f"--engine={engine}", "--operation=get", "--operation=put", "--repeats=2", f"--out={tmp_path}"]
    code, out, err = ioflame.run("count", *words)
    assert code == 0, err + out
    record = CountRun.open(counted(out)).record
    for name in ("get", "put"):
        (one,) = record.operations[name].arms.values()
        taken = spread(one, Event.INSTRUCTIONS)
        assert taken is not None and 500 < taken.middle < 100_000


def test_a_root_that_was_not_called_says_how_to_look(tmp_path: Path) -> None:
    done = capture(
        ["valgrind", "-q", "--tool=callgrind", "--branch-sim=yes", "--collect-bus=yes", "--collect-systime=nsec",
         f"--callgrind-out-file={tmp_path / 'counts'}", "/bin/true"],
        timeout=60,
    )  # fmt: skip
    assert done.returncode == 0
    with pytest.raises(MeasurementError, match="nothing was counted below no::such") as refused:
        counts_below([tmp_path / "counts"], "no::such", rules_named("rocksdb").categories)
    command = refused.value.mend.partition("   ")[0]
    assert "stackfold --event calls" in command
    listed = capture(["sh", "-c", command.replace("stackfold", stackfold_binary(), 1)], timeout=60).text
    assert "_dl_relocate_object" in listed


PROGRAM = """
#include <cstdlib>
namespace eng {
__attribute__((noinline)) long look(long n) { for (long i = 0; i < n; i++) asm volatile("nop"); return n; }
}
int main(int, char **argv) { long s = 0; for (int i = 0; i < 50; i++) s += eng::look(atol(argv[1])); return s == 0; }
"""


def test_a_command_of_ones_own_is_counted_by_its_calls(ioflame: Ioflame, tmp_path: Path) -> None:
    program = compiled(PROGRAM, tmp_path / "bench", "-O1", "-fno-omit-frame-pointer", compiler="g++")
    words = ["--per=eng::look", "--repeats=2", f"--out={tmp_path / 'runs'}"]
    code, out, err = ioflame.run("count", *words, "--", program, "1000")
    assert code == 0, err + out
    first = counted(out)
    (one,) = CountRun.open(first).record.operations["look"].arms.values()
    taken = spread(one, Event.INSTRUCTIONS)
    # A nop, a count and a branch a round; nothing of a start or an end.
    assert one.operations == 50 and taken is not None and 2_000 < taken.middle < 5_100 and taken.low == taken.high
    code, out, err = ioflame.run("count", *words, f"--baseline={first}", "--fail-above=1%", "--", program, "1020")
    assert code == 1, err + out
    assert re.search(r"above --fail-above: look of command takes \+(1\.9|2\.0)\d%, 1\.00% is allowed", out)
    code, out, err = ioflame.run("count", "--per=eng::found", "--repeats=2", f"--out={tmp_path}", "--", program, "1")
    assert code == 1 and "nothing was counted below eng::found" in err
    code, out, err = ioflame.run("count", *words, "--", "sh", "-c", "echo no such tree; exit 3")
    assert code == 1 and "exit code 3; it ended with: no such tree" in err


FORKS = """
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) int look(int n) { for (int i = 0; i < n; i++) __asm__ volatile("nop"); return n; }
int main(int argc, char **argv) {
    (void)argc;
    for (int i = 0; i < 10; i++) look(atoi(argv[1]));
    pid_t child = fork();
    for (int i = 0; i < (child ? 20 : 40); i++) look(atoi(argv[1]));
    return child && waitpid(child, 0, 0) < 0;
}
"""


def test_each_process_of_a_command_is_counted_once(ioflame: Ioflame, tmp_path: Path) -> None:
    """A parent and its child wrote one file over each other, and what a script starts was not counted."""
    program = compiled(FORKS, tmp_path / "forks", "-O1")
    words = ["--per=look", "--repeats=2", f"--out={tmp_path / '100%p'}", "--"]
    taken = []
    for command in ([program, "1000"], ["sh", "-c", f"true | {program} 1000; exit 0"]):
        code, out, err = ioflame.run("count", *words, *command)
        assert code == 0, err + out
        of = CountRun.open(counted(out)).record.operations["look"]
        assert re.search(rf"counted in 2 of its \d processes: 2 of {program}$", of.about), of.about
        assert of.arms["command"].operations == 10 + 20 + 40 and "2 of its" in out
        found = spread(of.arms["command"], Event.INSTRUCTIONS)
        assert found is not None
        taken.append((found.low, found.high))
        folded = (counted(out) / "look" / "command.folded").read_text().splitlines()
        assert sum(int(line.rpartition(" ")[2]) for line in folded) == of.arms["command"].events[Event.INSTRUCTIONS][0]
    # A nop, a count and a branch a round.
    assert {2_000 < one < 4_100 for pair in taken for one in pair} == {True} and len(set(taken)) == 1
    code, out, err = ioflame.run("count", "--per=found", *words[1:], "sh", "-c", f"{program} 1; exit 0")
    assert code == 1 and "nothing was counted below found in any of 3 processes" in err


@pytest.mark.needs("bpftrace")
def test_a_probe_of_another_tracer_in_the_same_file_is_named(ioflame: Ioflame, tmp_path: Path) -> None:
    """Valgrind meets the breakpoint that a uprobe without a process has in all that map the file."""
    program = compiled(FORKS, tmp_path / "forks", "-O1")
    script = f'uprobe:{program}:look {{ @ = count(); }} interval:ms:10 {{ printf("on\\n"); }}'
    tracer = subprocess.Popen(["bpftrace", "-e", script], stdout=subprocess.PIPE, text=True)
    try:
        assert tracer.stdout is not None and "on\n" in iter(tracer.stdout.readline, "")
        code, _, err = ioflame.run("count", "--per=look", f"--out={tmp_path}", "--", program, "1000")
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.communicate()
    assert code == 1 and "killed by SIGTRAP" in err and "a tracer that has a uprobe in the same program" in err
    assert "fix: end that tracer" in err


def test_a_search_by_counts_names_the_build(ioflame: Ioflame, tmp_path: Path) -> None:
    first_slow, builds = 3, 7
    listed = [
        f"v{number}={costlier(tmp_path / f'v{number}', PLANTED if number >= first_slow else 0, number)}"
        for number in range(builds)
    ]
    (tmp_path / "arms").write_text("\n".join(listed) + "\n")
    words = ["--symptom=instructions:get", f"--out={tmp_path / 'runs'}"]
    code, out, err = ioflame.run("bisect", f"--arms={tmp_path / 'arms'}", *words, seconds=600)
    assert code == 0, err + out
    outcome = out.splitlines()[-1]
    assert re.match(rf"v{first_slow} .*, (100|9\d)\.\d %; instructions:get of the ends \+0\.\d %", outcome), outcome
    (directory,) = (tmp_path / "runs").glob("*-bisect")
    counts = sorted(directory.glob("*-count-rocksdb*"))
    # The ends, a candidate at a time, and the culprit against the build before it.
    assert 4 <= len(counts) <= 6
    assert "(below 1%)" in (counts[-1] / "summary.txt").read_text()
    assert (counts[-1] / "report.html").exists()
