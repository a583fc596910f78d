"""The steps of a history as lines of the terminal."""

from __future__ import annotations

from ground.results.history import History
from ground.text.columns import pad

_NAMED = 8


def left_out(history: History) -> str:
    """Which labels are no versions, in words; "" where all are."""
    names = history.left_out
    if not names:
        return ""
    more = f", and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"Left out, as no versions: {', '.join(names[:_NAMED])}{more}. --label PATTERN includes them."


def render_steps(history: History) -> str:
    """A line for each step: where, between which versions, how large, and whether it went away; then what is no longer
    measured, and which labels are no versions."""
    lines = []
    for series in history.series:
        for one in series.fit.features:
            kind = "candidate" if one.candidate else "worse" if series.worse(one) else "better"
            size = "{:+.1f} % [{:+.1f}, {:+.1f}]".format(
                *(100 * (value - 1) for value in (one.ratio, one.low, one.high))
            )
            away = "" if one.went_away is None else f"; recovered in {series.labels[one.went_away]}"
            between = f"{series.labels[one.at - 1]} to {series.labels[one.at]}"
            where = f"{series.test}, {series.host}, {series.metric}"
            lines.append(f"{pad(kind, 10)}{where}: {between}  {size}{away}")
    lines = lines or [f"no step in {len(history.series)} series"]
    lines += [
        f"{pad('ended', 10)}{test}, {host}: last measured in {label}" for (test, host), label in history.ended().items()
    ]
    lines += filter(None, [left_out(history)])
    return "\n".join(lines)
