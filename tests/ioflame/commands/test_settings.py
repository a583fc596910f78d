"""What can be set is said in the words of the command: variables of make, or options of an attached run."""

from __future__ import annotations

import re

import pytest

from ground.text import settings
from ground.text.settings import of_attached
from ioflame.cli import build_parser, main
from tests.places import ROOT


@pytest.mark.parametrize(
    ("advice", "said"),
    [
        ("CALLGRAPH=dwarf", "--callgraph=dwarf"),
        ("a larger DURATION or FREQ", "a larger --seconds or --freq"),
        ("CPUS= (of the disk); idle=poll; fewer threads than CPUs", "idle=poll; fewer threads than CPUs"),
        ("a smaller CACHE_SIZE or more NUM_KEYS", ""),
        ("LD_PRELOAD of jemalloc, or MALLOC_TRIM_THRESHOLD_", "LD_PRELOAD of jemalloc, or MALLOC_TRIM_THRESHOLD_"),
    ],
)
def test_whoever_attached_is_told_options_and_nothing_that_has_none(advice: str, said: str) -> None:
    assert of_attached(advice) == said


def test_every_variable_of_a_profile_is_known_and_every_option_is_one_of_attach() -> None:
    (options,) = re.findall(
        r"^PROFILE_OPTIONS = ((?:.*\\\n)*.*)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M
    )
    assert set(re.findall(r",([A-Z_]+)\)", options)) <= settings._OPTIONS.keys()
    for option in filter(None, settings._OPTIONS.values()):
        build_parser("attach")[0].parse_args(
            ["attach", "--pid", "1", f"{option}={'fp' if option == '--callgraph' else 7}"]
        )


def test_an_option_that_is_refused_is_called_what_was_typed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["attach", "--pid", "1", "--collect", "all"]) == 2
    said = capsys.readouterr().err
    assert "--collect=all: all is not known" in said and "COLLECT" not in said
