"""The CPU of each kind of operation, where stacks show the kind."""

from __future__ import annotations

from collections.abc import Sequence

from ground.results.categories import knows_little
from ground.results.metrics import MODE_COUNTER
from ground.results.operations import Operation
from ground.results.profile import Folded
from ground.results.record import Window
from ground.results.roles import WRITES_VIEW
from ioflame.analysis.categories import categories_of, category_file

# The view of a service's rules whose rows are kinds of operation.
OPERATIONS_VIEW = "operations"


def operations_of(folded: Folded, plain: Sequence[Window], mode: str, stolen: int = 0) -> list[Operation]:
    """Every kind, in the order of the rules; none where the rules have no kinds, or nothing was sampled.

    plain: windows with nothing attached, whose CPU and counts are shared out; mode: what of the CPU was sampled;
    stolen: the most of the weight that can be stolen time
    """
    if OPERATIONS_VIEW not in folded.views or not folded.statistics.weight or not plain:
        return []
    cpu_us = sum(getattr(window.counters, MODE_COUNTER[mode]) for window in plain) / 1e3
    seconds = sum(window.seconds for window in plain)
    counted = {
        kind: sum(window.counters.operations.get(kind, 0.0) for window in plain)
        for kind in plain[0].counters.operations
        if all(kind in window.counters.operations for window in plain)
    }
    found = []
    for row in categories_of(category_file(folded, OPERATIONS_VIEW, stolen=stolen)).rows:
        count, own_us = counted.get(row.name), cpu_us * row.share / 100
        us = own_us / count if count else None
        table = None
        if us is not None:
            own = folded.of_row(OPERATIONS_VIEW, row.name)
            table = categories_of(category_file(own, "owner", (us, None), stolen))
            if knows_little(table) and WRITES_VIEW in own.views:
                table = categories_of(category_file(own, WRITES_VIEW, (us, None), stolen))
        per_second = None if count is None else count / seconds
        cores = own_us / 1e6 / seconds
        found.append(Operation(row.name, row.label, row.share, row.samples, cores, row.interval, per_second, us, table))
    return found
