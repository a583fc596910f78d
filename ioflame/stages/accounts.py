"""`accounts.json`, and the figures that windows of observers give: what other runs are compared with."""

from __future__ import annotations

from contextlib import suppress

from ground.errors import IoflameError
from ground.results.accounts import ACCOUNTS, Account, Accounts
from ground.results.files import Files
from ground.results.job_costs import read_job_costs
from ground.results.run import Run
from ground.system.atomic_files import write_json
from ioflame.instruments import INSTRUMENTS
from ioflame.stages.jobs import job_accounts


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
