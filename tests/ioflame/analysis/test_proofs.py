from __future__ import annotations

import pytest

from ground.results.categories import Category
from ground.results.checks import Verdict
from ground.results.database_facts import DatabaseFacts
from ground.results.record import Expectation
from ioflame.analysis.checks.tree import filter_proof, tree_proofs
from tests.records import run_record, window
from workloads.engines.rocksdb.engine import RocksDB

TWO = "L6 8 files 333 MiB, L7 73 files 3801 MiB"
ONE = "L7 81 files 4134 MiB"
QUIET = "Cumulative compaction: 0.00 GB write, 0.00 MB/s write, 0.00 GB read\n"


def verdicts(
    before: str, after: str | None, levels: str, log: str = QUIET, written: int = 0, entries: str = "0", l0: str = "0"
) -> dict[str, Verdict]:
    record = run_record(expected=Expectation(levels))
    record.windows = [window("plain", process_write_bytes=written)]
    record.database = DatabaseFacts(levels=before, memtable_entries=int(entries), l0_files=int(l0), levels_after=after)
    return {check.name: check.verdict for check in tree_proofs(record, RocksDB().compacted_gb(log))}


def test_a_tree_that_is_as_it_should_be_proves_itself() -> None:
    assert set(verdicts(TWO, TWO, "several").values()) == {Verdict.OK}
    assert set(verdicts(ONE, ONE, "one").values()) == {Verdict.OK}
    assert set(verdicts(TWO, TWO, "any").values()) == {Verdict.OK}


@pytest.mark.parametrize(("before", "levels"), [(ONE, "several"), (TWO, "one"), ("", "one")])
def test_the_wrong_number_of_levels_fails(before: str, levels: str) -> None:
    assert verdicts(before, before, levels)["LSM tree"] is Verdict.FAILED


def test_what_lies_above_the_levels_is_seen() -> None:
    assert verdicts(TWO, TWO, "several", entries="3")["memtable and L0"] is Verdict.FAILED
    assert verdicts(TWO, TWO, "several", l0="2")["memtable and L0"] is Verdict.FAILED
    assert verdicts(TWO, TWO, "any", l0="2")["memtable and L0"] is Verdict.WARN


def test_a_tree_that_changed_while_it_was_read_fails() -> None:
    assert verdicts(TWO, ONE, "several")["levels after"] is Verdict.FAILED
    assert verdicts(TWO, None, "several")["levels after"] is Verdict.WARN
    busy = QUIET.replace("0.00 GB write", "0.31 GB write")
    assert verdicts(TWO, TWO, "several", busy)["compaction in the log"] is Verdict.FAILED
    assert verdicts(TWO, TWO, "several", "")["compaction in the log"] is Verdict.WARN
    assert verdicts(TWO, TWO, "several", written=64 << 20)["writes while reading"] is Verdict.FAILED


def test_why_the_log_says_nothing_of_compactions() -> None:
    """A killed engine has not printed its statistics; only one that exited by itself can have printed other ones."""
    record = run_record()
    record.windows, record.database = [window("plain")], DatabaseFacts(levels=ONE, levels_after=ONE)

    def means() -> str:
        return next(check.means for check in tree_proofs(record, None) if check.name == "compaction in the log")

    assert means() == "the client did not exit by itself, and it prints its statistics when it does"
    record.engine_result = {"operations": 1000.0}
    assert means() == "this build prints other statistics"


def test_nothing_is_said_of_a_tree_that_was_never_looked_at() -> None:
    assert not list(tree_proofs(run_record(), 0.0))


def test_filters_that_were_to_go_unused_have_no_weight() -> None:
    def rows(share: float) -> list[Category]:
        return [Category("bloom", "", 1, share, 1), Category("other", "", 99, 100 - share, 99)]

    assert filter_proof(rows(0.02), "bloom").verdict is Verdict.OK
    assert filter_proof(rows(3.6), "bloom").verdict is Verdict.FAILED
