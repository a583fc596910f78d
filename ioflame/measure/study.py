"""What all studies have in common: arms that differ, a record that is resumed as it was begun, steps that are kept."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from collectors.perf import with_dwarf
from ground.errors import RefusedError, UsageError
from ground.results.study import StudyRun
from ground.settings import OF_NO_FIGURE

if TYPE_CHECKING:
    from ioflame.measure.job import Job

_Study = TypeVar("_Study", bound=StudyRun[Any])
# Of what differs; of another build all hashes do, and of several each build.
_MOST_NAMED = 4


def refuse_equal(arms: Mapping[str, object], mend: str) -> None:
    """UsageError for two arms of one identity: artifact and settings, whatever their paths, order and spelling.

    arms: the identity of each, by name
    """
    known: dict[str, str] = {}
    for name, identity in arms.items():
        other = known.setdefault(repr(identity), name)
        if other != name:
            raise UsageError(
                f"arms {other} and {name} are the same: the same bits with the same settings",
                means="there is no difference to be found; nothing was started",
                mend=mend,
            )


def refuse_idle(given: Mapping[str, object], what: str, mend: str = "") -> None:
    """UsageError for an option that has a value and would change nothing of `what`."""
    for option, value in given.items():
        if value:
            raise RefusedError(f"{option} has no effect on {what}", mend=mend or f"leave {option} out")


def differing(then: Mapping[str, object], now: Mapping[str, object]) -> str:
    """`duration: 2 then, 4 now; ...`: what of two identities is not the same; "" where nothing is."""
    names = [n for n in {**then, **now} if n.partition(" of ")[0] not in OF_NO_FIGURE and then.get(n) != now.get(n)]
    first = names[:_MOST_NAMED]
    more = f"; and {len(names) - len(first)} more" * (len(names) > len(first))
    return "; ".join(f"{n}: {then.get(n, 'not given')} then, {now.get(n, 'not given')} now" for n in first) + more


def begin_or_resume(form: type[_Study], record: Any, out: Path, resume: Path | None) -> _Study:
    """A new study in `out`, or the one in `resume`: UsageError where what is still to do would not belong to that.

    record: of a study of this form of which nothing is done
    """
    if resume is None:
        return form.create(out, record)
    study = form.open(resume.resolve())
    if words := differing(form.identity(study.record), form.identity(record)):
        raise UsageError(
            f"{study.directory} was begun with something else: {words}",
            means="what is measured and what is still to do cannot be put together",
            mend="the same command, files and builds as then, or leave --resume out",
        )
    return study


def with_callgraph(job: Job, callgraph: str) -> Job:
    """The job with the call graphs of the profiles before it: tables put them side by side, so they are of one kind.

    callgraph: theirs; "" where there is none yet
    """
    if not callgraph or job.options.callgraph != "auto":
        return job
    how = callgraph.partition(",")[0]
    plan = job.plan if how == "fp" else with_dwarf(job.plan, "DWARF unwinding as in the first profile", callgraph)
    return replace(job, options=replace(job.options, callgraph=how), plan=plan)


class Timed(Protocol):
    """A part of a record that says how long it took."""

    seconds: float


@contextlib.contextmanager
def on_record(study: StudyRun[Any], timed: Timed) -> Iterator[None]:
    """A step of the study: however it ends, how long it took and what is on record by then are kept."""
    begun = time.monotonic()
    try:
        yield
    finally:
        timed.seconds = time.monotonic() - begun
        study.save()
