"""What programs that run for each request of a device cost at least, beside what a request takes.

The kernel accounts for the programs alone: what calls them, and what they push out of caches, is in no account.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ground.results.checks import Check, Verdict
from ground.results.io_latency import ProgramCost

# Of a request's time.
_DEAR = 0.05


def cost_checks(instrument: str, costs: Sequence[ProgramCost], requests: int, taken_ns: float) -> Iterator[Check]:
    """None where the kernel keeps no account. taken_ns: by all of the requests together"""
    ns = sum(cost.ns for cost in costs)
    if not (ns and requests and taken_ns):
        return
    share = ns / taken_ns
    yield Check(
        f"{instrument} cost",
        Verdict.NOTE if share > _DEAR else Verdict.OK,
        f"at least {ns / requests / 1e3:.2f} us of CPU per request, by the kernel's account of the programs alone: "
        f"{100 * share:.1f} % of the {taken_ns / requests / 1e3:,.1f} us that one takes",
        "a thread that waits for each of its requests was slower by at least as much" if share > _DEAR else "",
    )
