"""What can be set is said in the words of whoever asked: variables of make, or options of the command."""

from __future__ import annotations

import re

import pytest

from ground.settings import FrontEnd, Setting, worded, worded_for
from ioflame.cli import build_parser, main
from tests.places import ROOT

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


def test_every_setting_is_a_variable_of_the_makefile_and_an_option_of_its_commands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    variables = dict(re.findall(r"^(OF_[A-Z_]+) := (.*)$", makefile, re.MULTILINE))
    commands = {"OF_PROFILE": ["profile", "experiment", "compare"], "OF_EXPERIMENT": ["experiment"]}
    commands |= {"OF_IO_EFFICIENCY": ["experiment"], "OF_COMPARE": ["compare"]}
    takes: dict[str, set[str]] = {}
    for kind, names in commands.items():
        for name in variables[kind].split():
            takes.setdefault(name, set()).update(names)
    for setting in Setting:
        with worded_for(FrontEnd.COMMAND):
            options = [(command, str(setting)) for command in takes[setting.value]]
        with worded_for(FrontEnd.ATTACH):
            options += [("attach", str(setting))] if setting.known else []
        assert options
        for command, option in options:
            with pytest.raises(SystemExit):
                build_parser(command)[0].parse_args([command, "--help"])
            assert re.search(rf"^ +{option}\b", capsys.readouterr().out, re.MULTILINE), (command, option)


def test_an_option_that_is_refused_is_called_what_was_typed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["attach", "--pid", "1", "--collect", "all"]) == 2
    said = capsys.readouterr().err
    assert "--collect=all: all is not known" in said and "COLLECT" not in said
    with worded_for(FrontEnd.COMMAND):
        assert main(["profile", "--scale", "none"]) == 2
    said = capsys.readouterr().err
    assert "--scale=none is not known" in said and "SCALE" not in said
