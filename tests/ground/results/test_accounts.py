from __future__ import annotations

from pathlib import Path

import pytest

from ground.errors import MeasurementError
from ground.results.accounts import ACCOUNTS, ALL, Account, Accounts, accounts_in, read_accounts
from ground.results.files import Files
from ground.results.metrics import METRICS
from ground.system.atomic_files import write_json


def test_rows_are_by_unit_of_work_and_that_of_all_comes_first() -> None:
    account = Account("writepath", 4.0, {"memtable": 8.0, "log": 2.0})
    assert list(account.by_work().items()) == [(ALL, 2.5), ("memtable", 2.0), ("log", 0.5)]
    assert (account.title, account.unit) == ("a write, by stage", "us/write")


def test_no_row_has_the_name_of_a_figure() -> None:
    assert not {name for name in METRICS if name.rpartition(".")[0] in ACCOUNTS}
    # A row is found by what is before the point.
    assert not [name for name in ACCOUNTS if "." in name]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (Account("writepath", 0.0, {"memtable": 8.0}), r"Expected `float` > 0.0 - at `\$.accounts\[1\].work`"),
        (Account("writepath", 4.0, {"memtable": -8.0}), r"Expected `float` >= 0.0 - at `\$.accounts\[1\].rows"),
        (Account("unheard of", 4.0, {"memtable": 8.0}), "there is no account of unheard of"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, bad: Account, says: str) -> None:
    assert accounts_in(tmp_path) == []
    write_json(tmp_path / Files.ACCOUNTS, Accounts([Account("jobs", 1.0, {"flush": 1.0}), bad]))
    with pytest.raises(MeasurementError, match=says):
        read_accounts(tmp_path / Files.ACCOUNTS)
