"""A release watched over the hosts of a store: what its hosts pay more or less for, and what is another mix of them."""

from __future__ import annotations

import shlex

from ground.errors import MeasurementError
from ground.results.fleet import Watch
from ground.results.store.database import Store, stored_query
from ioflame.analysis.fleet import watch_of

# Each join of fleet.sql has its smaller side last; by its own estimates DuckDB would keep all samples in memory.
_AS_WRITTEN = "SET disabled_optimizers = 'join_order,build_side_probe_side'"
_DAYS = "SELECT label, created::DATE AS day, count(DISTINCT host) AS hosts FROM runs GROUP BY ALL ORDER BY ALL"


def watch_release(store: Store, base: str, arm: str) -> Watch:
    """Two versions on the hosts that ran them, on the days on which both ran. MeasurementError where there are none."""
    store.query(_AS_WRITTEN)
    found = watch_of(store.query(stored_query("fleet.sql"), [base, arm]).as_dicts())
    if found is None:
        raise MeasurementError(
            f"{base} and {arm} cannot be compared by their hosts in {store.directory}",
            means="on one day, at least two hosts have to run each in the same test, on the same CPU and kernel",
            mend=shlex.join(["ioflame", "store", "sql", str(store.directory), _DAYS]),
        )
    return found
