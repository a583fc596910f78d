"""What pgbench logs of each transaction: how many it had finished at any moment."""

from __future__ import annotations

import bisect
import functools
import time
from collections.abc import Sequence
from pathlib import Path

from ground.results.record import Window

_PREFIX = "transactions"


def logging_to(place: Path) -> list[str]:
    """Further words for its command line, so that it logs to a file in `place`."""
    return ["--log", f"--log-prefix={place / _PREFIX}"]


def ends_of_transactions(place: Path) -> list[float]:
    """When it had the answer to each, CLOCK_MONOTONIC in s, ascending."""
    began = time.time() - time.monotonic()
    (log,) = place.glob(f"{_PREFIX}.*")
    # Each line: client, transaction, us, script, s since 1970, us of that second. The last one may be cut.
    fields = [line.split() for line in log.read_text(encoding="ascii").splitlines()[:-1]]
    return [int(words[4]) + int(words[5]) / 1e6 - began for words in fields]


def assert_counted(windows: Sequence[Window], ends: list[float], late: float, early: float = 0.0) -> None:
    """Each window has the transactions that ended in it; late, early: by how much its count may be off in time, s"""
    until = functools.partial(bisect.bisect, ends)
    assert windows
    for window in windows:
        begin, end = window.start_ns / 1e9, window.end_ns / 1e9
        least, most = until(end - late) - until(begin + early), until(end + early) - until(begin - late)
        assert least <= (window.counters.queries or 0) <= most, (window, least, most)
