"""What our own processes may take of CPU, by what the target uses: `--budget`."""

from __future__ import annotations

import math
import signal
from collections.abc import Iterable, Sequence

from ground.errors import MeasurementError
from ground.results.record import OwnCost, RunRecord, Window
from ground.system.process import Child

LARGER = "a larger --budget, or a longer --per where it is watched once in that time"


class RunawayError(MeasurementError):
    """An observer took far more CPU than it was allowed."""


def allowed_seconds(budget: float, period: float, windows: Sequence[Window]) -> float:
    """CPU seconds of all of a period, at the target's rate in these windows."""
    cores = sum(window.counters.cpu_ns for window in windows) / 1e9 / sum(window.seconds for window in windows)
    return budget * cores * period


def check_left(cost: OwnCost, left: float) -> None:
    """MeasurementError where nothing of the budget is left."""
    if left > 0 or cost.budget is None:
        return
    spent = ", ".join(f"{kind} {seconds:.2f} s" for kind, seconds in cost.seconds.items())
    raise MeasurementError(
        f"the budget of {100 * cost.budget:g} % is used up: {cost.allowed:.2f} s of CPU in {cost.period:g} s ({spent})",
        mend=LARGER,
    )


def runaway_limit(left: float) -> int | None:
    """CPU seconds that an observer's process may have before the kernel ends it: a second or two more than its part,
    for what it writes when its window is over. None without a bound."""
    return math.ceil(left) + 1 if math.isfinite(left) else None


def runaway_error(children: Iterable[Child], used: float, left: float) -> MeasurementError | None:
    """Where one of them was ended for its CPU, what has to be said of it."""
    # SIGKILL follows where SIGXCPU is ignored; others may send SIGKILL, too.
    by = {-signal.SIGXCPU, -signal.SIGKILL} if used > left + 1 else {-signal.SIGXCPU}
    gone = [child.name for child in children if not child.running and child.returncode in by]
    if not gone:
        return None
    return RunawayError(
        f"{gone[0]} ran away and was ended: {used:.1f} s of CPU, where {left:.2f} s were allowed",
        means="what it had recorded is lost",
        mend="--collect   (the others)",
    )


def over_budget(record: RunRecord, used: float) -> str:
    """What has to be said of a run that took `used` seconds of CPU, all in all; "" where that is within its budget."""
    cost = record.target.cost if record.target is not None else None
    if cost is None or cost.budget is None or not record.windows:
        return ""
    allowed = allowed_seconds(cost.budget, cost.period, record.windows)
    if used <= allowed:
        return ""
    return (
        f"{used:.2f} s of CPU; {allowed:.2f} s were allowed, {100 * cost.budget:g} % of what the target uses in "
        f"{cost.period:g} s"
    )
