"""`ioflame --help` names every command once, by what it is for."""

from __future__ import annotations

import re

import pytest

from ioflame import cli


def test_no_word_at_all_asks_for_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([])
    told = capsys.readouterr()
    assert (ended.value.code, told.err) == (0, "")
    assert told.out.startswith("usage: ioflame") and "measure:" in told.out


@pytest.mark.parametrize(
    ("words", "meant"),
    [(["proifle"], "profile"), (["Show", "runs/latest"], "show"), (["store", "compcat"], "compact"), (["xyzzy"], "")],
)
def test_a_misspelt_command_is_answered_with_the_nearest(
    capsys: pytest.CaptureFixture[str], words: list[str], meant: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 2
    expected = f"({f'did you mean {meant}? ' if meant else ''}choose from"
    assert expected in capsys.readouterr().err


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
