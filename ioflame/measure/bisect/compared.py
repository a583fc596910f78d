"""How a search compares builds: by sessions of `ioflame compare`, or by what an operation takes in instructions."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ground.errors import MeasurementError, UsageError
from ground.results.bisect import Measured
from ground.results.categories import read_categories
from ground.results.comparison import BUILD, ComparisonRun
from ground.results.counted import Counted, CountRun, Event
from ground.results.differences import Decision, Outcome
from ground.results.metrics import COMPARED
from ground.results.run import new_directory
from ground.text.progress import Reporter
from ioflame.analysis.compare.figures import BlockLogs, block_logs
from ioflame.analysis.compare.nested import difference, sums_of
from ioflame.analysis.compare.verdict import decide
from ioflame.analysis.counted_verdicts import CountVerdict, against, spread
from ioflame.measure.bisect.conduct import Proof
from ioflame.measure.compare.arms import AskedArm, CompareOptions
from ioflame.measure.compare.conduct import conduct, planned
from ioflame.measure.compare.resolve import resolve_arms
from ioflame.measure.count.conduct import count
from ioflame.measure.count.plan import CountOptions, planned_count
from ioflame.present.comparison_page import write_comparison_page
from ioflame.present.counted import write_pages
from ioflame.stages.comparison import costs_of, judge, rule_of, verdicts_of, windows_of

# `instructions:get`, `instructions:get:LRU`.
COUNTED = "instructions"
_GOOD, _CANDIDATE, _BAD = "good", "candidate", "bad"
_UNCHANGED = (CountVerdict.SAME, CountVerdict.NOT_COUNTED)
_CATEGORY = "category:"


def check_symptom(symptom: str) -> str:
    if symptom in ("qps", "cpuPer") or (symptom.startswith(_CATEGORY) and len(symptom) > len(_CATEGORY)):
        return symptom
    if counted_symptom(symptom):
        return symptom
    raise UsageError(
        f"--symptom {symptom} is not known", mend="--symptom qps|cpuPer|category:NAME|instructions:OPERATION"
    )


def counted_symptom(symptom: str) -> tuple[str, str] | None:
    """Operation and category ("" for all of it) of a symptom that is counted; None for one that is measured."""
    kind, _, what = symptom.partition(":")
    if kind != COUNTED:
        return None
    operation, _, category = what.partition(":")
    return operation or "get", category


@dataclass
class Compared:
    """asked: an arm of that name for a binary; template: of every comparison, its arms put in; out: where they go"""

    asked: Callable[[str, Path], AskedArm]
    template: CompareOptions
    symptom: str
    out: Path
    reporter: Reporter

    def prove(self, good: Path, bad: Path, *, explain: bool = False) -> Proof:
        study = self._run([(_GOOD, good), (_BAD, bad)], self.template.sessions, self.template.blocks, explain=explain)
        sessions = self._sessions(study, None)
        decision = self._decision(study, sessions)
        found = decision.difference
        differs = decision.outcome in (Outcome.REGRESSED, Outcome.IMPROVED)
        words = "; ".join(filter(None, [decision.verdict, decision.size, decision.bound]))
        sd = found.variances.session / math.sqrt(2) if found else 0.0
        return Proof(differs, words, decision.size, sd, sessions)

    def session(self, good: Path, candidate: Path, bad: Path, blocks: int) -> Measured:
        study = self._run([(_GOOD, good), (_CANDIDATE, candidate), (_BAD, bad)], 1, blocks)
        (found,) = self._sessions(study, _CANDIDATE)
        return found

    def _run(
        self, arms: Sequence[tuple[str, Path]], sessions: int, blocks: int | None, *, explain: bool = False
    ) -> ComparisonRun:
        profiled = explain or self.symptom.startswith(_CATEGORY)
        asked = tuple(self.asked(name, path) for name, path in arms)
        if not profiled:
            asked = tuple(replace(one, options=replace(one.options, collect=("null",))) for one in asked)
        options = replace(self.template, arms=asked, factor=BUILD, sessions=sessions, blocks=blocks, twin=False)
        resolved = resolve_arms(options, self.reporter)
        record = planned(options, resolved)
        if not profiled:
            record.plan.collect = []
        study = ComparisonRun.create(self.out, record)
        conduct(resolved, study, self.reporter)
        if record.not_comparable:
            raise MeasurementError(f"the arms cannot be compared: {'; '.join(record.not_comparable)}")
        if explain:
            write_comparison_page(study, verdicts_of(study))
        return study

    def _sessions(self, study: ComparisonRun, candidate: str | None) -> list[Measured]:
        """Session by session the blocks' logarithms; of a category one a session, as there is one profile of each."""
        of_bad = self._logs(study, _BAD)
        of_own = self._logs(study, candidate) if candidate else [[] for _ in of_bad]
        name = study.directory.name
        return [
            Measured(
                None, [block.log for block in bad], [b.log - a.log / 2 for a, b in zip(bad, own, strict=False)], name
            )
            for bad, own in zip(of_bad, of_own, strict=True)
        ]

    def _logs(self, study: ComparisonRun, arm: str) -> list[list[BlockLogs]]:
        if not self.symptom.startswith(_CATEGORY):
            try:
                return block_logs(windows_of(study.record), COMPARED[self.symptom], _GOOD, arm)
            except ValueError as error:
                raise MeasurementError(f"{self.symptom} was not measured: {error}") from None
        return [
            [BlockLogs(math.log(self._category(study, number, arm) / self._category(study, number, _GOOD)), (0, 1))]
            for number in range(len(study.record.whole_sessions()))
        ]

    def _category(self, study: ComparisonRun, session: int, arm: str) -> float:
        """us per query of the category in a session."""
        name = self.symptom.removeprefix(_CATEGORY)
        for process in study.record.whole_sessions()[session].processes:
            if process.arm == arm and (study.directory / process.directory / "categories.json").exists():
                rows = read_categories(study.directory / process.directory).rows
                found = next((row for row in rows if row.name == name), None)
                if found is None:
                    raise UsageError(
                        f"--symptom {self.symptom}: the rules have no such category",
                        mend=f"--symptom category:{'|'.join(row.name for row in rows)}",
                    )
                if found.us_per_query:
                    return found.us_per_query
        raise MeasurementError(
            f"no sample of {name} in arm {arm}",
            means="its cost is not known",
            mend="a larger --duration, or --frequency",
        )

    def _decision(self, study: ComparisonRun, sessions: Sequence[Measured]) -> Decision:
        record = study.record
        if not self.symptom.startswith(_CATEGORY):
            return judge(record).arms[0].decisions[self.symptom]
        rule = rule_of(record)
        found = difference(
            [sums_of([BlockLogs(log, (0, 1)) for log in one.ends], 2) for one in sessions], rule.confidence
        )
        # A category's cost is CPU: more is worse.
        return decide("cpuPer", found, rule, costs_of(record), base=_GOOD, arm=_BAD)


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
        options = replace(self.template, libraries=asked, operations=[self.symptom[0]])
        plan = planned_count(options, self.reporter)
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
