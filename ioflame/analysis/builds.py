"""Builds against a base: ratios of an experiment's columns, from rounds in which the base runs first and last."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set

from ground.results.cells import Judged
from ground.results.differences import BudgetRow, Decision, RelativeTable
from ioflame.analysis.compare.figures import ArmWindow, BlockLogs
from ioflame.analysis.compare.nested import Confidence, difference, sums_of
from ioflame.analysis.compare.relative import relative_table
from ioflame.analysis.compare.verdict import Costs, VerdictRule, compare

# The runs of a round in order: the build, and the value of a column.
Round = Sequence[tuple[str, float]]
# A category with fewer us per query than this is not missed where it is not seen.
_SEEN = 0.02


def ratios(
    metric: str, of: str, base: str, rows: Mapping[str, Sequence[Round]], bars: Mapping[str, Sequence[str]]
) -> RelativeTable | None:
    """Every row (a column of the experiment, its rounds) by every build that was run; None where there is none.

    A round is a block and a session of its own: ln(build / mean of the base's two runs), so a straight drift cancels.
    bars: by build, why its difference to the base is no difference of what is compared
    """
    decisions: dict[tuple[str, str], Decision | tuple[float, float]] = {}
    for row, rounds in rows.items():
        sessions = [[[ArmWindow(build, {metric: value}) for build, value in one]] for one in rounds]
        rule = VerdictRule(looks=(max(len(rounds), 2),))
        for build in dict.fromkeys(build for one in rounds for build, _ in one if build != base):
            own = [one for one in sessions if {base, build} <= {window.arm for window in one[0]}]
            found = compare(own, base, build, rule, Costs(0.0, 0.0), bars=bars.get(build, ())).decisions.get(metric)
            if found is not None and found.base_value and found.arm_value:
                decisions[row, build] = found
    return relative_table(metric, of, base, decisions) if decisions else None


def base_agrees(base: str, rows: Mapping[str, Sequence[Round]]) -> Judged:
    """Whether the base's last run of a round is as its first, of every row: 95 % over all rows at once (Sidak)."""
    level = 0.95 ** (1 / max(len(rows), 1))
    apart, seen = [], []
    for row, rounds in rows.items():
        pairs = [[value for build, value in one if build == base and value > 0] for one in rounds]
        logs = [BlockLogs(math.log(pair[-1] / pair[0]), (1, 0)) for pair in pairs if len(pair) > 1]
        if not logs:
            continue
        found = difference([sums_of([log], 2) for log in logs], Confidence(level, level))
        if found is None:
            return Judged(None, f"{row}: the last is {math.exp(logs[0].log):.2f} of the first; one round says no more")
        told = f"{row} {found.ratio:.2f} [{found.low:.2f}, {found.high:.2f}]"
        seen.append(told)
        apart += [told] * (found.low > 1 or found.high < 1)
    if not seen:
        return Judged(None, "the base was not run first and last")
    return Judged(not apart, f"last over first: {', '.join(apart or seen)}")


def summed_rows(of_one: Set[str], of_other: Set[str]) -> dict[str, str]:
    """Rows of the other that one engine cannot part, by name: `IBI+DBI:Sk` is `IBI:Sk` and `DBI:Sk` of another."""
    found: dict[str, str] = {}
    for name in of_one:
        head, colon, tail = name.partition(":")
        parts = [f"{part}{colon}{tail}" for part in head.split("+")]
        if len(parts) > 1 and name not in of_other and of_other >= set(parts):
            found |= dict.fromkeys(parts, name)
    return found


def moved_rows(rows: Sequence[BudgetRow], *, base_inlines: bool, arm_inlines: bool) -> dict[str, str]:
    """Rows whose change may be due to inlining alone, each with a word for it.

    A category whose anchor was inlined away is 0 in a build without records of inlined functions: its time is in the
    rows of its callers. `moved`: that row; `moved?`: one that gained no more than what left such rows.
    base_inlines, arm_inlines: whether each build has records of inlined functions
    """
    categories = [row for row in rows if row.kind == "category"]
    gone = [row for row in categories if not arm_inlines and row.arm == 0 and row.base >= _SEEN]
    come = [row for row in categories if not base_inlines and row.base == 0 and row.arm >= _SEEN]
    left = sum(row.base for row in gone) - sum(row.arm for row in come)
    found = {row.name: "moved" for row in (*gone, *come)}
    for row in categories:
        # With the half of its interval: what it gained beyond what moved is its own.
        if row.name not in found and row.seen and left and row.change * left > 0:
            nearest = min(abs(row.low), abs(row.high))
            if nearest <= abs(left):
                found[row.name] = "moved?"
    return found
