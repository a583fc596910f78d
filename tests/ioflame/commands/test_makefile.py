"""The variables of `make` reach ioflame as they were given: the real make, with a stand-in where it calls ioflame."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ioflame.commands.arguments import add_profile_arguments, add_repetition
from tests.places import ROOT

pytestmark = pytest.mark.slow

# What a shell or make would take for its own, and what splitting at blanks would lose.
VALUES = (
    "a  b",
    "it's",
    "$HOME $(HOME) $$",
    "x\ny",
    '"`id`"',
    "$(shell touch expanded)",
    "#;&|<>*?~\\",
    "--dash",
    "\\n",
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A tree with the Makefile, a set-up that does nothing, and an ioflame that writes down its arguments."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    commands = tmp_path / ".venv" / "bin"
    commands.mkdir(parents=True)
    (tmp_path / "ioflame").mkdir()
    (tmp_path / "ioflame" / "setup.sh").write_text('printf "%s\\0" "$DB_BENCH" > for-setup\n')
    for name in ("ioflame", "python"):
        (commands / name).write_text(f'#!/bin/sh\nprintf "%s\\0" "$@" > called-{name}\n')
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


@pytest.mark.parametrize("value", VALUES)
def test_a_value_from_the_command_line_or_the_environment_arrives_unchanged(place: Path, value: str) -> None:
    for target, first in (("profile", ["profile"]), ("io-efficiency", ["experiment", "io-efficiency"])):
        given = ["--workload", "--db-dir", "--collect", "--out"]
        variables = {option.removeprefix("--").replace("-", "_").upper(): value for option in given}
        wanted = [f"{option}={value}" for option in given]
        if target == "io-efficiency":
            variables["RESUME"] = value
            wanted += ["--users=1 2", f"--resume={value}"]
        make(place, target, *(f"{name}={text}" for name, text in variables.items()))
        assert arguments(place / "called-ioflame") == [*first, *wanted]
        make(place, target, **variables)
        assert arguments(place / "called-ioflame") == [*first, *wanted]
        make(place, target, DB_BENCH=value)
        assert arguments(place / "for-setup") == [value]
        assert f"--db-bench={value}" in arguments(place / "called-ioflame")


@pytest.mark.parametrize("value", VALUES)
def test_a_command_line_arrives_in_one_word_behind_its_options(place: Path, value: str) -> None:
    make(place, "run", f"CMD={value}", "STORE=a store")
    assert arguments(place / "called-ioflame") == ["run", "--store=a store", "--", value]


def test_every_option_of_a_command_is_a_variable_of_its_target(place: Path) -> None:
    def options(add: Callable[[argparse.ArgumentParser], None]) -> list[str]:
        parser = argparse.ArgumentParser(add_help=False)
        add(parser)
        return [action.option_strings[-1] for action in parser._actions if action.nargs != 0]

    profile, repeated = options(add_profile_arguments), options(add_repetition)
    # `DIR` on a command line, not an option of those two.
    compared = ["--factor", "--delta", "--time", "--sessions", "--blocks", "--schedule", "--resume"]
    for target, own in (
        ("profile", []), ("doctor", []), ("io-efficiency", [*repeated, "--resume"]),
        ("experiment", ["--repeats", "--resume"]), ("compare", compared),
    ):  # fmt: skip
        wanted = {f"{option}={number}" for number, option in enumerate([*profile, *own])}
        make(place, target, *(word.removeprefix("--").partition("=")[0].replace("-", "_").upper() + "=" +
                              word.partition("=")[2] for word in wanted))  # fmt: skip
        given = [word for word in arguments(place / "called-ioflame") if word.startswith("--")]
        assert sorted(given) == sorted(wanted), target


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["WORKLAOD=x"], "WORKLAOD is not a variable of this Makefile\n"),
        (["SCALE=smoke", "threds=2"], "fix: THREADS=... (make help lists them)"),
        (["a';>expanded;'=1"], "is not a variable"),
    ],
)
def test_a_variable_that_no_target_knows_is_refused_before_anything_starts(
    place: Path, given: list[str], says: str
) -> None:
    for target in ("profile", "help"):
        done = ended(place, target, *given)
        assert (done.returncode, done.stdout) == (2, "")
        assert says in done.stderr
        assert {path.name for path in place.iterdir()} == {"Makefile", ".venv", "ioflame"}


def test_the_help_lists_every_variable(place: Path) -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=place, capture_output=True, text=True, check=True
    )
    listed = done.stdout.partition("variables of profile")[2]
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
    echoes = "".join(f'echo "{name}:   {made}"\n' for name, made in places.items())
    stand_in.write_text(stand_in.read_text() + echoes)
    make(place, "docs", f"OUT={out}")
    assert arguments(place / "called-python") == [
        "docs/refresh.py", *[str(place / out / "one")] * 2, *places.values(),
    ]  # fmt: skip
    called = arguments(place / "called-ioflame")
    assert (called[0], called[-1]) == ("compare", f"--out={out}")
