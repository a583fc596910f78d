from __future__ import annotations

from typing import Any

import pytest

from ground.results.categories import Category
from ground.results.checks import Check, Verdict, worst
from ground.results.database_facts import DatabaseFacts
from ground.results.host_load import HostLoad
from ground.results.interval import Interval
from ground.results.record import Expectation, HostTimes, ObserverCost, ProfileFacts, RunRecord, Target, Unobserved
from ioflame.analysis.checks.run import run_checks
from ioflame.analysis.checks.tree import filter_proof, tree_proofs
from ioflame.analysis.others import others_in
from tests.records import profile_facts, run_record, window
from workloads.engines.rocksdb.engine import RocksDB


def good_profile(**changes: Any) -> ProfileFacts:
    good: dict[str, Any] = {"scope": "process", "samples": 5_000, "weight": 10**9, "report_weight": 10**9}
    return profile_facts(**{"event": "cycles", **good, **changes})


def record(**changes: object) -> RunRecord:
    made = run_record()
    made.profile = good_profile()
    made.engine_result = {"found": 10.0, "reads": 10.0}
    made.database = DatabaseFacts(data_bytes=40 << 20, cache_size=1 << 20)
    read = {"storage_reads": 1000, "storage_read_bytes": 8_192_000, "process_read_bytes": 8_192_000}
    counted = {"queries": 1000, "cpu_ns": 10**7, "accounted_ns": 10**7, **read}
    made.windows = [window("warm-up", 1.0, "flat"), *(window(kind, **counted) for kind in ("plain", "perf", "plain"))]
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def check_of(made: RunRecord, name: str, background: int = 0) -> Check:
    (check,) = [check for check in run_checks(made, {"flush": background}) if check.name == name]
    return check


def verdict(made: RunRecord, name: str, background: int = 0) -> Verdict:
    return check_of(made, name, background).verdict


def test_a_good_run_has_nothing_to_mend() -> None:
    assert {check.verdict for check in run_checks(record(), {})} == {Verdict.OK}


def test_what_was_asked_for_by_name_and_did_not_watch_fails_the_run() -> None:
    for asked, expected in ((True, Verdict.FAILED), (False, Verdict.WARN)):
        lost = Unobserved("ladder", "ioflame-ebpf is not built", "make setup", asked)
        assert verdict(record(unobserved=[lost]), "ladder") is expected


@pytest.mark.parametrize(
    ("changes", "name", "expected"),
    [
        ({"report_weight": 10**9 + 1}, "folded = perf report", Verdict.FAILED),
        ({"event": "cycles:u"}, "mode", Verdict.WARN),
        ({"samples": 1_999}, "samples", Verdict.WARN),
        ({"weight": 0, "report_weight": 0, "samples": 0}, "samples", Verdict.FAILED),
        ({"lost_samples": 1}, "lost samples", Verdict.WARN),
        ({"incomplete_weight": 10**8 + 1}, "incomplete stacks", Verdict.WARN),
        ({"largest_sample_weight": 9 * 10**8}, "largest sample", Verdict.WARN),
        ({"unresolved_weight": 5 * 10**8}, "unresolved leaves", Verdict.WARN),
        ({"unit": "ns", "coverage": 0.7}, "coverage", Verdict.NOTE),
        ({"unit": "ns", "coverage": 0.95}, "coverage", Verdict.OK),
        ({"unit": "ns", "coverage": 1.02}, "coverage", Verdict.OK),
    ],
)
def test_a_flaw_of_the_profile_is_seen(changes: dict[str, Any], name: str, expected: Verdict) -> None:
    assert verdict(record(profile=good_profile(**changes)), name) is expected


def test_a_recording_that_perf_report_cannot_read_is_doubted_once_in_perfs_words() -> None:
    checks = list(run_checks(record(profile=good_profile(report_weight=None)), {}, "perf report failed: bad size"))
    (said,) = [check for check in checks if check.verdict is not Verdict.OK]
    assert said.verdict is worst(checks) is Verdict.WARN
    assert "not confirmed by perf report" in said.value and "bad size" in said.means and "newer perf" in said.mend


def test_more_sampled_than_ran_is_put_down_to_steal() -> None:
    check = check_of(record(profile=good_profile(unit="ns", coverage=1.48)), "coverage")
    assert check.verdict is Verdict.WARN and "148%" in check.value and "steal" in check.means and check.mend


def test_of_copied_stacks_that_are_incomplete_the_reason_is_told() -> None:
    flaws = {"incomplete_weight": 4 * 10**8, "cut_by_page_weight": 3 * 10**8, "cut_by_size_weight": 10**8}
    check = check_of(record(profile=good_profile(callgraph="dwarf", **flaws)), "incomplete stacks")
    assert (check.verdict, check.value) == (Verdict.WARN, "40.00% of weight")
    assert "10.0% are longer than their copy, 30.0% were copied up to a page not in memory" in check.means
    assert "CALLGRAPH=fp" in check.mend


def test_a_clock_far_from_nominal_is_seen() -> None:
    # Of a governor that saves power, a nominal one, boost, cycles of other processes.
    for ghz, nominal, doubted in ((2.9, "3.80", True), (3.7, "3.80", False), (5.1, "3.80", False), (9.9, "3.80", True),
                                  (1.0, "", False)):  # fmt: skip
        made = record(profile=good_profile(ghz=ghz))
        made.host = {"nominal_ghz": nominal}
        assert verdict(made, "effective clock") is (Verdict.WARN if doubted else Verdict.OK)


def test_background_work_during_reads_is_seen() -> None:
    assert verdict(record(), "background threads", background=2_000_000) is Verdict.WARN
    assert verdict(record(), "background threads", background=900_000) is Verdict.OK


def test_two_accounts_of_cpu_time_must_agree() -> None:
    for apart, expected in ((10**8, Verdict.OK), (10**9, Verdict.WARN)):
        windows = [window("plain", queries=1000, cpu_ns=10**10, accounted_ns=10**10 + apart)]
        assert verdict(record(windows=windows), "CPU accounting") is expected


STILL = {"cpu_ns": 900_000}
WORKING = {"cpu_ns": 5 * 10**8, "queries": 9000}


@pytest.mark.parametrize(
    ("windows", "expected", "says"),
    [
        ([WORKING, WORKING, WORKING], Verdict.OK, "in each of the 3 windows"),
        ([STILL, STILL, STILL], Verdict.FAILED, "did not run"),
        # What its report said before and after a standstill is no query within it.
        ([WORKING, {**STILL, "queries": 1800}, WORKING], Verdict.FAILED, "in 1 of 3 windows: perf"),
        ([WORKING, WORKING, {"cpu_ns": 5 * 10**8}], Verdict.FAILED, "does not cover them"),
        ([WORKING, {**WORKING, "queries": 0}, WORKING], Verdict.FAILED, "in 1 of 3 windows: perf"),
    ],
)
def test_a_window_without_queries_fails_the_run(windows: list[dict[str, float]], expected: Verdict, says: str) -> None:
    kinds = zip(("plain", "perf", "plain"), windows, strict=True)
    made = record(windows=[window("warm-up", 1.0, "flat"), *(window(kind, **counted) for kind, counted in kinds)])
    check = check_of(made, "queries")
    assert check.verdict is expected
    assert says in f"{check.value}; {check.means}"


def test_the_window_in_which_a_run_was_interrupted_fails_nothing() -> None:
    windows = [window("plain", **WORKING), window("perf", **WORKING), window("plain", cpu_ns=5 * 10**8)]
    interrupted = record(windows=windows, missing=["rounds after the first 1 (interrupted)"])
    assert check_of(interrupted, "queries").value == "in each of the 2 windows"
    assert check_of(record(windows=windows), "queries").verdict is Verdict.FAILED


def test_of_reads_that_are_not_there_all_are_others() -> None:
    """A workload that is answered from memory: what others read decides by how much it is a query."""
    cached = {"queries": 100_000, "storage_read_bytes": 200_000, "process_read_bytes": 0}
    check = check_of(record(windows=[window("plain", **cached)]), "others' reads")
    assert (check.verdict, check.value) == (Verdict.OK, "100.0% of the bytes read from the device, 2 bytes a query")
    busy = {**cached, "storage_read_bytes": 10**9}
    assert verdict(record(windows=[window("plain", **busy)]), "others' reads") is Verdict.WARN


def test_reads_of_others_and_drift_are_seen() -> None:
    half = {"queries": 1000, "storage_reads": 2000, "storage_read_bytes": 16_384_000, "process_read_bytes": 8_192_000}
    assert verdict(record(windows=[window("plain", **half)]), "others' reads") is Verdict.WARN
    slower = [window("plain", queries=1000), window("plain", queries=800)]
    assert verdict(record(windows=slower), "drift") is Verdict.WARN
    plain = {"queries": 1000, "cpu_ns": 10**7}
    halting = [window("plain", **plain), window("perf", queries=1200, cpu_ns=9 * 10**6), window("plain", **plain)]

    def observer(*costs: ObserverCost, **changes: object) -> Check:
        return check_of(record(windows=halting, costs=[*costs], **changes), "observer")

    faster = ObserverCost("perf", Interval(1.2, 1.1, 1.3, 5))
    seen = observer(faster)
    assert seen.verdict is Verdict.WARN and "keeps the CPU from halting" in seen.means
    assert seen.value == "with perf attached QPS +20.0% [+10.0%, +30.0%], CPU per query 7.50 against 10.00 us"
    assert observer(ObserverCost("perf", Interval(1.2, 0.9, 1.5, 5))).verdict is Verdict.OK, "it may be none"
    assert "too few windows" in observer().value and observer().verdict is Verdict.OK
    check = observer(faster, host_change=ObserverCost("null", Interval(0.8, 0.7, 0.9, 5)))
    assert check.verdict is Verdict.NOTE and "-20.0% [-30.0%, -10.0%]" in check.value and "+20" not in check.value
    stolen = [window("plain", queries=1000, steal_ns=10**8)]
    assert verdict(record(windows=stolen), "steal") is Verdict.WARN


def test_cpu_of_others_is_what_is_busy_beyond_the_workload() -> None:
    def of_others(ticks: int, **more: object) -> Check:
        host = HostTimes(0, ticks, 20, 0, 0, 0)
        made = record(windows=[window("plain", cpu_ns=8 * 10**8, host=host)], host={"cpus": "2"}, **more)
        return check_of(made, "others' CPU")

    busy, quiet = of_others(170), of_others(70)
    assert (busy.verdict, busy.value) == (Verdict.WARN, "others used 1.1 of 2 CPUs")
    assert (quiet.verdict, quiet.value) == (Verdict.OK, "others used 0.1 of 2 CPUs")
    beside = of_others(170, target=Target("--pid 1", "x", [1], count="c"))
    assert beside.verdict is Verdict.NOTE, "a service is not alone on its host"
    assert not [one for one in run_checks(record(), {}) if one.name == "others' CPU"], "of older runs it is not known"
    others = others_in(record(host={"cpus": "2"}), [window("plain", storage_read_bytes=100, process_read_bytes=60)])
    assert (others.cpus, others.prolonging("cpu"), others.prolonging("")) == (None, "", "")
    assert others.prolonging("reads") == "others read 40% of what the device read"
    assert verdict(record(host_load=HostLoad(1.0, 2, 1.9, 0, 4.0)), "others before") is Verdict.NOTE


# ---- of an LSM tree --------------------------------------------------------------------------------------------------
TWO = "L6 8 files 333 MiB, L7 73 files 3801 MiB"
ONE = "L7 81 files 4134 MiB"
QUIET = "Cumulative compaction: 0.00 GB write, 0.00 MB/s write, 0.00 GB read\n"


def of_tree(
    before: str, after: str | None, levels: str, log: str = QUIET, written: int = 0, entries: str = "0", l0: str = "0"
) -> dict[str, Verdict]:
    record = run_record(expected=Expectation(levels))
    record.windows = [window("plain", process_write_bytes=written)]
    record.database = DatabaseFacts(levels=before, memtable_entries=int(entries), l0_files=int(l0), levels_after=after)
    return {check.name: check.verdict for check in tree_proofs(record, RocksDB().compacted_gb(log))}


def test_a_tree_proves_itself_where_it_has_the_levels_that_it_should() -> None:
    assert set(of_tree(TWO, TWO, "several").values()) == {Verdict.OK}
    assert set(of_tree(ONE, ONE, "one").values()) == {Verdict.OK}
    assert set(of_tree(TWO, TWO, "any").values()) == {Verdict.OK}
    for before, levels in ((ONE, "several"), (TWO, "one"), ("", "one")):
        assert of_tree(before, before, levels)["LSM tree"] is Verdict.FAILED


def test_what_lies_above_the_levels_is_seen() -> None:
    assert of_tree(TWO, TWO, "several", entries="3")["memtable and L0"] is Verdict.FAILED
    assert of_tree(TWO, TWO, "several", l0="2")["memtable and L0"] is Verdict.FAILED
    assert of_tree(TWO, TWO, "any", l0="2")["memtable and L0"] is Verdict.WARN


def test_a_tree_that_changed_while_it_was_read_fails() -> None:
    assert of_tree(TWO, ONE, "several")["levels after"] is Verdict.FAILED
    assert of_tree(TWO, None, "several")["levels after"] is Verdict.WARN
    busy = QUIET.replace("0.00 GB write", "0.31 GB write")
    assert of_tree(TWO, TWO, "several", busy)["compaction in the log"] is Verdict.FAILED
    assert of_tree(TWO, TWO, "several", "")["compaction in the log"] is Verdict.WARN
    assert of_tree(TWO, TWO, "several", written=64 << 20)["writes while reading"] is Verdict.FAILED


def test_why_the_log_says_nothing_of_compactions() -> None:
    """A killed engine has not printed its statistics; only one that exited by itself can have printed other ones."""
    record = run_record()
    record.windows, record.database = [window("plain")], DatabaseFacts(levels=ONE, levels_after=ONE)

    def means() -> str:
        return next(check.means for check in tree_proofs(record, None) if check.name == "compaction in the log")

    assert means() == "the client did not exit by itself, and it prints its statistics when it does"
    record.engine_result = {"operations": 1000.0}
    assert means() == "this build prints other statistics"
    assert not list(tree_proofs(run_record(), 0.0))  # never looked at


def test_filters_that_were_to_go_unused_have_no_weight() -> None:
    def rows(share: float) -> list[Category]:
        return [Category("bloom", "", 1, share, 1), Category("other", "", 99, 100 - share, 99)]

    assert filter_proof(rows(0.02), "bloom").verdict is Verdict.OK
    assert filter_proof(rows(3.6), "bloom").verdict is Verdict.FAILED
