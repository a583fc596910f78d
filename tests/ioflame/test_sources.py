"""Text files are UTF-8 whatever the locale, and wordings that readers stumbled over do not come back."""

from __future__ import annotations

import ast
import subprocess

from tests.places import ROOT, shipped


def unstated(source: ast.AST) -> list[int]:
    """Lines that leave the encoding of a text file to the locale. ruff's PLW1514 sees a third of them."""
    return [
        call.lineno
        for call in ast.walk(source)
        if isinstance(call, ast.Call)
        and (
            (isinstance(call.func, ast.Attribute) and call.func.attr in ("read_text", "write_text"))
            or (isinstance(call.func, ast.Name) and call.func.id == "open" and not _binary(call))
        )
        and "encoding" not in {keyword.arg for keyword in call.keywords}
    ]


def _binary(call: ast.Call) -> bool:
    """Whether an `open` has a mode with a b."""
    mode = call.args[1] if len(call.args) > 1 else None
    return isinstance(mode, ast.Constant) and isinstance(mode.value, str) and "b" in mode.value


def test_no_text_file_is_read_or_written_in_the_encoding_of_the_locale() -> None:
    text = "path.read_text()\npath.write_text(x, encoding='utf-8')\nopen(x)\nopen(x, 'rb')\nopen(x, 'w')"
    assert unstated(ast.parse(text)) == [1, 3, 5]
    assert {str(path): lines for path, module in shipped().items() if (lines := unstated(module))} == {}


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


def test_what_was_stumbled_over_does_not_come_back() -> None:
    words = [option for wording in STUMBLED_OVER for option in ("-e", wording)]
    argv = ["git", "-C", str(ROOT), "grep", "-nF", *words, "--", *(f"*{kind}" for kind in _KINDS)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if not line.startswith("tests/ioflame/test_sources.py:")]
    assert done.stdout and found == []
