"""The ledger of seeds: no thread of any step ever reads the same sequence of keys twice from one database.

A thread's seed in db_bench is base + thread number, so a step with n threads uses `[base, base + n)`. Reuse turns a
measured read into one from a warm cache. Bases start at the Unix time and only grow, so that even a lost ledger gives
no seed twice unless more than one thread a second was started.
"""

from __future__ import annotations

import shlex
import time
from pathlib import Path

import msgspec

from ground.errors import MeasurementError
from ground.results.record import SeedRange
from ground.system.atomic_files import write_whole


class SeedLedger:
    """The ledger file in a database's directory; the caller holds the directory's lock."""

    NAME = "ioflame-seeds.json"

    def __init__(self, directory: Path) -> None:
        self._path = directory / self.NAME

    def ranges(self) -> list[SeedRange]:
        """All ranges given so far, the oldest first. MeasurementError when the ledger is damaged."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=list[SeedRange])
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:  # msgspec's are ValueErrors
            raise MeasurementError(
                f"the seed ledger {self._path} cannot be read: {error}",
                means="without it a seed might be given twice",
                mend=f"rm {shlex.quote(str(self._path))}   (safe if no run used this database in the last hour)",
            ) from None

    def take(self, step: str, threads: int) -> SeedRange:
        """A range that overlaps none given before, written down before it is returned."""
        given = self.ranges()
        after_last = max((r.first + r.threads for r in given), default=0)
        taken = SeedRange(step=step, first=max(int(time.time()), after_last), threads=threads)
        write_whole(self._path, msgspec.json.format(msgspec.json.encode([*given, taken]), indent=1) + b"\n")
        return taken
