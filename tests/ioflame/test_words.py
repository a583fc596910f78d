"""Wordings that readers stumbled over, and that were replaced: none of them comes back."""

from __future__ import annotations

import subprocess

import pytest

from tests.places import ROOT

# Wordings that users have read.
STUMBLED_OVER = (
    "to mend:",
    "comes to its own end",
    "no change seen",
    "DO NOT ADD UP",
    "DOES NOT HOLD",
    "the budget does not close",
    "too many were repeated",
    "More differs than the factor",
    "What has to hold",
    "worth a sentence with its whole interval",
    "reads side by side",
    "does not take its completions",
    "read more a request",
    "not quite the plain windows",
    "to be compared as they stand",
    "so no checks stand behind it",
    "a search is of",
    "the count does not count",
    "overwritten unasked",
    "was searched otherwise",
    "was measured otherwise",
    "it said nothing",
    "nothing of it is restarted",
    "which ones is not known",
    "is no arm",
    "No step is seen",
    "QPS was not flat",
    'no rule matched"',
    "within: --cap-add",
    "again and again: 10m",
    "profiles stand apart",
    "of what it uses in so long",
)
_KINDS = (".py", ".rs", ".toml", ".html", ".js", ".sh", ".md", "Makefile")


@pytest.mark.parametrize("words", STUMBLED_OVER)
def test_what_was_stumbled_over_does_not_come_back(words: str) -> None:
    argv = ["git", "-C", str(ROOT), "grep", "-lF", words, "--", *(f"*{kind}" for kind in _KINDS)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert set(done.stdout.split()) <= {"tests/ioflame/test_words.py"}
