"""What a poor man's profile can be trusted for."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ground.results.checks import Check, Verdict
from ground.results.off_cpu import OffCpu
from ground.results.pmp import Pmp

_LATE = 0.05
_LACKING = 0.01
# Of the threads' time; windows of one run differ, and samples of one round may be of one moment.
_STATES_DIFFER = 0.1
_RUNS, _WAITS_IN_KERNEL = ("woken", "preempted"), ("io", "uninterruptible")


def pmp_checks(pmp: Pmp, off: OffCpu | None = None) -> list[Check]:
    """Samples at all, the rate, samples that lack something, the window's end, how long a stop lasted, and whether the
    states are those of the scheduler. off: of another window of the same run"""
    return [*_samples(pmp), *_window(pmp), *_stops(pmp), *(_states(pmp, off) if off is not None else [])]


def _samples(pmp: Pmp) -> Iterator[Check]:
    if not pmp.samples:
        yield Check(
            "pmp samples",
            Verdict.FAILED,
            "none",
            "an empty result: no thread could be stopped, or the process ended before the window",
            "ioflame doctor",
        )
        return
    lacking = pmp.lacking.ended + pmp.lacking.did_not_stop + pmp.lacking.refused
    words = f"{pmp.samples:,} of {len(pmp.threads)} threads"
    if lacking > _LACKING * pmp.samples:
        yield Check(
            "pmp samples", Verdict.WARN, f"{words}; {lacking:,} lack their stack", "threads ended or did not stop"
        )
    else:
        yield Check("pmp samples", Verdict.OK, words)
    planned = pmp.rounds + pmp.late_rounds
    if pmp.is_slow or pmp.unseen or pmp.late_rounds > _LATE * planned:
        yield Check(
            "pmp rate",
            Verdict.WARN,
            f"{pmp.rate_words}; {pmp.late_rounds:,} of {planned:,} rounds left out",
            "a look at all threads lasted too long, or the sampler waited for a CPU: its samples may favour moments at "
            "which it got one; threads without a sample are in no row",
            "a smaller rate, a quieter host",
        )


def _window(pmp: Pmp) -> Iterator[Check]:
    if pmp.cut_short:
        yield Check(
            "pmp window",
            Verdict.FAILED,
            f"{pmp.cut_short} after {pmp.seconds:.1f} s",
            "the window was not sampled to its end: shares and weights are of that time alone",
            "measure again",
        )


def _stops(pmp: Pmp) -> Iterator[Check]:
    if pmp.stop.n:
        held = "the whole process" if pmp.whole_process else "one thread"
        times = f"mean {pmp.stop.mean_ns / 1e3:.0f} us, p99 {pmp.stop.p99_ns / 1e3:.0f} us"
        yield Check(
            "pmp stops", Verdict.OK, f"each cost {held} at most: {times}, longest {pmp.stop.max_ns / 1e3:.0f} us"
        )


def _states(pmp: Pmp, off: OffCpu) -> Iterator[Check]:
    """Samples against the scheduler's events, of all threads."""
    if not pmp.weight_ns or not off.elapsed_ns:
        return
    ns = {name: total.ns for name, total in off.states.items()}
    by_scheduler = {
        "R": off.ran_ns + sum(ns.get(name, 0) for name in _RUNS),
        "D": sum(ns.get(name, 0) for name in _WAITS_IN_KERNEL),
    }
    told, apart = [], False
    for letter, spent in by_scheduler.items():
        tally = pmp.states.get(letter)
        sampled, seen = (tally.weight_ns if tally else 0) / pmp.weight_ns, spent / off.elapsed_ns
        told.append(f"{letter} {sampled:.0%} (off-CPU {seen:.0%})")
        between = (sampled + seen) / 2
        chance = 2 * math.sqrt(between * (1 - between) / max(pmp.rounds, 1))
        apart |= abs(sampled - seen) > _STATES_DIFFER + chance
    means = "the sampler's moments are not like all others, or the windows differ: believe off-CPU's states"
    yield Check("pmp states", Verdict.WARN if apart else Verdict.OK, ", ".join(told), means if apart else "")
