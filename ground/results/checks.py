"""A check: one thing looked at, the value seen, what follows from it, and the command that changes it.

Every room offers its own checks; `ioflame doctor` prints them and a profile keeps them in `run.json`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from ground.text.columns import cells, fold_line, pad


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
    name_width = max((cells(row.name) for row in rows), default=0)
    lines = []
    for row in rows:
        parts = [row.value]
        if row.means:
            parts.append(row.means)
        if row.mend:
            parts.append(f"-> {row.mend}")
        lines.append(f"{row.verdict.value:>7}  {pad(row.name, name_width)}  " + "; ".join(parts))
    if width is not None:
        lines = [fold_line(line, width, name_width + 11) for line in lines]
    return "\n".join(lines)
