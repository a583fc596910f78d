"""What a reader can set to mend something, in the words of the command that was run.

Checks, findings and errors name the variables of `make profile` (`CALLGRAPH=dwarf`). Whoever attached to a service has
options instead, and no say in how the service was started.
"""

from __future__ import annotations

import re

__all__ = ("of_attached", "renamed")

# None: what only a workload of ours can be told.
_OPTIONS = {
    **dict.fromkeys(("WORKLOAD", "ENGINE", "CLIENT", "SCALE", "CONFIG", "DB_BENCH", "DB_DIR", "THREADS", "CPUS")),
    **dict.fromkeys(("NUM_KEYS", "CACHE_SIZE", "CACHE_TYPE", "MEMORY_LIMIT", "LADDER_SAMPLE", "STORE")),
    "DURATION": "--seconds",
    "EVENT": "--event",
    "FREQ": "--freq",
    "CALLGRAPH": "--callgraph",
    "COLLECT": "--collect",
    "OUT": "--out",
}
_VARIABLE = re.compile(rf"\b(?:{'|'.join(_OPTIONS)})\b")


def renamed(text: str) -> str:
    """With the option of `ioflame attach` for each variable that has one."""
    return _VARIABLE.sub(lambda found: _OPTIONS[found[0]] or found[0], text)


def of_attached(advice: str) -> str:
    """The same, without those parts (parted by `; `) that need a variable which has no option."""
    parts = [part for part in advice.split("; ") if all(_OPTIONS[name] for name in _VARIABLE.findall(part))]
    return renamed("; ".join(parts))
