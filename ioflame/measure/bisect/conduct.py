"""A search from its ends to the commit: prove that the ends differ, then build and measure the most informative."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ground.errors import MeasurementError
from ground.results.bisect import BisectRun, Measured
from ground.text.progress import Reporter
from ioflame.analysis.bisect import Costs, Found, Observation, Search
from ioflame.measure.bisect.builds import Builds

# Before a session was timed.
_ASSUMED_SESSION, _ASSUMED_BLOCK = 60.0, 30.0


@dataclass(frozen=True)
class Proof:
    """What comparing two binaries gave.

    differs: a difference is seen; words: the verdict, and the largest difference that can be excluded
    change:  with its interval, in words; session_sd: of ln of one process beyond its blocks
    """

    differs: bool
    words: str
    change: str
    session_sd: float
    sessions: list[Measured]


class Measuring(Protocol):
    """How binaries are compared; the tests have one of their own beside that of `ioflame compare`."""

    def prove(self, good: Path, bad: Path, *, explain: bool = False) -> Proof:
        """Compares two binaries until it is decided. explain: with profiles, and the page of the comparison"""

    def session(self, good: Path, candidate: Path, bad: Path, blocks: int) -> Measured:
        """One session of all three. MeasurementError where the candidate does not run."""


def search(study: BisectRun, builds: Builds, measuring: Measuring, reporter: Reporter) -> str:
    """The outcome in a line; also in the record. Everything that is measured is on record before the next begins."""
    record = study.record
    last = len(record.names) - 1
    good, bad = builds.binary(0), builds.binary(last)
    if good is None or bad is None:
        raise MeasurementError(
            f"an end could not be built: {record.skipped.get('0') or record.skipped[str(last)]}",
            means="without both ends there is nothing to search between",
        )
    if record.differs is None:
        proof = _proven(study, measuring, good, bad)
        record.differs, record.proof, record.session_sd = proof.differs, proof.words, proof.session_sd
        record.measured += proof.sessions
        study.save()
    if not record.differs:
        return _end(study, f"no commit is named: the ends do not differ here ({record.proof})")
    reporter.line(f"the ends differ: {record.proof}")
    state = Search(last, session_sd=record.session_sd)
    while True:
        _update(state, study)
        found = state.found()
        step = None if found else state.next(_costs(study, builds))
        if found or step is None:
            break
        candidate = builds.binary(step.candidate)
        if candidate is None or _has_same_bits(study, step.candidate):
            continue
        name = record.names[step.candidate][:12]
        chance = sum(state.posterior()[: step.candidate + 1])
        reporter.line(f"{step.blocks} blocks of {name}, which is bad with {100 * chance:.0f} %")
        begun = time.monotonic()
        try:
            seen = measuring.session(good, candidate, bad, step.blocks)
        except MeasurementError as error:
            record.skipped[str(step.candidate)] = f"it does not run: {error.what}"
            reporter.warn(f"{name} is skipped: {error.what}")
            study.save()
            continue
        seen.candidate, seen.seconds = step.candidate, time.monotonic() - begun
        record.measured.append(seen)
        study.save()
    if found is None:
        return _end(study, f"no commit is named: {_likeliest(study, state)}; no remaining build would say more")
    return _end(study, _told(study, builds, measuring, found))


def _proven(study: BisectRun, measuring: Measuring, good: Path, bad: Path) -> Proof:
    artifacts = study.record.artifacts
    last = str(len(study.record.names) - 1)
    if artifacts.get("0") and artifacts.get("0") == artifacts.get(last):
        return Proof(False, "they are the same bits", "", 0.0, [])
    return measuring.prove(good, bad)


def _update(state: Search, study: BisectRun) -> None:
    record = study.record
    state.skipped = {int(place) for place in record.skipped}
    state.observations = [Observation(one.candidate, one.ends, one.off) for one in record.measured]
    by_artifact: dict[str, list[int]] = {}
    for place, artifact in record.artifacts.items():
        by_artifact.setdefault(artifact, []).append(int(place))
    state.same = [(min(places), max(places)) for places in by_artifact.values() if len(places) > 1]


def _has_same_bits(study: BisectRun, candidate: int) -> bool:
    """Whether it is an end, bit by bit: that is known without measuring."""
    artifacts = study.record.artifacts
    ends = (artifacts.get("0"), artifacts.get(str(len(study.record.names) - 1)))
    return artifacts.get(str(candidate)) is not None and artifacts.get(str(candidate)) in ends


def _costs(study: BisectRun, builds: Builds) -> Costs:
    timed = [(one.seconds, len(one.ends)) for one in study.record.measured if one.seconds and one.off]
    if not timed:
        return Costs(builds.seconds, _ASSUMED_SESSION, _ASSUMED_BLOCK)
    # Few sessions are not enough to fit start and blocks: half of the shortest session is taken as its start.
    start = min(seconds for seconds, _ in timed) / 2
    block = sum(max(seconds - start, 0.0) for seconds, _ in timed) / sum(blocks for _, blocks in timed)
    return Costs(builds.seconds, start, block)


def _likeliest(study: BisectRun, state: Search) -> str:
    posterior = state.posterior()
    order = sorted(range(1, len(posterior)), key=lambda place: -posterior[place])[:3]
    return "the likeliest are " + ", ".join(
        f"{study.record.names[place][:12]} ({100 * posterior[place]:.0f} %)" for place in order
    )


def _told(study: BisectRun, builds: Builds, measuring: Measuring, found: Found) -> str:
    """The commit, its effect against its parent, and what is left of the whole difference."""
    record = study.record
    whole = 100 * (math.exp(found.change) - 1)
    names = " to ".join(dict.fromkeys((record.names[found.first][:12], record.names[found.last][:12])))
    title = record.titles[found.last] if found.first == found.last else "one of them: the others could not be built"
    words = f"{names} ({title}), {100 * found.probability:.1f} %; {record.symptom} of the ends {whole:+.1f} %"
    parent, commit = builds.binary(found.first - 1), builds.binary(found.last)
    if parent is None or commit is None:
        return words
    last = len(record.names) - 1
    if (found.first - 1, found.last) == (0, last):
        return f"{words}, all of it its own"
    proof = measuring.prove(parent, commit, explain=True)
    if not proof.differs:
        return f"{words}; against its parent alone it is {proof.words}, so something is unexplained"
    logs = [sum(one.ends) / len(one.ends) for one in proof.sessions]
    own = sum(logs) / len(logs)
    error = math.sqrt(sum((log - own) ** 2 for log in logs) / max(len(logs) - 1, 1) / len(logs))
    rest, wide = found.change - own, 1.96 * math.hypot(error, found.error)
    low, high = (100 * (math.exp(rest + side * wide) - 1) for side in (-1, 1))
    left = f"{100 * (math.exp(rest) - 1):+.1f} % [{low:+.1f}, {high:+.1f}]"
    return f"{words}; against its parent {proof.change}; unexplained {left}"


def _end(study: BisectRun, outcome: str) -> str:
    study.record.outcome = outcome
    study.save()
    return outcome
