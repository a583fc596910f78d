"""What the programs of an observer lost, or saw and could not count, in words and as checks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ground.results.checks import Check, Verdict

# Of the requests, that may lack where the kernel runs no program for some events, and be no more than a note. Seen on
# 6.18 in a VM: no program is run, and no miss counted, while a thread of its init is the current one.
_FEW, _UNSEEN = 0.001, 0.02
# Losses that are such events. `missed` is some in a million where the kernel may preempt programs (from Linux 7.0 on).
UNSEEN = frozenset({"no_start", "no_end", "missed"})
_MISSED = "events missed because the program was already running on that CPU:"
_WORDS = {
    "lost_start": "requests that did not fit into the map of those in flight:",
    "no_start": "ended without a start that was seen:",
    "no_end": "ended without an end that was seen:",
    "negative": "ended before they began:",
    "missed": _MISSED,
    "lost_process": "children that did not fit into the map of processes:",
}


def losses_words(losses: Mapping[str, int], words: Mapping[str, str] = _WORDS) -> str:
    """What is not 0; words: of counts by name, beside those that devices' observers have in common."""
    known = {**_WORDS, **words}
    return ", ".join(f"{known.get(name, name)} {count:,}" for name, count in losses.items() if count)


def unseen_verdict(lost: int, requests: int) -> Verdict | None:
    """Of requests whose start or end no program saw; None for more than a kernel leaves out."""
    if lost <= max(_FEW * requests, 2):
        return Verdict.NOTE
    return Verdict.WARN if lost <= _UNSEEN * requests else None


def path_loss_checks(
    of: str, losses: Mapping[str, int], followed: int, what: str, aside: Iterable[str] = ()
) -> Iterator[Check]:
    """Of programs that follow a path through stages: `OF losses`, `oddities` and `missed`. aside: said elsewhere"""
    lost = {name: count for name, count in losses.items() if name.startswith("lost_")}
    odd = {name: count for name, count in losses.items() if name not in {*lost, *aside, "missed"}}
    means = "a map of the programs was full: these are not counted"
    yield from loss_checks(of, lost, odd, Verdict.FAILED, means)
    yield from missed_checks(of, losses.get("missed", 0), followed, what)


def missed_checks(of: str, missed: int, followed: int, what: str) -> Iterator[Check]:
    """`OF missed`, where any were. followed: `what`, that the events are of"""
    if missed:
        yield Check(
            f"{of} missed",
            unseen_verdict(missed, followed) or Verdict.FAILED,
            f"{_MISSED} {missed:,}, in {followed:,} {what}",
            "what they were of may be in a wrong stage, or in none",
        )


def ended_checks(of: str, pid: int, soon_s: float | None) -> Iterator[Check]:
    """`OF window`, of a process that ended within it. soon_s: seconds after its functions were probed, where these were
    so few that it may have ended for that."""
    if soon_s is None:
        yield Check(f"{of} window", Verdict.WARN, f"process {pid} ended in the window")
        return
    yield Check(
        f"{of} window",
        Verdict.FAILED,
        f"process {pid} ended {soon_s:.1f} s after its functions were probed",
        "of its own, or for the probes: a return trampoline (--return-trampolines) ends a process whose exception "
        "leaves the function, or that reads its stack",
        "its exit code and its log say which; --start syscall and --kind read probe no function",
    )


def loss_checks(
    of: str, lost: Mapping[str, int], odd: Mapping[str, int], verdict: Verdict, means: str, mend: str = ""
) -> Iterator[Check]:
    """`OF losses`, and `OF oddities`: what was seen and is in no figure. Counts of 0 are left out."""
    words = losses_words(lost)
    yield Check(f"{of} losses", verdict, words, means, mend) if words else Check(f"{of} losses", Verdict.OK, "none")
    if words := losses_words(odd):
        yield Check(f"{of} oddities", Verdict.NOTE, words)
