"""The result of a trial of something on this host."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Trial:
    """Whether it works here; words: what was seen, or the reason; mend: the command that changes it."""

    works: bool
    words: str
    mend: str = ""
