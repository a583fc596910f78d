"""From sessions to verdicts: the rule, its looks, what bars a verdict, many cells at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ground.results.differences import Decision, Difference, Outcome, PositionEffect, Variances, percent
from ground.results.metrics import COMPARED, DECIDING
from ioflame.analysis.compare.figures import PLANNED, Session, block_logs, geometric_mean, with_device_time
from ioflame.analysis.compare.nested import Confidence, difference, sums_of
from ioflame.analysis.quantiles import t_quantile, t_tail

# Looked at for each figure, twice, at each look: at 99 % chance alone would bar every fifth comparison of a noisy host.
_CONFIDENCE = 0.999


@dataclass(frozen=True)
class VerdictRule:
    """Fixed before the first window, and kept with the result.

    delta: the smallest difference that matters, as a share (0.02)
    looks: sessions after which the data are looked at; one may be moved to where the time ran out
    alpha: false verdicts over all looks; each look has alpha / len(looks)
    """

    delta: float = 0.02
    looks: tuple[int, ...] = (4, 6, 8, 12, 16)
    alpha: float = 0.05

    @property
    def confidence(self) -> Confidence:
        """Of one look: 99 %, and 98 % for equality, of five looks at 5 %."""
        level = self.alpha / len(self.looks)
        return Confidence(1 - level, 1 - 2 * level)

    def look(self, sessions: int) -> int:
        """Which look it is after so many sessions, 1 first: the time may end between two of them."""
        return min(sum(look < sessions for look in self.looks) + 1, len(self.looks))


@dataclass(frozen=True)
class Costs:
    """Seconds: of a session without its blocks (start, warm-up, end), and of one block with its thaws."""

    session_seconds: float
    block_seconds: float


@dataclass(frozen=True)
class ArmsCompared:
    """Every figure of one arm against the base, and what was looked at before believing it.

    decisions: by metric, in the order of COMPARED; a figure that was not measured is absent
    twin:      the same of the twin (a copy of the base) against the base; {} without one
    position:  by metric
    bars:      what bars every verdict
    """

    base: str
    arm: str
    decisions: Mapping[str, Decision]
    twin: Mapping[str, Decision]
    position: Mapping[str, PositionEffect]
    bars: tuple[str, ...]

    @property
    def decided(self) -> bool:
        """QPS and CPU per query both have a verdict (or one that cannot be had): nothing more is to be measured."""
        found = [self.decisions[name] for name in DECIDING if name in self.decisions]
        return bool(found) and all(one.outcome is not Outcome.UNDECIDED for one in found)


def compare(
    sessions: Sequence[Session],
    base: str,
    arm: str,
    rule: VerdictRule,
    costs: Costs,
    *,
    twin: str | None = None,
    bars: Sequence[str] = (),
) -> ArmsCompared:
    """Decides every figure, at the end of a whole session.

    bars: reasons of the caller's for `not comparable` (a setting that differs beside the factor, one artifact twice)

    A twin bars the verdict on a figure where its interval lies outside +-delta/2, and so does the place in a block. An
    interval that merely reaches beyond delta/2 does not: it would take four times the blocks that show sameness within
    delta, so no verdict would ever be given.

    Of several arms, `among_arms` has to look at the decisions of all.
    """
    windows = [
        [[replace(one, figures=with_device_time(one.figures)) for one in block] for block in session]
        for session in sessions
    ]
    position = {
        metric: effect
        for metric in _measured(windows, base, arm)
        if (effect := position_effect(windows, COMPARED[metric].figure)) is not None
    }
    twins = dict(_decisions(windows, base, twin, rule, costs, {})) if twin else {}
    of_figure = {
        metric: [
            *bars,
            *(of_twin(twins[metric], rule.delta) if metric in twins else []),
            *(of_position(position[metric], rule.delta) if metric in position else []),
        ]
        for metric in COMPARED
    }
    decisions = among_figures(dict(_decisions(windows, base, arm, rule, costs, of_figure)))
    return ArmsCompared(base, arm, decisions, twins, position, tuple(bars))


def _measured(sessions: Sequence[Session], base: str, arm: str) -> list[str]:
    """The figures that some window of either arm has; one that is 0 in all (reads of a workload in cache) is none."""
    both = [w.figures for session in sessions for block in session for w in block if w.arm in (base, arm)]
    found = {name for figures in both for name, value in figures.items() if value}
    return [name for name, one in COMPARED.items() if one.figure in found and (one.covariate or one.figure) in found]


def _decisions(
    sessions: Sequence[Session], base: str, arm: str, rule: VerdictRule, costs: Costs, bars: Mapping[str, Sequence[str]]
) -> Iterable[tuple[str, Decision]]:
    places = max((len({w.arm for w in block}) for session in sessions for block in session), default=2)
    for name in _measured(sessions, base, arm):
        metric = COMPARED[name]
        barred = list(bars.get(name, ()))
        found = None
        try:
            logs = [one for one in block_logs(sessions, metric, base, arm) if one]
            found = difference([sums_of(one, places) for one in logs], rule.confidence)
        except ValueError as error:
            barred.append(str(error))
        decision = decide(name, found, rule, costs, base=base, arm=arm, bars=barred)
        of_base, of_arm = (geometric_mean(sessions, metric.figure, side) for side in (base, arm))
        if found is not None and of_base is not None:
            # The ratio pairs blocks and takes out what place and device do: a mean of the arm's windows may contradict.
            of_arm = of_base * found.ratio
        yield name, replace(decision, base_value=of_base, arm_value=of_arm)


def decide(
    metric: str,
    difference: Difference | None,
    rule: VerdictRule,
    costs: Costs,
    *,
    base: str = "A",
    arm: str = "B",
    bars: Sequence[str] = (),
) -> Decision:
    """One of five verdicts for one figure.

    `same` goes before `regressed` and `improved`: where the whole interval is within delta, what is left of zero is of
    a size that does not matter; the interval says so. From 8 sessions on a difference has to be seen by the exact
    sign-flip test of the sessions' means as well.
    """
    look, looks = (rule.look(difference.sessions) if difference else 0), len(rule.looks)
    made = Decision(metric, base, arm, Outcome.UNDECIDED, difference, rule.delta, look, looks)
    if bars:
        return replace(made, outcome=Outcome.NOT_COMPARABLE, why=tuple(bars))
    if difference is None:
        return replace(made, why=("one session cannot say what the next would",))
    outcome = judged(difference, rule, COMPARED[metric].higher_is_worse)
    if outcome is not Outcome.UNDECIDED:
        return replace(made, outcome=outcome)
    why = ""
    if difference.low > 1 or difference.high < 1:
        exact = difference.sign_flip_p
        why = f"t sees a difference, the exact sign-flip test of the sessions does not (p {exact:.3f})"
    sessions, blocks = _more(difference, rule)
    minutes = (sessions * costs.session_seconds + blocks * costs.block_seconds) / 60
    return replace(made, why=(why,) if why else (), more_blocks=blocks, more_minutes=minutes)


def judged(difference: Difference, rule: VerdictRule, higher_is_worse: bool = True) -> Outcome:
    """The rule itself: same, regressed, improved or undecided."""
    if 1 / (1 + rule.delta) <= difference.same_low and difference.same_high <= 1 + rule.delta:
        return Outcome.SAME
    differs = difference.low > 1 or difference.high < 1
    exact = difference.sign_flip_p
    if not differs or (exact is not None and exact > 1 - difference.confidence):
        return Outcome.UNDECIDED
    return Outcome.REGRESSED if higher_is_worse == (difference.log > 0) else Outcome.IMPROVED


def _more(difference: Difference, rule: VerdictRule) -> tuple[int, int]:
    """Sessions and blocks until a difference of delta, and that there is none, are seen with 80 % chance.

    By the variances seen; at least up to the next look.
    """
    made, a_session = difference.sessions, max(1, round(difference.blocks / difference.sessions))
    of_session = difference.variances.session**2 + difference.variances.block**2 / a_session
    delta = math.log1p(rule.delta)
    needed = made + 1
    # 0.84 and 1.28: 80 % power, and 90 % on either side for sameness.
    while needed < _ENDLESS and delta < math.sqrt(of_session / needed) * max(
        t_quantile(rule.confidence.differs, needed - 1) + 0.84, t_quantile(rule.confidence.same, needed - 1) + 1.28
    ):
        needed += 1 + needed // 50
    needed = max(needed, next((look for look in rule.looks if look > made), needed))
    return needed - made, (needed - made) * a_session


_ENDLESS = 100_000


def false_discovery(decisions: Sequence[Decision], rate: float = 0.05) -> list[Decision]:
    """The cells of one table, Benjamini-Hochberg (1995): a difference that does not survive becomes `undecided`.

    The p of a cell is that of its look times the number of looks.
    """
    tested = [one.difference.p * one.looks for one in decisions if _is_tested(one) and one.difference]
    bound = discovery_bound(tested, rate)
    return [
        replace(one, outcome=Outcome.UNDECIDED, why=(f"chance, among the {len(tested)} cells of this table",))
        if one.outcome in (Outcome.REGRESSED, Outcome.IMPROVED)
        and one.difference
        and one.difference.p * one.looks > bound
        else one
        for one in decisions
    ]


def discovery_bound(ps: Sequence[float], rate: float = 0.05) -> float:
    """The largest p of several tests that is a discovery, of which at most a share of `rate` are chance.

    Benjamini and Hochberg (1995); -1 where none is.
    """
    ordered = sorted(ps)
    return max((p for k, p in enumerate(ordered, 1) if p <= rate * k / len(ordered)), default=-1.0)


def among_figures(decisions: Mapping[str, Decision]) -> dict[str, Decision]:
    """The figures of one arm: those that the rule is planned for as they are, the others as cells of one table."""
    kept = dict(zip(decisions, false_discovery(list(decisions.values())), strict=True))
    return {name: one if name in PLANNED else kept[name] for name, one in decisions.items()}


def among_arms(arms: Sequence[Mapping[str, Decision]]) -> list[dict[str, Decision]]:
    """The decisions of several arms against one base: a figure that the rule is planned for is one cell for each."""
    found = [dict(decisions) for decisions in arms]
    for name in PLANNED:
        having = [decisions for decisions in found if name in decisions]
        for decisions, kept in zip(having, false_discovery([one[name] for one in having]), strict=True):
            decisions[name] = kept
    return found


def _is_tested(decision: Decision) -> bool:
    return decision.difference is not None and decision.outcome is not Outcome.NOT_COMPARABLE


def unpaired(base: Sequence[float], arm: Sequence[float], confidence: Confidence) -> Difference | None:
    """Runs that were made without pairing, one value a run: Welch's t on logarithms. None below two runs a side."""
    if min(len(base), len(arm)) < 2:
        return None
    ours, theirs = ([math.log(value) for value in side] for side in (arm, base))
    means = [sum(side) / len(side) for side in (ours, theirs)]
    squares = [sum((x - mean) ** 2 for x in side) for mean, side in zip(means, (ours, theirs), strict=True)]
    parts = [square / (len(s) - 1) / len(s) for square, s in zip(squares, (ours, theirs), strict=True)]
    log, error = means[0] - means[1], math.sqrt(sum(parts))
    spread = sum(part**2 / (len(s) - 1) for part, s in zip(parts, (ours, theirs), strict=True))
    freedom = error**4 / spread if spread else len(ours) + len(theirs) - 2.0
    half, same = (t_quantile(c, freedom) * error for c in (confidence.differs, confidence.same))
    runs = len(ours) + len(theirs)
    return Difference(
        math.exp(log), math.exp(log - half), math.exp(log + half), math.exp(log - same), math.exp(log + same),
        log, error, freedom, t_tail(log / error, freedom) if error else float(log == 0), None,
        min(len(ours), len(theirs)), runs, confidence.differs,
        Variances(math.sqrt(sum(squares) / (runs - 2)), 0.0, 0.0),
    )  # fmt: skip


def position_effect(sessions: Sequence[Session], metric: str) -> PositionEffect | None:
    """The first place of a block against the others, by t over the sessions; None below two sessions.

    Each window is taken against the mean of its arm in its session, so arms that differ do not count as places that
    do. Of a mirrored block the first place is the first and the last window: a straight drift cancels.
    """
    effects = [effect for session in sessions if (effect := _of_session(session, metric)) is not None]
    n = len(effects)
    if n < 2:
        return None
    mean = sum(effects) / n
    error = math.sqrt(sum((one - mean) ** 2 for one in effects) / (n - 1) / n)
    half = t_quantile(_CONFIDENCE, n - 1) * error
    return PositionEffect(math.exp(mean), math.exp(mean - half), math.exp(mean + half), n)


def _of_session(session: Session, metric: str) -> float | None:
    of_arm: dict[str, list[float]] = {}
    placed: list[tuple[int, str, float]] = []
    for block in session:
        order = list(dict.fromkeys(window.arm for window in block))
        for window in block:
            value = window.figures.get(metric, 0.0)
            if value <= 0:
                return None
            of_arm.setdefault(window.arm, []).append(math.log(value))
            placed.append((order.index(window.arm), window.arm, math.log(value)))
    means = {arm: sum(logs) / len(logs) for arm, logs in of_arm.items()}
    first = [log - means[arm] for place, arm, log in placed if place == 0]
    others = [log - means[arm] for place, arm, log in placed if place > 0]
    return sum(first) / len(first) - sum(others) / len(others) if first and others else None


def of_twin(twin: Decision, delta: float) -> list[str]:
    """Why the verdict is barred, in words; empty where the twin agrees with its base."""
    found = twin.difference
    if found is None:
        return []
    half = t_quantile(_CONFIDENCE, found.freedom) * found.error
    if not _outside(math.exp(found.log - half), math.exp(found.log + half), delta / 2):
        return []
    return [f"{twin.base} differs from itself (A/A control) by {percent(found.ratio - 1)}"]


def of_position(effect: PositionEffect, delta: float) -> list[str]:
    """Why the verdict is barred, in words; empty where the place in a block has no effect that matters."""
    if not _outside(effect.low, effect.high, delta / 2):
        return []
    return [f"the first place in a block differs from the others by {percent(effect.ratio - 1)}"]


def _outside(low: float, high: float, bound: float) -> bool:
    return low > 1 + bound or high < 1 / (1 + bound)
