"""What follows from the results of the instruments that lie in a run directory: checks, figures, `accounts.json`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgspec

from ground.errors import IoflameError
from ground.results.accounts import ACCOUNTS, Account, Accounts
from ground.results.checks import Check, Verdict
from ground.results.files import Files
from ground.results.job_costs import read_job_costs
from ground.results.run import Run
from ground.system.atomic_files import read_json, write_json
from ioflame.instruments import INSTRUMENTS
from ioflame.stages.jobs import job_accounts
from ioflame.stages.rules import rules_of

# The edges of a window and those of what was counted in it are microseconds apart.
_UNSEEN = 0.01


def analyse_observed(run: Run) -> list[Check]:
    """Each instrument's own analysis, in the order of the windows, and whether it saw all of its window.

    A result that cannot be read is a failed check, and the others are analysed.
    """
    rules, checks = rules_of(run), list[Check]()
    for name, instrument in INSTRUMENTS.items():
        if instrument.analyse is None or not run.path(instrument.result).exists():
            continue
        try:
            checks += instrument.analyse(run, rules)
            if not instrument.ends_itself:
                checks += _window_checks(run, name, instrument.result)
        except IoflameError as error:
            checks.append(_unreadable(run, name, error))
    return checks


def _unreadable(run: Run, name: str, error: IoflameError) -> Check:
    if run.record.target is not None and run.record.target.redacted:
        # Words of other programs may hold names.
        return Check(name, Verdict.FAILED, "its result cannot be read", "", "without --redact it is said why")
    return Check(name, Verdict.FAILED, error.what, error.means, error.mend)


class _Edges(msgspec.Struct):
    """Of any result: CLOCK_MONOTONIC, ns. turns: where it was watched in turns."""

    start_ns: int
    end_ns: int
    turns: list[tuple[int, int]] = []


def _window_checks(run: Run, name: str, result: str) -> Iterator[Check]:
    """Whether it counted all the time of its windows: a program that gets a signal ends early, with what it has."""
    edges = read_json(run.path(result), _Edges)
    windows = [(window.start_ns, window.end_ns) for window in run.record.windows if window.kind == name]
    watched = edges.turns or [(edges.start_ns, edges.end_ns)]
    whole = sum(end - start for start, end in windows)
    seen = sum(max(min(end, until) - max(start, since), 0) for start, end in windows for since, until in watched)
    if seen < (1 - _UNSEEN) * whole:
        yield Check(
            f"{name} window",
            Verdict.FAILED,
            f"{seen / 1e9:.1f} of its {whole / 1e9:.1f} s were seen",
            "its program was ended before the window was: the figures are of that time alone",
            "run it again",
        )


def note_accounts(run: Run) -> None:
    """Of the results that lie in the run directory. One that cannot be read is a failed check already, and has none."""
    found: list[Account] = []
    for one in INSTRUMENTS.values():
        if not one.result or not run.path(one.result).exists():
            continue
        with suppress(IoflameError):
            for name, interval in one.figures(run).items() if one.figures is not None else ():
                run.record.metrics[name], run.record.intervals[name] = interval.estimate, interval
            found += one.accounts(run) if one.accounts is not None else []
    if run.path(Files.JOB_COSTS).exists():
        with suppress(IoflameError):
            found += job_accounts(read_job_costs(run.path(Files.JOB_COSTS)))
    path = run.path(Files.ACCOUNTS)
    if found:
        order = list(ACCOUNTS)
        write_json(path, Accounts(sorted(found, key=lambda one: order.index(one.name))))
    else:
        path.unlink(missing_ok=True)
