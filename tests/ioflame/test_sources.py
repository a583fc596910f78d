"""Text files are UTF-8 whatever the locale, and wordings that readers stumbled over do not come back."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator

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
# Words that users have read, as regular expressions over what they read alone: records and code keep some of them.
REPLACED = (
    r"\b[Pp]lain (windows?|turns?)\b",
    r"\b(the|a) twin\b|\btwin (of|against)\b",
    r"\bnull (test|window)\b",
    r"\b(in|of) the run queue\b|\bRun queue\b",
    r"\bwaiting for (a|its) CPU\b|\bWaits for a CPU\b|until its thread runs",
    r"\beverybody's\b|\bforeign reads (of|in)\b",
    r"asks for a flush",
    r"published order|the source document",
    r"no fixed part",
    r"did not answer ready",
    r"\b[Oo]wner by leaf\b|\bCPU by owner\b|\bowner category\b|^owner +%|% of ns\b",
)
_KINDS = (".py", ".rs", ".toml", ".html", ".js", ".sh", ".md", "Makefile")


def test_what_was_stumbled_over_does_not_come_back() -> None:
    words = [option for wording in STUMBLED_OVER for option in ("-e", wording)]
    argv = ["git", "-C", str(ROOT), "grep", "-nF", *words, "--", *(f"*{kind}" for kind in _KINDS)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if not line.startswith("tests/ioflame/test_sources.py:")]
    assert done.stdout and found == []


def _read_by_users(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of each string that is no docstring; figures within are `{}`."""
    inner = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
    inner |= {id(part) for node in ast.walk(module) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(module):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.lineno, node.value


def _lines_of(path: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), 1):
        if not (path.endswith(".toml") and line.lstrip().startswith("#")):
            yield number, line


def test_words_that_were_replaced_are_in_nothing_that_users_read() -> None:
    pattern = re.compile("|".join(REPLACED))
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=True).stdout
    texts = [path for path in listed.splitlines() if re.search(r"\.(md|html|txt|toml)$", path)]
    texts = [path for path in texts if not re.match(r"(tests|findings|docs/evidence|CHANGELOG)", path)]
    found = [(path, at, line) for path in texts for at, line in _lines_of(path) if pattern.search(line)]
    for file, module in shipped().items():
        found += [(str(file), at, text) for at, text in _read_by_users(module) if pattern.search(text)]
    assert len(texts) > 50 and found == []
