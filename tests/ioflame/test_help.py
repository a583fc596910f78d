"""`ioflame --help` names every command once, by what it is for."""

from __future__ import annotations

import re

import pytest

from ioflame import cli


def test_every_command_is_in_one_group(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["no-such-command"])
    known = re.findall(r"'([a-z]+)'", capsys.readouterr().err.partition("choose from")[2])
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    text = capsys.readouterr().out
    listed = [name for names in cli._GROUPS.values() for name in names]
    assert sorted(listed) == sorted(known)
    for name in known:
        assert len(re.findall(rf"^  {name} +\S", text.partition("measure:")[2], re.MULTILINE)) == 1, name
