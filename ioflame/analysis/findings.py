"""What a run shows, in words: rules over its CPU profile, its latency ladder and its waits, the dearest first.

A rule is data (`findings.toml`, and an engine's own). Its figure is us per query with a 95 % interval: of CPU, the
share of the weight that its frames have in each round (in each second of a single window), times the CPU per query of
the plain windows; of a stage of the ladder, its mean over the queries that were followed, +- 1.96 standard errors; of a
wait, the share of the working threads' time that is in its states, by bootstrap over the threads, times their time per
query; of the CPU of roles, their share of all CPU in each round; of stalls, their share of each window. A part of what
is known to its interval only, rx.lat or the time per query, is known no better. Nothing is said where the interval does
not lie above what the rule calls worth saying.

What an observer saw in a window of its own is carried over to the latency of the plain windows where the workload ran
at 90 % of their rate, or slower by what chance or the host may explain; where it did not, the sentence says so, and
comes after all that are undisturbed. So does CPU of which little is left without what may be stolen time; nothing is
said where all of it may be.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import msgspec

from ground.results.findings import Finding
from ground.results.interval import Interval
from ground.results.ladder import Ladder, Rung
from ground.results.metrics import Carried, carried
from ground.results.off_cpu import Thread
from ground.results.profile import Folded, FoldedStack
from ground.results.record import RunRecord, Window
from ground.results.states import MARKS
from ground.settings import worded
from ioflame.analysis.bootstrap import share_draws, share_intervals
from ioflame.analysis.categories import cpu_profiled, part_interval, part_of
from ioflame.analysis.checks.stolen_time import stolen_of
from ioflame.analysis.others import others_in
from ioflame.analysis.rounds import ProfiledRounds, by_round, interval_of

MOST = 7
# A query that takes little has small parts worth saying: this share of the whole is enough, whatever `least_us` is.
ENOUGH = 0.03
# Fewer threads give no interval for what a thread waits for.
_FEWEST_THREADS = 3
_FEWEST_WINDOWS = 5
# A mean so many times the median rests on few queries.
_FAR = 2
_GENERAL = Path(__file__).with_name("findings.toml")
_KERNEL = "_[k]"
_INLINED = "_[i]"
_PLACE = re.compile(r"\{(\w+)\}")
_FIGURES = ("us", "whole", "frame", "n", "more")


class FindingRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sentence and when it is true; `findings.toml` says what each field is."""

    name: str
    kind: Literal["leaf", "within", "category", "stage", "wait", "role", "held_back"]
    least_us: float
    sentence: str
    do: str
    source: str
    see: Literal["graph", "where", "waits", "time"]
    frames: list[str] = msgspec.field(default_factory=list)
    kernel: bool | None = None
    view: str = ""
    categories: list[str] = msgspec.field(default_factory=list)
    stage: str = ""
    roles: list[str] = msgspec.field(default_factory=list)
    states: list[str] = msgspec.field(default_factory=list)
    places: list[str] = msgspec.field(default_factory=list)
    instead_of: list[str] = msgspec.field(default_factory=list)
    others: Literal["", "cpu", "reads"] = ""


@dataclass(frozen=True)
class Waits:
    """The off-CPU window: the threads that serve queries, stacks where those can be read, and the queries within."""

    serving: Sequence[Thread]
    profile: Folded | None
    queries: float


class _Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    finding: list[FindingRule]


def read_rules(*more: Path) -> list[FindingRule]:
    """The rules of every engine, and those in `more`. ValueError where a file is none."""
    files = (_GENERAL, *more)
    return [rule for file in files for rule in msgspec.toml.decode(file.read_bytes(), type=_Rules).finding]


def findings(
    rules: Iterable[FindingRule],
    record: RunRecord,
    profile: Folded | None = None,
    ladder: Ladder | None = None,
    waits: Waits | None = None,
    advice: Mapping[str, str] | None = None,
    series: Sequence[Window] = (),
) -> list[Finding]:
    """At most `MOST`, by us per query.

    advice: the engine's own words in what changes a finding, by name; series: the seconds of the run's windows
    """
    cpu = cpu_profiled(record)[0] if record.profile is not None else None
    # Once for all rules: it builds every stack anew.
    stacks = list(profile.each_stack()) if profile is not None else []
    stolen = stolen_of(record)
    rounds = ProfiledRounds.of(record, profile.slices) if profile is not None else None
    others = others_in(record, [window for window in record.windows if window.kind == "plain"])
    ladder_ran, waits_ran = (carried(record, kind) for kind in ("ladder", "offcpu"))
    found: list[tuple[bool, Finding]] = []
    replaced: set[str] = set()
    for general in rules:
        rule = msgspec.structs.replace(general, do=_advised(general.do, advice or {}))
        one, disturbed = None, False
        match rule.kind:
            case "stage" if ladder is not None:
                one, disturbed = _of_stage(rule, ladder, ladder_ran, record), ladder_ran.is_disturbed
            case "wait" if waits is not None:
                one, disturbed = _of_wait(rule, waits, waits_ran, record), waits_ran.is_disturbed
            case "role":
                one = _of_roles(rule, record, series)
            case "held_back":
                one = _of_stalls(rule, record)
            case "leaf" | "within" if profile is not None and cpu is not None:
                one, disturbed = _of_stacks(rule, profile, _frames_of(rule, stacks), cpu, stolen, rounds)
            case "category" if profile is not None and cpu is not None and rule.view in profile.views:
                one, disturbed = _of_stacks(rule, profile, _categories_of(rule, profile), cpu, stolen, rounds)
        if one is not None:
            if theirs := others.prolonging(rule.others):
                one = replace(one, sentence=f"{one.sentence} Meanwhile {theirs}.", do=f"a quiet host first; {one.do}")
            found.append((disturbed, one))
            replaced.update(rule.instead_of)
    kept = [(disturbed, one) for disturbed, one in found if one.name not in replaced]
    return [one for _, one in sorted(kept, key=lambda kept: (kept[0], -kept[1].us.estimate))][:MOST]


def _frames_of(rule: FindingRule, stacks: Sequence[FoldedStack]) -> list[str]:
    """Of each stack the innermost frame that is one of the rule's; "" where none is."""
    matches = _matcher(rule.frames)
    found = []
    for stack in stacks:
        frames = stack.frames[-1:] if rule.kind == "leaf" else stack.frames
        first = next((frame for frame in reversed(frames) if _fits(rule, frame) and matches(_bare(frame))), "")
        found.append(_bare(first))
    return found


def _categories_of(rule: FindingRule, profile: Folded) -> list[str]:
    """Of each stack what its row of the rule's view is; "" where that is none of the rule's categories."""
    view = profile.views[rule.view]
    labels = [row["label"] if row["name"] in rule.categories else "" for row in view.report["rows"]]
    return [labels[row] for row in view.row]


def _of_stacks(
    rule: FindingRule,
    profile: Folded,
    of_stack: Sequence[str],
    cpu_us: float,
    stolen: int,
    rounds: ProfiledRounds | None,
) -> tuple[Finding | None, bool]:
    """None where all of it may be stolen time. Whether, without what may be, it is too little to be told.

    of_stack: what of the rule each stack has, "" for nothing
    """
    columns = profile.slices
    if columns is None:
        return None, False
    by_name: Counter[str] = Counter()
    samples = 0
    for name, weight, counted in zip(of_stack, profile.stacks.weight, profile.stacks.samples, strict=True):
        if name:
            by_name[name] += weight
            samples += counted
    seconds = [[0, 0] for _ in range(max(columns.slice, default=-1) + 1)]
    for second, stack, weight in zip(columns.slice, columns.stack, columns.weight, strict=True):
        seconds[second][not of_stack[stack]] += weight
    us = _us_of(seconds, cpu_us, rounds) if by_name and stolen < by_name.total() else None
    if us is None:
        return None, False
    remarks, most = "", 0.0
    if stolen:
        most = part_of(cpu_us, 100 * stolen / sum(profile.stacks.weight))
        remarks = f" Up to {most:.{1 if most >= 10 else 2}f} us of it may be stolen time (steal)."
    found = _finding(rule, replace(us, n=samples), cpu_us, "us of CPU", by_name.most_common(1)[0][0], remarks=remarks)
    return found, us.low - most <= _enough(rule, cpu_us)


def _us_of(seconds: Sequence[Sequence[int]], cpu_us: float, rounds: ProfiledRounds | None) -> Interval | None:
    """seconds: the weight of some stacks, and of all others, in each slice"""
    if rounds is not None:
        return rounds.us([own for own, _ in seconds], [own + rest for own, rest in seconds], cpu_us)
    share = share_intervals([seconds])[0]
    return part_interval(cpu_us, share, share.n) if share is not None else None


def _of_roles(rule: FindingRule, record: RunRecord, series: Sequence[Window]) -> Finding | None:
    """CPU of threads that serve no query, by the scheduler's clock; None where the run does not know the roles."""
    plain = [window for window in series if window.kind == "plain" and window.counters.roles]
    seconds = [_cpu_of_roles(window, rule.roles) for window in plain]
    queries = sum(window.counters.queries or 0.0 for window in plain)
    if not queries or not any(own for own, _ in seconds):
        return None
    rounds = [[_cpu_of_roles(w, rule.roles) for w in turns] for turns in by_round(plain, "plain").values()]
    parts = [{"own": sum(own for own, _ in turns), "all": sum(map(sum, turns))} for turns in rounds]
    in_turns = any(window.round for window in plain)
    share = interval_of(parts, lambda sums: 100 * sums["own"] / sums["all"]) if in_turns else None
    share = share or share_intervals([seconds])[0]
    if share is None:
        return None
    whole = sum(map(sum, seconds)) / 1e3 / queries
    return _finding(rule, part_interval(whole, share, len(plain)), whole, "us of CPU a query", "", _written(record))


def _cpu_of_roles(window: Window, roles: Sequence[str]) -> tuple[int, int]:
    """ns of these, and of all others."""
    own = sum(counters.cpu_ns for role, counters in window.counters.roles.items() if role in roles)
    return own, sum(counters.cpu_ns for counters in window.counters.roles.values()) - own


def _written(record: RunRecord) -> str:
    """What was written to table files for each byte flushed, over all windows; "" where the engine does not say."""
    flushed, written = (sum(w.engine.get(name, 0.0) for w in record.windows) for name in ("flushed_gb", "compacted_gb"))
    return (
        f": {written / flushed:.1f} bytes written to table files for each byte flushed" if flushed and written else ""
    )


def _of_stalls(rule: FindingRule, record: RunRecord) -> Finding | None:
    """Time in which writes were held back, by the engine's own clock of stalls, window by window."""
    windows = [w for w in record.windows if "stall_seconds" in w.engine and w.kind != "warm-up" and w.counters.queries]
    rows = [[w.engine["stall_seconds"], w.seconds - w.engine["stall_seconds"]] for w in windows]
    # The engine adds up the stalls of all its writers: of several at once they can be longer than the window.
    if len(rows) < _FEWEST_WINDOWS or min(rest for _, rest in rows) < 0 or not any(stall for stall, _ in rows):
        return None
    share = share_draws([rows])[0].interval(_FEWEST_WINDOWS)
    if share is None:
        return None
    of = [window for window in windows if window.kind == "plain"] or windows
    whole = record.threads * 1e6 * sum(w.seconds for w in of) / sum(w.counters.queries or 0.0 for w in of)
    return _finding(rule, part_interval(whole, share, len(rows)), whole, "us a query", "")


def _of_stage(rule: FindingRule, ladder: Ladder, ran: Carried, record: RunRecord) -> Finding | None:
    """A stage that a query has only where it slept for one read counts 0 for the others. Its share of the time from
    query to query is that of rx.lat, where the window was not disturbed."""
    rung = ladder.stage(rule.stage)
    if not rung.count or not ladder.finished:
        return None
    n = ladder.finished
    mean = rung.sum_ns / n / 1e3
    error = 1.96 * math.sqrt(max(_mean_square_ns2(rung) * rung.count / n / 1e6 - mean**2, 0.0) / n)
    latency, cycle = record.metrics.get("rx.lat"), ladder.cycle_ns or ladder.query_ns
    factor, whole, unit = 1.0, ladder.query_ns / 1e3, "us a read call" if ladder.start == "syscall" else "us a query"
    known = None
    if ran.rate is not None and not ran.is_disturbed and latency and ladder.start == "query":
        factor, whole, unit = latency * 1e3 / cycle, latency, "us a query (latency)"
        known = record.intervals.get("rx.lat")
    us = _as_known(Interval(factor * mean, factor * (mean - error), factor * (mean + error), n), known)
    return _finding(rule, us, whole, unit, "", remarks=_median(rung, factor) + ran.words)


def _as_known(us: Interval, whole: Interval | None) -> Interval:
    """A part of what is itself known to its interval only: of a host that changed from round to round by much."""
    if whole is None or not whole.estimate:
        return us
    relative = (whole.high - whole.low) / 2 / whole.estimate
    below, above = (math.hypot(end - us.estimate, relative * us.estimate) for end in (us.low, us.high))
    return Interval(us.estimate, us.estimate - below, us.estimate + above, us.n)


def _median(rung: Rung, factor: float) -> str:
    """Beside a mean that rests on few; "" where it does not."""
    median = rung.histogram.percentile(50)
    if median is None or rung.mean_ns < _FAR * median:
        return ""
    p50, mean = (f"{factor * ns / 1e3:.{1 if factor * ns >= 1e4 else 2}f}" for ns in (median, rung.mean_ns))
    return f" Few queries take most of it: p50 {p50} us, mean {mean}."


def _of_wait(rule: FindingRule, waits: Waits, ran: Carried, record: RunRecord) -> Finding | None:
    """Of the threads that are not idle. The frame is the innermost of the heaviest stacks that is none of the rule's
    frames and not the kernel's: whose lock it is."""
    working = [thread for thread in waits.serving if not thread.is_idle]
    by_thread = []
    for thread in working:
        ns = sum(thread.off_ns.get(state, 0) for state in rule.states)
        by_thread.append([ns, thread.life_ns - ns])
    if not waits.queries or not any(ns for ns, _ in by_thread):
        return None
    share = share_draws([by_thread])[0].interval(_FEWEST_THREADS)
    if share is None:
        return None
    whole = ran.factor * sum(thread.life_ns for thread in working) / 1e3 / waits.queries
    frame = _waits_in(rule, waits, working)
    if rule.places and not _matcher(rule.places)(frame):
        return None
    us = _as_known(part_interval(whole, share, len(working)), record.intervals.get("qps"))
    return _finding(rule, us, whole, "us a query", frame, remarks=ran.words)


def _waits_in(rule: FindingRule, waits: Waits, working: Sequence[Thread]) -> str:
    if waits.profile is None or not rule.frames:
        return ""
    tids, states = {thread.tid for thread in working}, {f"[{state}]" for state in rule.states}
    skipped = _matcher(rule.frames)
    by_frame: Counter[str] = Counter()
    for stack in waits.profile.each_stack():
        if stack.state in states and stack.tid in tids:
            own = itertools.takewhile(lambda frame: frame != MARKS["woken_by"], stack.frames)
            place = [frame for frame in own if not frame.endswith(_KERNEL) and not skipped(_bare(frame))]
            by_frame[_bare(place[-1]) if place else ""] += stack.weight
    return by_frame.most_common(1)[0][0] if by_frame else ""


def _matcher(patterns: Sequence[str]) -> Callable[[str], re.Match[str] | None]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns)).fullmatch


def _mean_square_ns2(rung: Rung) -> float:
    """Of the durations, from the middles of their buckets, which are at most 1/32 wide."""
    counted = sum(count for _, _, count in rung.buckets)
    return sum(((low + high) / 2) ** 2 * count for low, high, count in rung.buckets) / counted if counted else 0.0


def _finding(
    rule: FindingRule, us: Interval, whole: float, unit: str, frame: str, more: str = "", remarks: str = ""
) -> Finding | None:
    """None where it may be less than what is worth saying. more: what of a rule's own else is to be said; remarks:
    behind its sentence"""
    if us.low <= _enough(rule, whole):
        return None
    figures = [f"{value:.{1 if whole >= 10 else 2}f}" for value in (us.estimate, us.low, us.high, whole)]
    words = {
        "us": "{} [{}, {}]".format(*figures),
        "whole": f"{figures[3]} {unit}",
        "frame": frame,
        "n": f"{us.n:,}",
        "more": more,
    }
    sentence = _filled(rule.sentence, words) + remarks
    return Finding(rule.name, sentence, us, frame, _filled(rule.do, words), rule.source, rule.see)


def _enough(rule: FindingRule, whole: float) -> float:
    """us of it that are worth saying."""
    return min(rule.least_us, ENOUGH * whole)


def _filled(text: str, words: Mapping[str, str]) -> str:
    """format_map would read braces in a frame's own name, too; only what the rule wrote is a place to fill."""
    return _PLACE.sub(lambda place: words.get(place[1], place[0]), text)


def _advised(do: str, advice: Mapping[str, str]) -> str:
    """Without the parts for which this engine has no words."""
    parts = [part for part in do.split("; ") if set(_PLACE.findall(part)) <= {*advice, *_FIGURES}]
    return worded(_filled("; ".join(parts), advice))


def _fits(rule: FindingRule, frame: str) -> bool:
    return rule.kernel is None or rule.kernel == frame.endswith(_KERNEL)


def _bare(frame: str) -> str:
    return frame.removesuffix(_KERNEL).removesuffix(_INLINED)
