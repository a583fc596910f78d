"""Variables of make reach ioflame as they were given, and what can be set is said in the words of whoever asked."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ground.settings import FrontEnd, Setting, options_of, variables, worded, worded_for
from ioflame.cli import build_parser, main
from tests.places import ROOT
from workloads.scales import scales

# An `ioflame` that writes down the words it runs with, as the real one makes them of its environment.
STAND_IN = f"""#!/usr/bin/env python3
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from ground.settings import words_of_make
words = sys.argv[1:2] + words_of_make(sys.argv[1]) + sys.argv[2:]
left = sorted(os.environ.keys() & {{"SCALE", "STORE", "DB_DIR", "WORKLOAD"}})
open("called-ioflame", "w").write("".join(word + chr(0) for word in words + left))
"""
# What a shell or make would take for its own, and what splitting at blanks would lose.
VALUES = ("--dash  it's $HOME $(HOME) $$", 'x\ny "`id`" $(shell touch expanded)', "#;&|<>*?~\\", "\\n")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A tree with the Makefile, a set-up that does nothing, and an ioflame that writes down its arguments."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    commands = tmp_path / ".venv" / "bin"
    commands.mkdir(parents=True)
    (tmp_path / "ioflame").mkdir()
    (tmp_path / "ground").mkdir()
    shutil.copy(ROOT / "ground" / "settings.py", tmp_path / "ground")
    (tmp_path / "ioflame" / "setup.sh").write_text('printf "%s\\0" "$DB_BENCH" "$NEEDS" "$LEAST" > for-setup\n')
    (commands / "ioflame").write_text(STAND_IN)
    (commands / "python").write_text('#!/bin/sh\nprintf "%s\\0" "$@" > called-python\n')
    for name in ("ioflame", "python"):
        (commands / name).chmod(0o755)
    return tmp_path


def arguments(file: Path) -> list[str]:
    return file.read_text().split("\0")[:-1]


def ended(place: Path, target: str, *variables: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The end of a make that knows of no other one around it."""
    environment |= {name: os.environ[name] for name in ("PATH", "HOME")}
    command = ["make", target, *variables]
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)


def make(place: Path, target: str, *variables: str, **environment: str) -> None:
    done = ended(place, target, *variables, **environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (place / "expanded").exists()


@pytest.mark.parametrize(
    ("target", "given", "needs", "least"),
    [
        ("profile", "WORKLOAD=readrandom", "", "1"),
        ("profile", "ENGINE=rocksdb", "", "1"),
        ("profile", "ENGINE=lmdb", "", ""),
        ("profile", "CLIENT=ioflame", "", ""),
        ("profile", "ROCKSDB=10.4.2", "", ""),
        ("profile", "SCALE=smoke", "", "perf"),
        ("profile", "SCALE=smoke COLLECT=perf,iolat", "", "1"),
        ("profile", "SCALE=smoke TAIL=1", "", "1"),
        ("profile", "SCALE=full", "", "1"),
        ("sweep", "WORKLOAD=readrandom", "", ""),
        ("count", "ROCKSDB=10.4.2", "valgrind jemalloc", ""),
        ("count", "ALLOCATOR=libc", "valgrind", ""),
        ("count", "BY=processor ALLOCATOR=libc", "", ""),
        ("compare", "ROCKSDB=9.10.0,10.4.2", "", ""),
        ("compare", "ROCKSDB=9.10.0,10.4.2 COUNT=1", "valgrind jemalloc", ""),
    ],
)
def test_the_set_up_of_a_target_installs_what_that_needs(
    place: Path, target: str, given: str, needs: str, least: str
) -> None:
    make(place, target, *given.split())
    assert arguments(place / "for-setup") == ["", needs, least]
    # What is left out at smoke does not watch there.
    assert scales()["smoke"].collect == ("perf",)


@pytest.mark.parametrize("target", ["profile", "io-efficiency"])
def test_values_from_the_command_line_or_the_environment_arrive_unchanged(place: Path, target: str) -> None:
    given = dict(zip(("--workload", "--db-dir", "--collect", "--out"), VALUES, strict=True))
    wanted = [f"{option}={value}" for option, value in given.items()]
    first, last = ["profile"], list[str]()
    variables = {option.removeprefix("--").replace("-", "_").upper(): value for option, value in given.items()}
    if target == "io-efficiency":
        first, last = ["experiment"], ["io-efficiency"]
        variables["RESUME"] = VALUES[0]
        wanted = [*wanted[:3], "--users=1 2", f"--resume={VALUES[0]}", wanted[3]]
    make(place, target, *(f"{name}={text}" for name, text in variables.items()))
    assert arguments(place / "called-ioflame") == [*first, *wanted, *last]
    make(place, target, **variables)
    assert arguments(place / "called-ioflame") == [*first, *wanted, *last]
    make(place, target, f"DB_BENCH={' '.join(VALUES)}")
    assert arguments(place / "for-setup")[:2] == [" ".join(VALUES), ""]
    assert f"--db-bench={' '.join(VALUES)}" in arguments(place / "called-ioflame")


def test_a_command_line_arrives_in_one_word_behind_its_options(place: Path) -> None:
    make(place, "run", f"CMD={' '.join(VALUES)}", "STORE=a store")
    assert arguments(place / "called-ioflame") == ["run", "--store=a store", "--", " ".join(VALUES)]


def test_every_option_of_a_command_is_a_variable_of_its_target(place: Path) -> None:
    for target in ("profile", "doctor", "experiment", "compare", "count", "sweep", "run"):
        names = variables(target)
        assert len(names) > 4
        make(place, target, *(f"{name}={number}" for number, name in enumerate(names)))
        given = [word for word in arguments(place / "called-ioflame") if word.startswith("--") and word != "--"]
        flags = (f"--{name.lower().replace('_', '-')}" for name in names)
        assert given == [flag if flag == "--count" else f"{flag}={number}" for number, flag in enumerate(flags)]


@pytest.mark.parametrize(
    ("target", "given", "says"),
    [
        ("help", ["WORKLAOD=x"], "WORKLAOD is not a variable of this Makefile\n"),
        ("profile", ["SCALE=smoke", "threds=2"], "fix: THREADS=... (make help lists them)"),
        ("profile", ["a';>expanded;'=1"], "is not a variable"),
    ],
)
def test_a_variable_that_no_target_knows_is_refused_before_anything_starts(
    place: Path, target: str, given: list[str], says: str
) -> None:
    done = ended(place, target, *given)
    assert (done.returncode, done.stdout) == (2, "") and says in done.stderr
    assert {path.name for path in place.iterdir()} == {"Makefile", ".venv", "ioflame", "ground"}


def test_quick_tests_without_their_set_up_say_which_it_is(place: Path) -> None:
    done = ended(place, "test-quick")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0] == "pytest is not installed in .venv: make setup-dev"


def test_the_help_lists_every_variable(place: Path) -> None:
    listed = ended(place, "help", "--no-print-directory").stdout.partition("variables of profile")[2]
    assert {"WORKLOAD", "STORE", "USERS", "EXPERIMENT", "FACTOR", "SCHEDULE"} <= set(re.findall(r"\w+", listed))
    assert max(map(len, listed.splitlines())) <= 100


def test_what_was_not_given_is_left_to_ioflame(place: Path) -> None:
    make(place, "profile", "SCALE=", "OUT= ")
    assert arguments(place / "called-ioflame") == ["profile"]


def test_the_runs_of_the_docs_are_those_below_out(place: Path) -> None:
    out = "it's  a $place"
    (place / out / "one").mkdir(parents=True)
    (place / out / "latest").symlink_to("one")
    stand_in = place / ".venv" / "bin" / "ioflame"
    places = {"experiment": f"{place}/of an experiment", "comparison": f"{place}/of a comparison"}
    echoes = "".join(f'print("{name}:   {made}")\n' for name, made in places.items())
    stand_in.write_text(stand_in.read_text() + echoes)
    make(place, "docs", f"OUT={out}")
    assert arguments(place / "called-python") == [
        "-m", "docs.refresh", *[str(place / out / "one")] * 2, *places.values(),
    ]  # fmt: skip
    called = arguments(place / "called-ioflame")
    assert called[:2] == ["compare", f"--out={out}"]


_DWARF = "{CALLGRAPH=dwarf}, or a build with frame pointers"
_DISK = "{CPUS=} (of the disk); idle=poll; fewer threads than CPUs"


@pytest.mark.parametrize(
    ("front_end", "advice", "said"),
    [
        (FrontEnd.MAKE, _DWARF, "CALLGRAPH=dwarf, or a build with frame pointers"),
        (FrontEnd.COMMAND, _DWARF, "--callgraph=dwarf, or a build with frame pointers"),
        (FrontEnd.ATTACH, _DWARF, "--callgraph=dwarf, or a build with frame pointers"),
        (FrontEnd.MAKE, "a larger {DURATION} or {FREQ}", "a larger DURATION or FREQ"),
        (FrontEnd.COMMAND, "more {NUM_KEYS}", "more --num-keys"),
        (FrontEnd.ATTACH, "a larger {DURATION} or {FREQ}", "a larger --seconds or --freq"),
        (FrontEnd.MAKE, _DISK, "CPUS= (of the disk); idle=poll; fewer threads than CPUs"),
        (FrontEnd.ATTACH, _DISK, "idle=poll; fewer threads than CPUs"),
        (FrontEnd.ATTACH, "a smaller {CACHE_SIZE} or more {NUM_KEYS}", ""),
        (FrontEnd.ATTACH, "{ENGINE=lmdb}", "--engine=lmdb"),
        (FrontEnd.ATTACH, "LD_PRELOAD of jemalloc, or MALLOC_TRIM_THRESHOLD_", None),
    ],
)
def test_everybody_is_told_what_can_be_typed_there(front_end: FrontEnd, advice: str, said: str | None) -> None:
    with worded_for(front_end):
        assert worded(advice) == (advice if said is None else said)


def test_what_a_service_cannot_be_told_is_left_out() -> None:
    with worded_for(FrontEnd.ATTACH):
        assert Setting.CPUS.where_known("x") == "" and Setting.FREQ.where_known("x") == "x"
        with worded_for(None):
            assert str(Setting.FREQ) == "--freq"
    with worded_for(FrontEnd.MAKE):
        assert Setting.CPUS.where_known("x") == "x" and Setting.CPUS.to("0-3") == "CPUS=0-3"


def test_every_command_takes_the_options_of_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    commands = {command for setting in Setting for form in setting.forms for command in form.commands.split()}
    for command in commands - {"store"}:  # of each of its verbs
        with pytest.raises(SystemExit):
            build_parser(command)[0].parse_args([command, "--help"])
        text = capsys.readouterr().out
        for setting, form in options_of(command):
            assert re.search(rf"^ +(-\w, )?{setting.flags(form)[-1]}\b", text, re.MULTILINE), (command, setting)


def test_the_documentation_has_every_variable_of_a_profile() -> None:
    text = (ROOT / "docs" / "usage.md").read_text(encoding="utf-8")
    table = text.partition("<!-- options:begin")[2].partition("<!-- options:end")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == variables("profile")


def test_an_option_that_is_refused_is_called_what_was_typed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["attach", "--pid", "1", "--collect", "all"]) == 2
    said = capsys.readouterr().err
    assert "--collect=all: all is not known" in said and "COLLECT" not in said
    with worded_for(FrontEnd.COMMAND):
        assert main(["profile", "--scale", "none"]) == 2
    said = capsys.readouterr().err
    assert "--scale=none is not known" in said and "SCALE" not in said
