"""Words of a command line: what they ask for, as commands get it, and what a command in this process says to them."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from ioflame.cli import main
from ioflame.commands.arguments import add_options
from ioflame.measure.options import ProfileOptions, profile_options


def options(*words: str) -> ProfileOptions:
    """Those of a profile; without words the defaults."""
    parser = argparse.ArgumentParser()
    add_options(parser, "profile")
    return profile_options(parser.parse_args(words))


def asked(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    """Exit code, output and errors of a command in this process, as `Ioflame.run` has them of another."""
    capsys.readouterr()
    try:
        code = main(list(map(str, words)))
    except SystemExit as ended:  # argparse's own
        code = int(ended.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def refused(capsys: pytest.CaptureFixture[str], *words: str | Path, code: int = 2) -> str:
    """What is said of a command line that starts nothing."""
    got, out, err = asked(capsys, *words)
    assert (got, out, "Traceback" in err) == (code, "", False), err
    return err
