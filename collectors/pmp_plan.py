"""How a process is to be sampled: the settings of every sampler."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PmpPlan:
    """How a process is to be sampled.

    hz:         samples a second of each thread
    callgraph:  `dwarf` or `fp`; gdb has its own way
    budget_ms:  the longest pause of the whole process that gdb may cause
    force:      sample even beyond the budget
    """

    sampler: str = "stacksampler"
    hz: float = 10.0
    callgraph: str = "dwarf"
    budget_ms: float = 250.0
    force: bool = False
