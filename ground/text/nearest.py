"""What somebody may have meant who wrote a name that there is not."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`did you mean X? `; "" where none of the known names is like it."""
    import difflib  # of a refusal alone

    found = difflib.get_close_matches(name.lower(), list(known), 1)
    return f"did you mean {found[0]}? " if found else ""
