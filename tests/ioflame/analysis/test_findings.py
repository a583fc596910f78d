from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from folding.stackfold import run_stackfold
from ground.results.interval import Interval
from ground.results.ladder import Ladder, Rung
from ground.results.off_cpu import OffCpu, StackFacts, StateTotal, Thread
from ground.results.profile import Folded, read_profile
from ground.results.record import HostTimes, RoleCounters, RunRecord, Window
from ground.results.states import STATES
from ground.settings import worded
from ground.text.toml import tomllib
from ioflame.analysis.findings import MOST, FindingRule, Waits, findings, read_rules
from ioflame.stages.run import advice_of
from tests.places import ROOT
from tests.records import profile_facts, window
from tests.viz.runs import record
from viz.terminal.summary import found
from workloads.registry import engine_named, engine_names, rules_named, service_advice, service_names

# For each rule on frames: what a stack of it looks like, from the root.
SHOWN = {
    "doorbell of a virtual disk": ("main", "pread64", "virtio_queue_rq_[k]", "vp_notify_[k]", "iowrite16_[k]"),
    "malloc and free": ("main", "rocksdb::DBImpl::Get", "malloc", "_int_malloc"),
    "copies": ("main", "rocksdb::DBImpl::Get", "__memmove_avx_unaligned_erms"),
    "page cache": ("main", "pread64", "filemap_read_[k]", "xas_load_[k]"),
    "page faults": ("main", "memset", "asm_exc_page_fault_[k]", "clear_page_[k]"),
    "kernel spin locks": ("main", "pread64", "native_queued_spin_lock_slowpath_[k]"),
    "futex calls": ("main", "pthread_mutex_lock", "__x64_sys_futex_[k]", "plist_add_[k]"),
    "pressure accounting": ("main", "pread64", "schedule_[k]", "psi_group_change_[k]"),
    "mitigations": ("main", "pread64", "clear_bhb_loop_[k]"),
}
OF_ROCKSDB = {
    "RocksDB's mutexes": ("main", "rocksdb::DBImpl::Get", "rocksdb::port::Mutex::Lock", "pthread_mutex_lock"),
    "key comparisons": ("main", "rocksdb::DBImpl::Get", "rocksdb::InternalKeyComparator::Compare"),
    "clocks": ("main", "rocksdb::DBImpl::Get", "rocksdb::StopWatch::~StopWatch", "__vdso_clock_gettime"),
}
ENGINE = ("main", "rocksdb::DBImpl::Get", "rocksdb::Version::Get")
SECONDS = 10


def profile_of(tmp_path: Path, stacks: dict[tuple[str, ...], list[int]], rules: str = "") -> Folded:
    """Folded by stackfold from perf script text: of each stack so many samples of 1 ms in each second.

    rules: sort the stacks by all views of these
    """
    text = []
    for frames, by_second in stacks.items():
        for second, samples in enumerate(by_second):
            for number in range(samples):
                text.append(f"db_bench 7/7 {100 + second + number / 1000:.6f}: 1000000 cpu-clock:")
                for frame in reversed(frames):
                    name, kernel = frame.removesuffix("_[k]"), frame.endswith("_[k]")
                    address, dso = ("ffffffff81000000", "[kernel.kallsyms]") if kernel else ("401000", "/usr/bin/x")
                    text.append(f"\t{address} {name} ({dso})")
                text.append("")
    path = tmp_path / "profile.json"
    sorting = ["--rules", rules] if rules else []
    argv = ["--kernel", "--slice-ms", "1000", "--input-format", "perf-script", *sorting, "-"]
    run_stackfold(argv, path, data="\n".join(text).encode()).require("stackfold")
    return read_profile(path)


RULES = read_rules(*rules_named("rocksdb").findings)


@pytest.fixture
def run() -> RunRecord:
    return record(metrics={"cpuPer": 50.0})


# For each rule on categories: a stack whose frames the rules of RocksDB put there.
OF_CATEGORIES = {
    "block cache": ("main", "rocksdb::DBImpl::Get", "rocksdb::lru_cache::LRUCacheShard::Lookup"),
    "write-ahead log": ("main", "rocksdb::DBImpl::WriteToWAL", "rocksdb::log::Writer::AddRecord"),
    "memtable inserts": ("main", "rocksdb::WriteBatchInternal::InsertInto", "rocksdb::MemTable::Add"),
}


def test_every_rule_on_frames_or_categories_has_a_stack_that_shows_it() -> None:
    on_frames = ("leaf", "within")
    assert {rule.name for rule in read_rules() if rule.kind in on_frames} == set(SHOWN)
    assert {rule.name for rule in RULES if rule.kind in on_frames} == set(SHOWN | OF_ROCKSDB)
    assert {rule.name for rule in RULES if rule.kind == "category"} == set(OF_CATEGORIES)


@pytest.mark.parametrize(("name", "stack"), (SHOWN | OF_ROCKSDB | OF_CATEGORIES).items())
def test_a_rule_holds_for_its_stack_and_not_for_the_engines(
    name: str, stack: tuple[str, ...], run: RunRecord, tmp_path: Path
) -> None:
    stacks = {stack: [20] * SECONDS, ENGINE: [80] * SECONDS}
    sorted_by = rules_named("rocksdb").categories if name in OF_CATEGORIES else ""
    (found,) = findings(RULES, run, profile_of(tmp_path, stacks, sorted_by))
    assert (found.name, found.us.n) == (name, 20 * SECONDS)
    assert found.us.estimate == pytest.approx(10.0)
    assert found.sentence.startswith("10.0 [10.0, 10.0] of 50.0 us of CPU are ")
    assert "{" not in found.sentence + found.do
    if sorted_by:
        # A profile without that view has no such finding.
        assert findings(RULES, run, profile_of(tmp_path, stacks)) == []
    else:
        assert found.frame in [frame.removesuffix("_[k]") for frame in stack]
        assert findings(RULES, run, profile_of(tmp_path, {ENGINE: [100] * SECONDS})) == []


def seconds_of_writing(compaction_ms: int, seconds: int = 20) -> list[Window]:
    """Each second 1,000 writes at 300 us, and compaction of so many ms."""
    roles = {"writer": role(300_000_000), "compaction": role(compaction_ms * 1_000_000), "flush": role(0)}
    return [window("plain", 1, "", 100 + i, queries=1000, roles=roles) for i in range(seconds)]


def role(cpu_ns: int) -> RoleCounters:
    return RoleCounters(cpu_ns, 0, 0, 0)


def test_flushes_and_compactions_are_told_with_what_they_rewrite(run: RunRecord) -> None:
    written = {"flushed_gb": 0.5, "compacted_gb": 3.0}
    run.windows = [window("plain", 20, "", 100, queries=20_000), window("perf", 20, "", 120, queries=20_000)]
    for one in run.windows:
        one.engine = dict(written)
    (found,) = findings(RULES, run, series=seconds_of_writing(100))
    assert found.name == "flushes and compactions" and found.us.estimate == pytest.approx(100.0)
    assert found.sentence.startswith("100.0 [100.0, 100.0] of 400.0 us of CPU a query are flushes and compactions")
    assert "6.0 bytes written to table files for each byte flushed" in found.sentence
    assert findings(RULES, run, series=seconds_of_writing(0)) == []
    assert findings(RULES, run, series=[]) == []


@pytest.mark.parametrize(("stalled", "told"), ([(4.0,) * 6, True], [(0.0,) * 6, False], [(9.0,) * 6, False]))
def test_stalls_are_a_share_of_each_window_and_no_more_than_it(
    run: RunRecord, stalled: tuple[float, ...], told: bool
) -> None:
    """Windows of 8 s: stalls of 9 s are those of several writers, which no window's length can be compared with."""
    run.windows = [window("plain", 8, "", 100 + 8 * i, queries=8000) for i in range(len(stalled))]
    for one, seconds in zip(run.windows, stalled, strict=True):
        one.engine = {"stall_seconds": seconds}
    found = findings(RULES, run)
    assert [one.name for one in found] == ["write stalls"] * told
    if told:
        assert found[0].us.estimate == pytest.approx(500.0) and found[0].us.n == 6
        assert "max_background_jobs" not in found[0].do  # the engine's own words are given where it is known
    run.windows = run.windows[:4]
    assert findings(RULES, run) == []


def test_what_may_all_be_stolen_time_is_not_told_and_what_mostly_may_comes_last(run: RunRecord, tmp_path: Path) -> None:
    """Of a second of weight copies are 0.3 and page faults 0.25; perf's window lost `stolen` of it."""
    stacks = {SHOWN["copies"]: [30] * SECONDS, SHOWN["page faults"]: [25] * SECONDS, ENGINE: [45] * SECONDS}
    profile, others = profile_of(tmp_path, stacks), [w for w in run.windows if w.kind != "perf"]
    for stolen, names in ((0.0, ["copies", "page faults"]), (0.27, ["copies"]), (0.4, [])):
        facts = profile_facts(weight=10**9, coverage=1.0)
        windows = [*others, window("perf", 2.0, steal_ns=int(stolen * 1e9), cpu_ns=10**9)]
        found = findings(RULES, replace(run, profile=facts, windows=windows), profile)
        assert [one.name for one in found] == names
        assert all(("may be stolen time" in one.sentence) == bool(stolen) for one in found)
    waiting = ladder_of("runq", [3_000 + number % 20 for number in range(1000)])
    windows = [*others, window("perf", 2.0, steal_ns=int(0.295e9), cpu_ns=10**9)]
    found = findings(RULES, replace(run, profile=facts, windows=windows), profile, waiting)
    assert [one.name for one in found] == ["wait for a CPU after the device", "copies"]


def test_nothing_is_said_of_what_may_be_chance(run: RunRecord, tmp_path: Path) -> None:
    """One second of ten holds it all: 1 us on average, but the interval reaches down to none."""
    burst = profile_of(tmp_path, {SHOWN["mitigations"]: [20] + [0] * 9, ENGINE: [80] + [100] * 9})
    assert findings(read_rules(), run, burst) == []
    even = profile_of(tmp_path, {SHOWN["mitigations"]: [2] * 10, ENGINE: [98] * 10})
    assert [found.name for found in findings(read_rules(), run, even)] == ["mitigations"]
    # Without CPU per query, or seconds, there is no figure.
    assert findings(read_rules(), replace(run, metrics={}), even) == []
    assert findings(read_rules(), run, replace(even, slices=None)) == []


def test_the_dearest_come_first_and_no_more_than_seven(run: RunRecord, tmp_path: Path) -> None:
    stacks = {frames: [10 + 2 * place] * SECONDS for place, frames in enumerate(SHOWN.values())}
    found = findings(read_rules(), run, profile_of(tmp_path, stacks))
    assert len(found) == MOST < len(SHOWN)
    assert [one.name for one in found] == list(reversed(SHOWN))[:MOST]


def ladder_of(stage: str, ns: list[int], others: int = 0) -> Ladder:
    """Queries with that stage alone, of so many ns each, and `others` that were answered from memory in 1 us."""
    buckets = [(value, value + 1, 1) for value in ns]
    rung = Rung(stage, len(ns), sum(ns), min(ns), max(ns), buckets)
    classes = [replace(rung, name="one_read"), Rung("no_read", others, others * 1000)]
    return Ladder(
        "co-re", 7, 0, SECONDS * 10**9, 1, "query", [], [], [], None, None, len(ns) + others, len(ns) + others, 1,
        [rung], classes, Rung("outside"), None, {}, False,
    )  # fmt: skip


@pytest.mark.parametrize("rule", [rule for rule in read_rules() if rule.kind == "stage"], ids=lambda rule: rule.name)
def test_a_stage_is_told_per_query_of_whatever_kind(rule: FindingRule, run: RunRecord) -> None:
    durations = [30_000 + 100 * (number % 21) for number in range(1000)]
    (found,) = findings(read_rules(), run, ladder=ladder_of(rule.stage, durations, others=1000))
    assert found.name == rule.name
    assert found.us.estimate == pytest.approx(sum(durations) / 2000 / 1000)
    # Half of the queries have the stage: one standard error is 15.5 us / sqrt(2000) = 0.35 us.
    error = found.us.estimate * 1.96 / 2000**0.5
    ends = (found.us.low, found.us.high)
    assert ends == pytest.approx((found.us.estimate - error, found.us.estimate + error), abs=0.01)
    assert found.us.n == 2000
    assert findings(read_rules(), run, ladder=ladder_of("sys_pre", durations)) == []
    # 10 ns of 1 us: neither `least_us` nor 3 % of the query.
    assert findings(read_rules(), run, ladder=ladder_of(rule.stage, [1000] * 1000, others=100_000)) == []
    # A few that differ much say nothing.
    assert findings(read_rules(), run, ladder=ladder_of(rule.stage, [1_000, 1_000, 1_000, 80_000])) == []


def of_rate(run: RunRecord, kind: str, share: float) -> RunRecord:
    """With a window of an observer that had this share of the baseline windows' rate."""
    plain = [window for window in run.windows if window.kind == "plain"]
    queries = share * sum(w.counters.queries or 0.0 for w in plain) / sum(w.seconds for w in plain)
    return replace(run, windows=[*run.windows, window(kind, 10, "", 600, queries=10 * queries)])


def test_a_stage_is_carried_over_to_rx_lat_where_its_window_ran_as_the_plain_ones(run: RunRecord) -> None:
    """30 us of each query of 30 us and of its share of rx.lat, 100 us; and of a window that ran at 36 %."""
    traced = ladder_of("runq", [30_000] * 1000)
    run.metrics["rx.lat"] = 100.0
    (found,) = findings(RULES, of_rate(run, "ladder", 0.95), ladder=traced)
    assert found.us.estimate == pytest.approx(100.0, rel=1e-3)
    assert found.sentence.startswith("100.0 [100.0, 100.0] of 100.0 us a query (latency) are run-queue wait")
    assert "disturbed" not in found.sentence and "p50" not in found.sentence
    (slow,) = findings(RULES, of_rate(run, "ladder", 0.36), ladder=traced)
    assert slow.sentence.startswith("30.0 [30.0, 30.0] of 30.0 us a query are run-queue wait")
    assert slow.sentence.endswith(" That window was disturbed: it ran at 36 % of the baseline windows' rate.")
    (call,) = findings(RULES, of_rate(run, "ladder", 0.95), ladder=replace(traced, start="syscall"))
    assert " of 30.0 us a read call are " in call.sentence


def test_what_others_prolonged_is_told_with_what_they_did(run: RunRecord) -> None:
    traced = ladder_of("runq", [30_000] * 1000)
    busy = [replace(w, counters=replace(w.counters, host=HostTimes(0, int(190 * w.seconds), 0, 0, 0, 0),
                                        cpu_ns=int(0.3e9 * w.seconds))) for w in run.windows]  # fmt: skip
    (found,) = findings(RULES, replace(run, windows=busy, host={"cpus": "2"}), ladder=traced)
    assert found.sentence.endswith(" Meanwhile others used 1.6 of 2 CPUs.")
    assert found.do.startswith("a quiet host first; ")
    reading = [replace(w, counters=replace(w.counters, storage_read_bytes=10**10)) for w in run.windows]
    (found,) = findings(RULES, replace(run, windows=reading), ladder=ladder_of("device", [30_000] * 1000))
    assert re.search(r" Meanwhile others read \d+% of what the device read\.$", found.sentence)
    (found,) = findings(RULES, run, ladder=traced)
    assert "Meanwhile" not in found.sentence


def test_a_part_is_known_no_better_than_its_whole(run: RunRecord) -> None:
    run.metrics["rx.lat"], run.intervals["rx.lat"] = 100.0, Interval(100.0, 60.0, 140.0, 5)
    (found,) = findings(RULES, of_rate(run, "ladder", 0.95), ladder=ladder_of("runq", [30_000] * 1000))
    assert found.sentence.startswith("100.0 [60.0, 140.0] of 100.0 us a query (latency)")


def test_what_is_disturbed_comes_after_what_is_not(run: RunRecord, tmp_path: Path) -> None:
    profile = profile_of(tmp_path, {SHOWN["page faults"]: [20] * SECONDS, ENGINE: [80] * SECONDS})
    for share, names in ((0.95, ["device", "page faults"]), (0.5, ["page faults", "device"])):
        found = findings(RULES, of_rate(run, "ladder", share), profile, ladder_of("device", [30_000] * 1000))
        assert [one.name for one in found] == names


def test_the_median_stands_beside_a_mean_that_rests_on_few(run: RunRecord) -> None:
    """900 of 15 us, 100 of 1.3 ms."""
    (found,) = findings(RULES, run, ladder=ladder_of("runq", [15_000] * 900 + [1_300_000] * 100))
    assert found.sentence.endswith("Few queries take most of it: p50 15.0 us, mean 143.5.")


def test_waits_are_carried_over_as_stages_are(run: RunRecord, tmp_path: Path) -> None:
    waits = waits_of([{"lock": 200}] * 4, tmp_path)
    (found,) = findings(RULES, of_rate(run, "offcpu", 0.95), waits=waits)
    assert found.us.estimate == pytest.approx(0.95 * 800, rel=1e-3) and "disturbed" not in found.sentence
    (slow,) = findings(RULES, of_rate(run, "offcpu", 0.36), waits=waits)
    assert slow.us.estimate == pytest.approx(800.0) and "ran at 36 % of" in slow.sentence


# What a thread in a lock looks like, from the root; the lock's place is the frame before the C library's.
LOCKED = ("start_thread", "rocksdb::LRUCacheShard::Lookup", "__GI___lll_lock_wait", "futex_wait", "[lock]")


def waits_of(
    off_ms: list[dict[str, int]], tmp_path: Path, queries: float = 1000, locked: Sequence[str] = LOCKED
) -> Waits:
    """Threads that lived for a second each and took turns often; the stacks of those in a lock, on thread 1."""
    threads = [
        Thread(tid, "db_bench", 0, 10**9, False, False, 10**9 - sum(off.values()) * 10**6, None,
               {state: ms * 10**6 for state, ms in off.items()}, 5000, 0)
        for tid, off in enumerate(off_ms, start=1)
    ]  # fmt: skip
    totals = {state: StateTotal(0, 0) for state in STATES}
    off = OffCpu("co-re", 1, 0, 10**9, None, False, totals, threads, StackFacts(1, 0, 0, 0), {}, True)
    path = tmp_path / "offcpu.profile.json"
    text = ["db_bench 1/1 1.000000: 7 off:", *(f"\t401000 {frame} (/usr/bin/x)" for frame in reversed(locked)), "", ""]
    argv = ["--kernel", "--states", ",".join(f"[{state}]" for state in STATES), "--input-format", "perf-script", "-"]
    run_stackfold(argv, path, data="\n".join(text).encode()).require("stackfold")
    return Waits(off.threads, read_profile(path), queries)


def test_waits_for_a_cpu_and_for_locks_are_per_query_of_the_threads_at_work(run: RunRecord, tmp_path: Path) -> None:
    busy = [{"woken": 100, "preempted": 300, "lock": 200} for _ in range(4)]
    idle = Thread(9, "rocksdb:low", 0, 10**9, False, False, 0, None, {"condition": 10**9}, 2, 0)
    waits = waits_of(busy, tmp_path)
    waits = replace(waits, serving=[*waits.serving, idle])
    cpu, locks = findings(RULES, run, waits=waits)
    # Four threads for a second, 1,000 queries: 4,000 us a query.
    assert (cpu.name, cpu.us.n) == ("more threads than CPUs", 4)
    assert cpu.us.estimate == pytest.approx(1600.0)
    assert cpu.sentence.startswith("1600.0 [1600.0, 1600.0] of 4000.0 us a query are run-queue wait")
    assert "4 threads are working" in cpu.sentence
    assert locks.name == "locks"
    assert locks.us.estimate == pytest.approx(800.0)
    assert locks.frame == "rocksdb::LRUCacheShard::Lookup" and locks.frame in locks.sentence
    # That of the block cache is told in its place.
    locked = [frame.replace("LRUCacheShard", "lru_cache::LRUCacheShard") for frame in LOCKED]
    (lock,) = findings(RULES, run, waits=waits_of([{"lock": 200}] * 4, tmp_path, locked=locked))
    assert (lock.name, lock.frame) == ("lock of the block cache", "rocksdb::lru_cache::LRUCacheShard::Lookup")


def test_waits_of_one_thread_of_many_or_of_two_threads_are_no_finding(run: RunRecord, tmp_path: Path) -> None:
    one_of_many = [{"lock": 500}, *({"io": 500} for _ in range(5))]
    assert findings(RULES, run, waits=waits_of(one_of_many, tmp_path)) == []
    assert findings(RULES, run, waits=waits_of([{"lock": 500}] * 2, tmp_path)) == []
    assert findings(RULES, run, waits=waits_of([{"lock": 500}] * 4, tmp_path, queries=0)) == []


def test_a_wait_for_a_cpu_is_told_once(run: RunRecord, tmp_path: Path) -> None:
    after_device = ladder_of("runq", [30_000 + number for number in range(1000)])
    assert [one.name for one in findings(RULES, run, ladder=after_device)] == ["wait for a CPU after the device"]
    both = findings(RULES, run, ladder=after_device, waits=waits_of([{"woken": 400}] * 4, tmp_path))
    assert [one.name for one in both] == ["more threads than CPUs"]


def test_an_engine_brings_rules_of_its_own_without_unknown_fields(run: RunRecord, tmp_path: Path) -> None:
    more = tmp_path / "findings.toml"
    of = "name = 'keys'\nkind = 'within'\nframes = ['rocksdb::Version::.*']\nleast_us = 1.0\n"
    says = "sentence = '{us} of {whole}: {frame}'\ndo = 'x'\nsource = 'y'\nsee = 'graph'\n"
    more.write_text(f"[[finding]]\n{of}{says}")
    (found,) = findings(read_rules(more), run, profile_of(tmp_path, {ENGINE: [10] * SECONDS}))
    assert found.sentence == "50.0 [50.0, 50.0] of 50.0 us of CPU: rocksdb::Version::Get"
    more.write_text("[[finding]]\nname = 'x'\nkind = 'leaf'\nleast = 1.0\n")
    with pytest.raises(ValueError, match="least"):
        read_rules(more)


def test_advice_is_the_engines_and_leaves_out_what_it_does_not_have(run: RunRecord, tmp_path: Path) -> None:
    profile = profile_of(tmp_path, {SHOWN["page cache"]: [20] * SECONDS, ENGINE: [80] * SECONDS})
    for name in engine_names():
        engine = engine_named(name)
        (found,) = findings(read_rules(), run, profile, advice=engine.about.advice)
        advised = re.findall(r"CONFIG=(\w+)", found.do)
        assert all(configuration in engine.configurations() for configuration in advised) and found.do
        assert any(engine.configurations()[one].direct for one in advised) == bool(engine.about.direct_flag)
        assert "{" not in found.do
    # Nobody is advised what the run has already.
    rocksdb = engine_named("rocksdb")
    assert {"direct", "cached"} <= advice_of(rocksdb, {"configuration": "iobuf"}).keys()
    for configuration, left_out in (("iodir", "direct"), ("iodir_noalign", "direct"), ("byrx", "cached")):
        advice = advice_of(rocksdb, {"configuration": configuration})
        assert rocksdb.about.advice.keys() - advice.keys() == {left_out}, configuration
    assert advice_of(rocksdb, {"configuration": "of an experiment"}) == rocksdb.about.advice


def test_a_service_is_advised_in_its_own_words_or_not_at_all(run: RunRecord, tmp_path: Path) -> None:
    shown = {SHOWN["page cache"]: [20] * SECONDS, SHOWN["copies"]: [30] * SECONDS, ENGINE: [50] * SECONDS}
    profile = profile_of(tmp_path, shown)
    general = ROOT / "ioflame" / "analysis" / "findings.toml"
    places = set(re.findall(r"\{(\w+)\}", general.read_text(encoding="utf-8")))
    for name in service_names():
        advice = service_advice(name)
        assert advice.keys() <= places, name
        copies, cache = findings(read_rules(), run, profile, advice=advice)
        assert ("pinned values" in copies.do) == (name == "rocksdb")
        assert worded(advice["cached"]) in cache.do
        assert ("->" in found([copies], 200)) == bool(copies.do)


_NAMED_BY = {"stage": "stage", "wait": "states", "category": "categories", "role": "roles", "held_back": "source"}


def test_each_rule_says_what_it_is_of_and_what_changes_it() -> None:
    files = [ROOT / "ioflame" / "analysis" / "findings.toml", *rules_named("rocksdb").findings]
    for rule in (rule for file in files for rule in tomllib.loads(file.read_text(encoding="utf-8"))["finding"]):
        assert "{us} of {whole}" in rule["sentence"], rule["name"]
        assert rule["do"] and rule["source"], rule["name"]
        named_by = _NAMED_BY.get(rule["kind"], "frames")
        assert rule.get(named_by), rule["name"]
