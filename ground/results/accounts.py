"""`accounts.json`: what a run's windows say went where, by units of work, so that runs can be put side by side."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ground.errors import MeasurementError
from ground.results.files import Files
from ground.results.ranges import Amount, Divisor
from ground.system.atomic_files import read_json

# The row of what all others add up to.
ALL = "all"


@dataclass(frozen=True)
class AccountKind:
    """title: for people; unit: of a row by the work: `us/write`"""

    title: str
    unit: str


# By name, in the order in which they are shown.
ACCOUNTS: Mapping[str, AccountKind] = {
    "ladder": AccountKind("a query with one read, by stage", "us/query"),
    "several": AccountKind("a query of several reads, by part", "us/query"),
    "slow": AccountKind("a slow query, by what it waited for", "us/query"),
    "reads": AccountKind("reads of the device, by what they are for", "requests/query"),
    "written": AccountKind("written to the device, by what it is for", "KiB/query"),
    "writepath": AccountKind("a write, by stage", "us/write"),
    "write_calls": AccountKind("a write, by the few stages that cost little to watch", "us/write"),
    "groups": AccountKind("groups of writes that one of them leads", "groups/write"),
    "jobs": AccountKind("CPU of background jobs, by the engine's log", "us/query"),
    "flush": AccountKind("CPU of flushes, by MiB that they wrote", "us/MiB"),
    "flush_io": AccountKind("time at the device for flushes, by MiB that they wrote", "us/MiB"),
    "compaction": AccountKind("CPU of compactions, by MiB that they wrote", "us/MiB"),
    "compaction_io": AccountKind("time at the device for compactions, by MiB that they wrote", "us/MiB"),
}


@dataclass(frozen=True)
class Account:
    """Where the time, the requests or the bytes of some work went.

    name: of ACCOUNTS; in the store and in columns of experiments, row `memtable` of `writepath` is `writepath.memtable`
    work: how much there was: writes, queries, MiB; above 0
    rows: what each part had of it, in the order of tables; they add up to all of it
    """

    name: str
    work: Divisor
    rows: Mapping[str, Amount]

    @property
    def title(self) -> str:
        return ACCOUNTS[self.name].title

    @property
    def unit(self) -> str:
        return ACCOUNTS[self.name].unit

    @property
    def all(self) -> float:
        return sum(self.rows.values())

    def by_work(self) -> dict[str, float]:
        """Each row in `unit`, that of all first."""
        return {name: value / self.work for name, value in ((ALL, self.all), *self.rows.items())}

    @staticmethod
    def row_name(account: str, row: str) -> str:
        """Of a row among other figures: `writepath.memtable`."""
        return f"{account}.{row}"


@dataclass(frozen=True)
class Accounts:
    """Those of one run, each of another name."""

    accounts: Sequence[Account]
    schema: int = 1


def read_accounts(path: Path) -> Accounts:
    """MeasurementError where it is missing, of another form, or holds what cannot be."""
    found = read_json(path, Accounts)
    for one in found.accounts:
        if one.name not in ACCOUNTS:
            raise MeasurementError(
                f"{path}: there is no account of {one.name}",
                means="the file is of another ioflame, or was changed",
                mend=f"ioflame analyse {shlex.quote(str(path.parent))}",
            )
    return found


def accounts_in(directory: Path) -> Sequence[Account]:
    """Of a run directory; none where there is no such file."""
    path = directory / Files.ACCOUNTS
    return read_accounts(path).accounts if path.exists() else []
