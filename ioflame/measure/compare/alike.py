"""How the arms differ: it is printed, and bars the verdict where it does not belong to the factor."""

from __future__ import annotations

from collections.abc import Mapping

from ground.results.comparison import OF_A_BUILD, Comparison
from ground.results.record import RunRecord
from ioflame.analysis.what_differs import differences

# Each arm has its own by design: seeds, directories, a process.
_OWN = ("database directory",)
# What only repeats a flag.
_OF_FLAGS = ("setting ", "option ", "threads", "database cache_size", "database num_keys", "database description")


def tell_apart(record: Comparison, runs: Mapping[str, RunRecord]) -> None:
    """Fills in what differs, and why there can be no verdict.

    runs: a run of each arm. What follows from the factor is separated from what does not: of builds, everything of the
    client and its libraries; of a setting, what its flag changes. A flag that one client lacks, and whose lack changes
    nothing, is a part of its build.
    """
    arms = [arm.name for arm in record.arms if not arm.twin_of]
    factor = record.factor
    known, rows = record.differing, differences([runs[name] for name in arms])
    record.differing = {name: values for name, values in rows if name not in _OWN}
    if factor.is_command:
        # Flags are known from the command lines themselves; all that differs in these is the factor.
        flags = {name: values for name, values in known.items() if name.startswith("-")}
        others = {n: v for n, v in record.differing.items() if not n.startswith(_OF_FLAGS)}
        record.differing = flags | others
        barring: list[str] = []
    elif factor.is_build:
        barring = [name for name, values in rows if name.startswith("setting ") and "-" not in values]
    else:
        barring = [name for name, _ in rows if name.startswith(OF_A_BUILD)]
    record.not_comparable = [
        f"{name} differs besides {factor.name}: {', '.join(record.differing[name])}" for name in barring
    ]
