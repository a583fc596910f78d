"""Records built in code, for tests of what is computed from them."""

from __future__ import annotations

from dataclasses import replace

from ground.results.record import Counters, Window

SECOND = 1_000_000_000

_ZERO = Counters(None, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def counters(**values: float) -> Counters:
    """Counters that are all zero but for `values`."""
    return replace(_ZERO, **values)  # type: ignore[arg-type]


def window(kind: str, seconds: float = 1.0, note: str = "", /, **values: float) -> Window:
    """A window from second 100 on, with these counters."""
    begin = 100 * SECOND
    return Window(kind, begin, begin + int(seconds * SECOND), counters(**values), note)
