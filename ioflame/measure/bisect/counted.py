"""Libraries of a search compared by what an operation takes in instructions: one count a candidate is enough."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ground.errors import MeasurementError, UsageError
from ground.results.bisect import Measured
from ground.results.counted import Counted, CountRun, Event
from ground.results.run import new_directory
from ground.text.progress import Reporter
from ioflame.analysis.counted_verdicts import CountVerdict, against, spread
from ioflame.measure.bisect.conduct import Proof
from ioflame.measure.count.conduct import count
from ioflame.measure.count.plan import CountOptions, planned
from ioflame.present.counted import write_pages

# `instructions:get`, `instructions:get:LRU`.
COUNTED = "instructions"
_GOOD, _CANDIDATE, _BAD = "good", "candidate", "bad"
_UNCHANGED = (CountVerdict.SAME, CountVerdict.NOT_COUNTED)


def counted_symptom(symptom: str) -> tuple[str, str] | None:
    """Operation and category ("" for all of it) of a symptom that is counted; None for one that is measured."""
    kind, _, what = symptom.partition(":")
    if kind != COUNTED:
        return None
    operation, _, category = what.partition(":")
    return operation or "get", category


@dataclass
class CountedSearch:
    """template: of every count, its libraries and directory put in; symptom: as `counted_symptom` gives it

    ends: the count of both ends, on whose trees all others are made
    """

    template: CountOptions
    symptom: tuple[str, str]
    out: Path
    reporter: Reporter
    ends: CountRun | None = None

    def prove(self, good: Path, bad: Path, *, explain: bool = False) -> Proof:
        """Compares two libraries. explain: with the page of the count"""
        study = self._count({_GOOD: good, _BAD: bad}, self.ends)
        self.ends = self.ends or study
        if explain:
            write_pages(study.directory, study.record, None)
        of = study.record.operations[self.symptom[0]].arms
        found = against(of[_GOOD], of[_BAD])
        logs = _logs(self._figures(of[_BAD]), self._figures(of[_GOOD]))
        differs = found.verdict not in _UNCHANGED if not self.symptom[1] else _apart(logs)
        change = math.exp(sum(logs) / len(logs)) - 1
        words = f"{found.verdict.value}, {change:+.2%}"
        return Proof(differs, words, f"{change:+.2%}", 0.0, [Measured(None, logs, [], study.directory.name)])

    def session(self, good: Path, candidate: Path, bad: Path, blocks: int) -> Measured:
        """The candidate counted beside the ends, which were counted before. MeasurementError where it cannot be."""
        del blocks  # Counts are as many as there are environments.
        if self.ends is None:
            self.ends = self._counted_before() or self._count({_GOOD: good, _BAD: bad}, None)
        first = self.ends.record.operations[self.symptom[0]].arms
        study = self._count({_CANDIDATE: candidate}, self.ends)
        own = self._figures(study.record.operations[self.symptom[0]].arms[_CANDIDATE])
        figures = {name: self._figures(first[name]) for name in (_GOOD, _BAD)}
        ends = _logs(figures[_BAD], figures[_GOOD])
        off = [log - end / 2 for log, end in zip(_logs(own, figures[_GOOD]), ends, strict=True)]
        return Measured(None, ends, off, study.directory.name)

    def _counted_before(self) -> CountRun | None:
        """Of a search that is resumed: the first count, which is of both ends."""
        first = next(iter(sorted(self.out.glob("*-count-*"))), None)
        study = CountRun.open(first) if first is not None else None
        return study if study is not None and {_GOOD, _BAD} <= {arm.name for arm in study.record.arms} else None

    def _count(self, libraries: dict[str, Path], trees_of: CountRun | None) -> CountRun:
        asked = ",".join(f"{name}={path}" for name, path in libraries.items())
        options = replace(self.template, libraries=asked, operations=[self.symptom[0]], out=self.out)
        plan = planned(options, self.reporter)
        study = CountRun(new_directory(self.out, f"count-{plan.place}"), plan.record())
        count(plan, study, self.reporter, trees_of.directory if trees_of else None)
        return study

    def _figures(self, counted: Counted) -> list[float]:
        """Instructions an operation, by padding."""
        operation, category = self.symptom
        if counted.lacks or spread(counted, Event.INSTRUCTIONS) is None:
            raise MeasurementError(f"{operation} is not counted: {counted.lacks}", means="its cost is not known")
        if not category:
            return [count / counted.operations for count in counted.events[Event.INSTRUCTIONS]]
        rows = {row.name: row for view in reversed(counted.views.values()) for row in view}
        found = rows.get(category)
        if found is None or not all(found.events[Event.INSTRUCTIONS]):
            names = [name for name, row in rows.items() if all(row.events[Event.INSTRUCTIONS])]
            raise UsageError(
                f"nothing of {operation} is counted in the category {category}",
                mend="--symptom instructions:<operation>:" + shlex.quote("|".join(names)),
            )
        return [count / counted.operations for count in found.events[Event.INSTRUCTIONS]]


def _logs(of: Sequence[float], over: Sequence[float]) -> list[float]:
    return [math.log(one / other) for one, other in zip(of, over, strict=True)]


def _apart(logs: Sequence[float]) -> bool:
    """Whether every environment has the difference, and all alike: more than they differ among themselves."""
    return min(logs) * max(logs) > 0 and min(map(abs, logs)) > max(logs) - min(logs)
