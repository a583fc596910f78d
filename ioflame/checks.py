"""A check: one thing looked at, the value seen, what follows from it, and the command that changes it.

Every room offers its own checks; `ioflame doctor` prints them and a profile keeps them in `run.json`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

__all__ = ("NO_BREAK", "Check", "Verdict", "fold_line", "render_checks", "worst")


class Verdict(Enum):
    """How a check came out. Only BLOCKED stops a profile before it starts."""

    OK = "ok"
    NOTE = "note"  # nothing to mend, but it changes how the numbers read
    WARN = "warn"  # the numbers are worse than they could be
    FAILED = "failed"  # a measured result contradicts another
    BLOCKED = "blocked"  # the job cannot work at all


_ORDER = (Verdict.OK, Verdict.NOTE, Verdict.WARN, Verdict.FAILED, Verdict.BLOCKED)


@dataclass(frozen=True)
class Check:
    """One line of the doctor or of a run's checks.

    name:    what was looked at (`perf_event_paranoid`)
    verdict: how it came out
    value:   what was seen (`2`)
    means:   what follows from it
    mend:    the exact command that changes it, or ""
    """

    name: str
    verdict: Verdict
    value: str
    means: str = ""
    mend: str = ""


def worst(checks: Iterable[Check]) -> Verdict:
    """The gravest verdict among `checks`; OK when there is none."""
    return max((check.verdict for check in checks), key=_ORDER.index, default=Verdict.OK)


def render_checks(checks: Iterable[Check], width: int | None = None) -> str:
    """One line a check: verdict, name, value; what follows; the command. Folded at `width`, where that is given."""
    rows = list(checks)
    name_width = max((len(row.name) for row in rows), default=0)
    lines = []
    for row in rows:
        parts = [row.value]
        if row.means:
            parts.append(row.means)
        if row.mend:
            parts.append(f"-> {row.mend}")
        lines.append(f"{row.verdict.value:>7}  {row.name:<{name_width}}  " + "; ".join(parts))
    if width is not None:
        lines = [fold_line(line, width, name_width + 11) for line in lines]
    return "\n".join(lines)


# Between a name and its figure, which belong on one line.
NO_BREAK = "\u00a0"


def fold_line(line: str, width: int, indent: int) -> str:
    """`line` over several of at most `width` columns, the later ones indented; a longer word is left whole.

    Where fewer than 20 columns would be left beside the indent, the text goes below it. NO_BREAK becomes a blank, at
    which nothing is folded.
    """
    if len(line) <= width:
        return line.replace(NO_BREAK, " ")
    if width - indent < 20:
        begin = line[: len(line) - len(line.lstrip())][: width // 3]
        hang = begin + "  " if width > 12 else begin
        return "\n".join(_wrap(line.strip(), width, begin, hang))
    # Blanks in the first part are a layout: only the text after `indent` is folded.
    head, text = line[:indent], line[indent:]
    parts = _wrap(text, width - indent, "", "")
    return "\n".join([head + (parts[0] if parts else ""), *(" " * indent + part for part in parts[1:])])


def _wrap(text: str, width: int, begin: str, hang: str) -> list[str]:
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=begin,
        subsequent_indent=hang,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(NO_BREAK, " ") for line in lines]
