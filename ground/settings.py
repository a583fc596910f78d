"""What a reader can set to mend something, in the words of the command that was run.

A message names a setting with its value, `Setting.CALLGRAPH.to("dwarf")`; data files write `{CALLGRAPH=dwarf}`. Whoever
ran `make profile` reads CALLGRAPH=dwarf, whoever ran `ioflame profile` --callgraph=dwarf, and whoever attached to a
service the option of `ioflame attach`, which has fewer.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from enum import Enum


class FrontEnd(Enum):
    """Who asked, and so in whose words it is answered."""

    MAKE = "make"
    COMMAND = "command"
    ATTACH = "attach"


# The Makefile says that it is there.
_front_end = FrontEnd.MAKE if os.environ.get("IOFLAME_BY") == "make" else FrontEnd.COMMAND


@contextlib.contextmanager
def worded_for(front_end: FrontEnd | None) -> Iterator[None]:
    """Text that is made meanwhile is for this one; None: for whom it was."""
    global _front_end  # noqa: PLW0603 - threads of ours are answered by the same
    before, _front_end = _front_end, front_end or _front_end
    try:
        yield
    finally:
        _front_end = before


class Setting(Enum):
    """A variable of the Makefile, and an option of the commands that take it, of the same name."""

    WORKLOAD = "WORKLOAD"
    ENGINE = "ENGINE"
    CLIENT = "CLIENT"
    SCALE = "SCALE"
    CONFIG = "CONFIG"
    DB_BENCH = "DB_BENCH"
    ROCKSDB = "ROCKSDB"
    DB_DIR = "DB_DIR"
    THREADS = "THREADS"
    CPUS = "CPUS"
    NUM_KEYS = "NUM_KEYS"
    CACHE_SIZE = "CACHE_SIZE"
    CACHE_TYPE = "CACHE_TYPE"
    MEMORY_LIMIT = "MEMORY_LIMIT"
    DURATION = "DURATION"
    EVENT = "EVENT"
    FREQ = "FREQ"
    CALLGRAPH = "CALLGRAPH"
    COLLECT = "COLLECT"
    LADDER_SAMPLE = "LADDER_SAMPLE"
    TAIL = "TAIL"
    THRESHOLD_US = "THRESHOLD_US"
    OUT = "OUT"
    REPEATS = "REPEATS"
    USERS = "USERS"
    DELTA = "DELTA"
    TIME = "TIME"
    SESSIONS = "SESSIONS"
    BLOCKS = "BLOCKS"
    SCHEDULE = "SCHEDULE"

    @property
    def known(self) -> bool:
        """Whether whoever asked has it."""
        return _front_end is not FrontEnd.ATTACH or self in _OF_ATTACH

    def __str__(self) -> str:
        if _front_end is FrontEnd.MAKE or not self.known:
            return self.value
        return _OF_ATTACH[self] if _front_end is FrontEnd.ATTACH else f"--{self.value.lower().replace('_', '-')}"

    def to(self, value: object) -> str:
        """The setting with a value, as the user types it."""
        return f"{self}={value}"

    def where_known(self, advice: str) -> str:
        """The advice; "" for whoever has no such setting."""
        return advice if self.known else ""


_OF_ATTACH = {
    Setting.DURATION: "--seconds",
    Setting.EVENT: "--event",
    Setting.FREQ: "--freq",
    Setting.CALLGRAPH: "--callgraph",
    Setting.COLLECT: "--collect",
    Setting.OUT: "--out",
}
_PLACE = re.compile(r"\{([A-Z][A-Z_]+)(?:=([^}]*))?\}")


def worded(advice: str) -> str:
    """Advice of a data file, without those parts (parted by `; `) that take a setting which nobody here has."""
    parts = (part for part in advice.split("; ") if all(Setting[found[1]].known for found in _PLACE.finditer(part)))
    return _PLACE.sub(lambda found: _said(Setting[found[1]], found[2]), "; ".join(parts))


def _said(setting: Setting, value: str | None) -> str:
    return str(setting) if value is None else setting.to(value)
