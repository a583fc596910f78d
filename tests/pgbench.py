"""What pgbench logs of each transaction: when it had the answer."""

from __future__ import annotations

import time
from pathlib import Path

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
