"""What a poor man's profile can be trusted for."""

from __future__ import annotations

from collections.abc import Iterator

from ground.results.checks import Check, Verdict
from ground.results.pmp import Pmp

__all__ = ("pmp_checks",)

_LATE = 0.05
_LACKING = 0.01


def pmp_checks(pmp: Pmp) -> list[Check]:
    """Samples at all, rounds left out, samples that lack something, the window's end, and how long a stop lasted."""
    return [*_samples(pmp), *_window(pmp), *_stops(pmp)]


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
    if pmp.late_rounds > _LATE * planned:
        yield Check(
            "pmp rounds",
            Verdict.WARN,
            f"{pmp.late_rounds:,} of {planned:,} left out, because the one before lasted too long",
            "fewer samples than asked for; their weights still add up to the time that passed",
            "a smaller rate",
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
