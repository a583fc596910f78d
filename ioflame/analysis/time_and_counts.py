"""A measured and a counted difference beside each other: what the two say together, and which to believe for what.

A count is exact, and of the code alone; a time has noise, and holds everything.
"""

from __future__ import annotations

from ground.results.differences import Decision, Outcome, percent
from ioflame.analysis.counted_verdicts import Against, CountVerdict

_MEASURED = {Outcome.SAME: "same user CPU", Outcome.REGRESSED: "more user CPU", Outcome.IMPROVED: "less user CPU"}
_UNSEEN = "the cause is what counts do not see: caches, real branch prediction, where the code lies"


def which_to_believe(time: Decision | None, count: Against) -> str:
    """time: of the user CPU of a query; None, or undecided, where it cannot be decided on this host"""
    if count.verdict is CountVerdict.NOT_COUNTED:
        return "not counted; there is the time alone"
    same = count.verdict is CountVerdict.SAME
    way = "more" if count.change > 0 else "fewer"
    counted = "same instructions" if same else f"{abs(count.change):.2%} {way} instructions"
    if count.doubted:
        counted += ", but mispredictions or locks say otherwise"
    if time is None or time.outcome not in _MEASURED:
        believe = (
            "neither is to be believed before the time is" if count.doubted else "believe the count, for the code alone"
        )
        return f"{counted}; the time is undecided here: {believe}"
    measured = _MEASURED[time.outcome]
    if count.doubted:
        return f"{counted}; {measured}: believe the time"
    if time.outcome is Outcome.SAME:
        within = f"{measured} within {percent(time.delta)}"
        return f"{counted}, {within}: {'both agree' if same else 'the code changed, by too little to be seen in time'}"
    if not same and (time.outcome is Outcome.REGRESSED) == (count.change > 0):
        return f"{counted}, {measured}: both agree; the time says what it costs"
    return f"{counted}, but {measured}: believe the time; {_UNSEEN}"
