"""All checks of a run over its own record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ground.results.checks import Check, Verdict
from ground.results.record import RunRecord
from ioflame.analysis.checks.profile import profile_checks
from ioflame.analysis.checks.target import target_checks
from ioflame.analysis.checks.windows import window_checks
from ioflame.analysis.checks.workload import workload_checks


def run_checks(record: RunRecord, background: Mapping[str, int], unread: str = "") -> Iterator[Check]:
    """background: weight in the profile of the engine's threads that serve no query, by what they do

    unread: why perf report could not read the recording
    """
    if record.profile is not None:
        yield from profile_checks(record.profile, record.host.get("nominal_ghz", ""), background, unread)
    for lost in record.unobserved:
        # What was asked for by name and did not watch fails the run; a scale's default only says so.
        verdict = Verdict.FAILED if lost.asked else Verdict.WARN
        yield Check(lost.kind, verdict, f"did not watch: {lost.why}", "its figures are missing", lost.mend)
    if record.target is None:
        yield from workload_checks(record)
    else:
        yield from target_checks(record.target, record.windows, record.profile.coverage if record.profile else None)
    yield from window_checks(record)
