"""Lines of a terminal: which characters they may have, how wide a text is, and how it is folded."""

from __future__ import annotations

import re
import unicodedata

# Between a name and its figure, which belong on one line.
NO_BREAK = "\u00a0"

# Between a number and its unit, where a line is never folded.
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:%|[nmu]?s|[kKMG]?i?B|[kKM]?Hz)(?![A-Za-z]))")

# What opens a list of a function or a template stands directly behind its name, a remark behind a blank.
_BRACKETS = re.compile(r"->|[<>()]")
_CLOSES = {"<": ">", "(": ")"}
_OF_NAME = re.compile(r"(?<=>::type) |(?<=\(anonymous) (?=namespace\))")

# Control characters but tab and line feed, and the marks that turn the direction of text.
_STEERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def escaped(text: str) -> str:
    """`text` as a terminal may get it: what would steer it is spelt out, as `\\x1b` or `\\u009b`.

    JSON stays JSON of the same meaning: its own escapes leave nothing below U+0020 to be spelt out here.
    """
    return _STEERS.sub(_spelt_out, text)


def _spelt_out(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x20 else f"\\u{code:04x}"


def cells(text: str) -> int:
    """Columns that `text` takes in a fixed-width font; combining marks take none, wide characters two."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def _cells_of(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    # Python calls characters wide that Unicode has not assigned yet; terminals do not.
    wide = unicodedata.east_asian_width(char) in "WF" and unicodedata.category(char) != "Cn"
    return 2 if wide else 1


def pad(text: str, width: int) -> str:
    """`text` with blanks behind it, so that it takes `width` columns; a wider one is not changed."""
    return text + " " * (width - cells(text))


def fold_line(line: str, width: int, indent: int) -> str:
    """`line` over several of at most `width` columns, the later ones indented; a longer word is left whole.

    A word that is too wide beside the indent, such as a function's name, moves to the left as far as it needs. Such a
    name is one word, with the blanks of `std::enable_if<(A < 2), void>::type f(int, char)`.
    Where fewer than 20 columns would be left beside the indent, the text goes below it. NO_BREAK becomes a blank, at
    which nothing is folded; nor is a number parted from its unit.
    """
    if cells(line) <= width:
        return line.replace(NO_BREAK, " ")
    line = _with_whole_names(_BEFORE_UNIT.sub(NO_BREAK, line))
    if width - indent < 20:
        begin = line[: len(line) - len(line.lstrip())][: width // 3]
        hang = begin + "  " if width > 12 else begin
        return "\n".join(_wrap(line.strip(), width, begin, hang))
    # Blanks in the first part are a layout: only the text after `indent` is folded.
    start = _characters(line, indent)
    if start and not {" ", NO_BREAK} & set(line[start - 1 : start + 1]):
        start = line.rfind(" ", 0, start) + 1  # a word that was moved to the left before, or a long one: it stays whole
    head, text = line[:start], line[start:]
    parts = _wrap(text, width - indent, "", "")
    first = parts.pop(0) if parts and cells(parts[0]) <= width - indent else ""
    begun = [(head + first).replace(NO_BREAK, " ").rstrip()] if head.strip() or first else []
    return "\n".join([*begun, *(" " * min(indent, max(width - cells(p), 0)) + p for p in parts)])


def _with_whole_names(line: str) -> str:
    """`line` with NO_BREAK for the blanks within names of functions and types."""
    parts: list[str] = []
    opened: list[tuple[int, str]] = []
    done = 0
    for found in _BRACKETS.finditer(line):
        at, mark = found.start(), found[0]
        named = at > 0 and (line[at - 1].isalnum() or line[at - 1] in "_>")
        if mark in _CLOSES and (named or (opened and mark == "(")):
            opened.append((at, _CLOSES[mark]))
        elif mark in (closing := [one for _, one in opened]):
            # One that opened within it, and is closed by nothing, is less than.
            place = len(closing) - 1 - closing[::-1].index(mark)
            begin = opened[place][0]
            del opened[place:]
            if not opened:
                parts += [line[done:begin], line[begin:at].replace(" ", NO_BREAK)]
                done = at
    return _OF_NAME.sub(NO_BREAK, "".join([*parts, line[done:]]))


def _characters(text: str, width: int) -> int:
    """How many characters of `text` fill `width` columns."""
    taken = 0
    for index, char in enumerate(text):
        if taken >= width:
            return index
        taken += _cells_of(char)
    return len(text)


def _wrap(text: str, width: int, begin: str, hang: str) -> list[str]:
    # textwrap counts characters, not columns.
    lines: list[str] = []
    line = ""
    for blanks, word in re.findall(r"([ \t\n\v\f\r]*)([^ \t\n\v\f\r]+)", text):
        longer = (line or begin) + " " * len(blanks) + word
        if line and cells(longer) > width:
            lines.append(line)
            longer = hang + word
        line = longer
    if line:
        lines.append(line)
    return [line.replace(NO_BREAK, " ") for line in lines]
