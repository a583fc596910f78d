"""What a comparison finds, as result files hold it: differences, verdicts, plans, budgets, relative tables.

Ratios are arm over base. Percentages are of the base. Times are minutes unless a name says seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import Enum

from ground.results.metrics import METRICS
from ground.results.ranges import Amount, Count, Ends, Share, Signed, Stated


class Outcome(str, Enum):
    """The five verdicts."""

    __str__ = str.__str__

    REGRESSED = "regressed"
    IMPROVED = "improved"
    SAME = "same"
    UNDECIDED = "undecided"
    NOT_COMPARABLE = "not comparable"


# Minutes of measuring beyond which nobody waits for a verdict.
_MOST_MINUTES = 480
# As a share of the base.
_WIDEST_BOUND = 0.2

# One mark a cell; what bars a verdict leaves the cell as doubtful as one that is undecided.
MARKS = {
    Outcome.REGRESSED: "-",
    Outcome.IMPROVED: "+",
    Outcome.SAME: "=",
    Outcome.UNDECIDED: "?",
    Outcome.NOT_COMPARABLE: "?",
}


def percent(share: float) -> str:
    """0.02 as `2 %`, 0.005 as `0.5 %`, 0.1234 as `12 %`: two digits."""
    value = 100 * share
    return f"{value:.0f} %" if abs(value) >= 9.95 or abs(value - round(value)) < 0.05 else f"{value:.1f} %"


@dataclass(frozen=True)
class Variances:
    """Of ln(arm/base), as standard deviations: between sessions, between blocks of one session, and of one window.

    session: what sessions differ by beyond what their blocks explain; never below 0
    block:   blocks of one session, position effect taken out
    window:  two windows of one arm in one block, drift included; 0 where a block has one window an arm
    """

    session: Amount
    block: Amount
    window: Amount


@dataclass(frozen=True)
class Difference(Ends):
    """A figure of an arm over that of the base, from paired blocks in sessions.

    ratio:           exp(log); log: mean over sessions of ln(arm/base)
    low, high:       of the ratio, at the confidence of a look (99 % for five looks): with 95 % over all looks
    same_low, same_high: the narrower interval of the two one-sided tests for equality (98 % for five looks)
    error, freedom:  standard error of log, degrees of freedom of its t
    p:               of no difference, two-sided, by t; sign_flip_p: by the exact sign-flip test, from 8 sessions on
    explained:       of an adjusted figure: the share of the blocks' variance that the covariates took out; else None
    """

    ratio: Amount
    low: Amount
    high: Amount
    same_low: Amount
    same_high: Amount
    log: Signed
    error: Amount
    freedom: Amount
    p: Share
    sign_flip_p: Share | None
    sessions: Count
    blocks: Count
    confidence: Share
    variances: Variances
    explained: Amount | None = None

    @property
    def no_larger_than(self) -> float:
        """The farther end of the interval for equality, as a share of the base: 0.031 for 3.1 %."""
        return max(self.same_high - 1, 1 - self.same_low)


@dataclass(frozen=True)
class PositionEffect(Ends):
    """What the place in a block does to a figure: first against the others, as a ratio; both orders are in balance.

    The first place of a mirrored block is its first and its last window, so a drift does not count as one.
    low, high: at 99.9 %, since they bar every verdict
    """

    ratio: Amount
    low: Amount
    high: Amount
    sessions: Count


@dataclass(frozen=True)
class Decision:
    """The verdict on one figure of one arm against the base.

    metric:       name in `COMPARED` of ground/results/metrics.py
    difference:   None where there is none to be had; `why` then says so
    delta:        the smallest difference that matters, as a share: 0.02
    look, looks:  which look at the data this is, of how many planned
    why:          what bars the verdict, or what is missing; empty otherwise
    more_blocks, more_minutes: of `undecided`: what it takes to know with 80 % chance, by the variances seen
    base_value, arm_value: geometric mean over the base's windows, and that times the ratio (without one the arm's own
                  mean), in the metric's unit
    """

    metric: str
    base: str
    arm: str
    outcome: Outcome
    difference: Difference | None
    delta: Share
    look: Count
    looks: Count
    why: tuple[str, ...] = ()
    more_blocks: Count | None = None
    more_minutes: Amount | None = None
    base_value: Stated | None = None
    arm_value: Stated | None = None

    @property
    def mark(self) -> str:
        return MARKS[self.outcome]

    @property
    def verdict(self) -> str:
        """One of the five, with what belongs to it: `same within 2 %`, `undecided (12 more blocks, about 5 min)`.

        What would take longer than a working day is not promised in minutes.
        """
        if self.outcome is Outcome.SAME:
            return f"same within {percent(self.delta)}"
        if self.outcome is Outcome.NOT_COMPARABLE:
            return f"not comparable ({'; '.join(self.why)})"
        if self.outcome is Outcome.UNDECIDED:
            if self.more_minutes is not None and self.more_minutes > _MOST_MINUTES:
                return f"undecided ({'; '.join((*self.why, 'cannot be decided on this host today'))})"
            more = (
                "" if self.more_blocks is None else f"{self.more_blocks} more blocks, about {self.more_minutes:.0f} min"
            )
            return f"undecided ({'; '.join(part for part in (more, *self.why) if part)})"
        return str(self.outcome)

    @property
    def bound(self) -> str:
        """`no difference larger than 3.1 %`; "" where there is no interval, or a bound so wide that it says nothing."""
        found = self.difference
        if found is None or found.no_larger_than > _WIDEST_BOUND:
            return ""
        # Rounded up: what is said to be the largest must not be too small.
        return f"no difference larger than {percent(math.ceil(1000 * found.no_larger_than) / 1000)}"

    @property
    def size(self) -> str:
        """`48.6 % worse (8.7 to 103.0 %)` where the direction is sure, `+3.1 % (-0.2 to +6.4 %)` otherwise.

        "" where there is no difference.
        """
        found = self.difference
        if found is None:
            return ""
        change, *ends = (100 * (value - 1) for value in (found.ratio, found.low, found.high))
        if self.outcome not in (Outcome.REGRESSED, Outcome.IMPROVED):
            return f"{change:+.1f} % ({ends[0]:+.1f} to {ends[1]:+.1f} %)"
        least, most = sorted(map(abs, ends))
        way = "worse" if self.outcome is Outcome.REGRESSED else "better"
        return f"{abs(change):.1f} % {way} ({least:.1f} to {most:.1f} %)"

    @property
    def sentence(self) -> str:
        """`CPU of a query (cpuPer) regressed: 48.6 % worse (8.7 to 103.0 %)`"""
        title = METRICS[self.metric].title
        named = f"{title} ({self.metric})" if title else self.metric
        return f"{named} {self.verdict}" + (f": {self.size}" if self.size else "")

    @property
    def explained(self) -> str:
        """`the device explains 97 % of what the blocks vary by`, of an adjusted figure; "" of others."""
        share = self.difference.explained if self.difference else None
        return "" if share is None else f"the device explains {percent(share)} of what the blocks vary by"

    @property
    def in_words(self) -> str:
        """What is said beside the figure: the verdict, its bound where no difference was found, what was taken out."""
        decided = self.outcome in (Outcome.REGRESSED, Outcome.IMPROVED)
        return "; ".join(part for part in (self.verdict, "" if decided else self.bound, self.explained) if part)


@dataclass(frozen=True)
class PlanRow:
    """What it takes to see a difference of `delta` with a chance of at least 80 %.

    looks:   sessions at which the data are looked at; the last is the most sessions made
    blocks:  a session; minutes: up to the last look, warm-ups included
    power:   chance of `regressed` or `improved` where the difference is delta, by the last look
    power_same: chance of `same within delta` where there is none
    expected_minutes: on average where the difference is delta: a clear one is seen at an early look
    reached: False where no plan within the bounds has the power; the row is then the largest one
    """

    delta: Share
    looks: tuple[Count, ...]
    blocks: Count
    minutes: Amount
    expected_minutes: Amount
    power: Share
    power_same: Share
    reached: bool = True

    @property
    def sessions(self) -> int:
        return self.looks[-1]


# Of a row that was measured as a part, and is none: the parts do not add up to the whole.
_BESIDE = "beside"


@dataclass(frozen=True)
class BudgetRow(Ends):
    """A part of the change in us per query (or in the unit of `unit`).

    kind:      `latency`, `cpu`, `category`, `wait`, `unaccounted` or `background`; `row` of an account
    change:    arm - base; low, high: its 95 % interval, simultaneous over all rows of the budget
    seen:      the interval leaves zero
    """

    name: str
    kind: str
    base: Signed
    arm: Signed
    change: Signed
    low: Signed
    high: Signed
    unit: str = "us/query"

    @property
    def seen(self) -> bool:
        return self.low > 0 or self.high < 0

    @property
    def depth(self) -> int:
        """0 for a row that is part of no other, 1 for a part of the latency, 2 for a part of its CPU."""
        return {"latency": 0, "background": 0, _BESIDE: 0, "category": 2}.get(self.kind, 1)


@dataclass(frozen=True)
class Budget:
    """The change in latency, row by row: latency = cpu + every wait + unaccounted; cpu = its categories.

    closes:   |unaccounted| of either side is at most 2 % of that side's latency
    sessions: that were resampled; with one alone the intervals hold its seconds only
    """

    rows: tuple[BudgetRow, ...]
    closes: bool
    sessions: Count
    resamples: Count
    seed: Count

    @property
    def shown(self) -> tuple[BudgetRow, ...]:
        """The rows as a reader gets them: where they do not add up, CPU and waits stand beside the latency, and what is
        left over is no row."""
        if self.closes:
            return self.rows
        beside = {"cpu", "wait"}
        rows = (replace(row, kind=_BESIDE) if row.kind in beside else row for row in self.rows)
        return tuple(row for row in rows if row.kind != "unaccounted")

    @property
    def off(self) -> str:
        """In words, by how much the parts miss the latency; "" where they add up."""
        left = next((row for row in self.rows if row.kind == "unaccounted"), None)
        if self.closes or left is None:
            return ""
        whole = self.rows[0]
        sides = (f"{value:+,.2f} of {of:,.2f} us" for value, of in ((left.base, whole.base), (left.arm, whole.arm)))
        words = f"CPU and waits do not add up to the latency, they leave {' and '.join(sides)}: none is a part of it"
        if min(left.base, left.arm) < 0:
            # io.lat begins with the request, and the thread still runs for a while before it sleeps.
            words += "; what a thread does while the device works (a doorbell, a switch) is on CPU and device"
        return words


@dataclass(frozen=True)
class AccountChange:
    """The change in one account (`accounts.json`), row by row; the first row is all of it, which the others add up to.

    sessions: that have it of both arms, and that the intervals come from; of one alone there is no interval
    """

    name: str
    title: str
    unit: str
    rows: tuple[BudgetRow, ...]
    sessions: Count


@dataclass(frozen=True)
class Cell(Ends):
    """A cell of a relative table: value over the base's.

    mark:        one of `-` `+` `=` `?`; "" in the base's own column
    low, high:   of the ratio, at `confidence`; None without repeats
    log, error, freedom: of ln(ratio), for means over cells and hosts; None without repeats
    """

    ratio: Amount
    mark: str
    low: Amount | None = None
    high: Amount | None = None
    log: Signed | None = None
    error: Amount | None = None
    freedom: Amount | None = None
    confidence: Share | None = None


@dataclass(frozen=True)
class RelativeTable:
    """One figure on one host: a row a test, a column a version, the base 1.00.

    cells:    by row, then by column; a cell that was not measured is absent
    mean:     by column: the geometric mean over the rows; only where they are one family of workloads
    marked:   cells that differ; chance: how many of them are chance, at most, on average (the false discovery rate)
    """

    metric: str
    host: str
    base: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: dict[str, dict[str, Cell]]
    mean: dict[str, Cell] = field(default_factory=dict)
    family: str = ""
    marked: Count = 0
    chance: Amount = 0.0


@dataclass(frozen=True)
class Agreement:
    """One comparison on several hosts.

    mark, holds, of:  what most hosts say, and how many say so
    q, p, i_squared:  Cochran's Q of the ratios' logarithms, its p, and the share of their variance beyond chance; of
                      the hosts with repeats
    pooled:           one ratio for all, only where hosts agree (one mark, p >= 0.1); None otherwise
    """

    cells: dict[str, Cell]
    mark: str
    holds: Count
    of: Count
    q: Amount
    p: Share
    i_squared: Amount
    pooled: Cell | None

    @property
    def sentence(self) -> str:
        """`- on 2 of 3 hosts: a 0.91-, b 0.92-, c 1.00=; they differ beyond chance (Q 35.1, p 0.000, I2 94 %)`."""
        each = ", ".join(f"{host} {cell.ratio:.2f}{cell.mark}" for host, cell in self.cells.items())
        differ = f"; they differ beyond chance (Q {self.q:.1f}, p {self.p:.3f}, I2 {100 * self.i_squared:.0f} %)"
        return f"{self.mark} on {self.holds} of {self.of} hosts: {each}" + differ * (self.p < 0.1)
