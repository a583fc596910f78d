"""Text files are UTF-8 whatever the locale: each read and write of one says so."""

from __future__ import annotations

import ast

from tests.places import ROOT

ROOMS = ("ioflame", "ground", "workloads", "collectors", "ebpf", "folding", "viz")


def unstated(source: str) -> list[int]:
    """Lines that leave the encoding of a text file to the locale. ruff's PLW1514 sees a third of them."""
    return [
        call.lineno
        for call in ast.walk(ast.parse(source))
        if isinstance(call, ast.Call)
        and (
            (isinstance(call.func, ast.Attribute) and call.func.attr in ("read_text", "write_text"))
            or (isinstance(call.func, ast.Name) and call.func.id == "open")
        )
        and "encoding" not in {keyword.arg for keyword in call.keywords}
        and not (isinstance(call.func, ast.Name) and _binary(call))
    ]


def _binary(call: ast.Call) -> bool:
    """Whether an `open` has a mode with a b."""
    mode = call.args[1] if len(call.args) > 1 else None
    return isinstance(mode, ast.Constant) and isinstance(mode.value, str) and "b" in mode.value


def test_no_text_file_is_read_or_written_in_the_encoding_of_the_locale() -> None:
    text = "path.read_text()\npath.write_text(x, encoding='utf-8')\nopen(x)\nopen(x, 'rb')\nopen(x, 'w')"
    assert unstated(text) == [1, 3, 5]
    sources = [path for room in ROOMS for path in sorted((ROOT / room).glob("**/*.py"))]
    found = {str(path.relative_to(ROOT)): unstated(path.read_text(encoding="utf-8")) for path in sources}
    assert len(found) > 100
    assert {path: lines for path, lines in found.items() if lines} == {}
