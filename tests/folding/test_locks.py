"""The lock report: on stacks of known meaning, and by hand on a real database with one lock and with none."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.pmp import Sampling
from collectors.pmp_plan import PmpPlan
from folding.locks import lock_report, plain_name, read_rules
from folding.pmp import fold_pmp
from ground.errors import UsageError
from ground.results.pmp import Locks
from ground.results.profile import FoldedStack
from ground.results.states import SAMPLED_FRAMES
from ground.system.process import Children
from tests.figures import Report
from tests.until import until
from viz.tables.pmp import locks_section
from viz.terminal.table import section_text
from workloads.registry import rules_named

RULES = read_rules(rules_named("rocksdb").locks)
KERNEL = "entry_SYSCALL_64_after_hwframe_[k];do_futex_[k];futex_wait_[k]"


def line(category: str, weight: int, stack: str, tid: int | None = None) -> FoldedStack:
    comm, *frames, state = stack.split(";")
    return FoldedStack(tuple(frames), ("",) * len(frames), comm, tid, weight, 1, state, category)


def test_waiters_go_to_the_first_frame_that_is_no_primitive_and_to_their_category() -> None:
    lock = "rocksdb::port::Mutex::Lock;pthread_mutex_lock;__GI___lll_lock_wait"
    report = lock_report(
        [
            line("LRU", 100, f"t;main;Shard::Lookup;{lock};{KERNEL};sleeping_[S]"),
            line("bloom", 40, f"t;main;Shard::Lookup;{lock};{KERNEL};sleeping_[S]"),
            line("bloom", 7, "t;main;Shard::Release;pthread_mutex_unlock;__lll_lock_wake;running_[R]"),
            line(
                "other", 30, f"t;main;Pool::Loop;pthread_cond_wait;__futex_abstimed_wait_common;{KERNEL};sleeping_[S]"
            ),
            line("libc+k", 20, "t;main;Read;pread64;do_syscall_64_[k];io_schedule_[k];uninterruptible_[D]"),
            line("other", 3, "t;main;compute;running_[R]"),
            # Taken again inside the condition's wait: a mutex.
            line(
                "other", 5, "t;main;Pool::Loop;pthread_cond_wait;__pthread_mutex_cond_lock;__lll_lock_wait;sleeping_[S]"
            ),
            # A reader that waits for a writer, in the frames a condition uses too.
            line("other", 2, "t;main;Get;pthread_rwlock_rdlock;__futex_abstimed_wait64;futex_wait;sleeping_[S]"),
            # A C library that came without names: of what pthread_mutex_lock calls in it, and of what malloc does.
            line("LRU", 9, f"t;main;Shard::Lookup;pthread_mutex_lock;[libc.so.6];{KERNEL};sleeping_[S]"),
            line("other", 4, "t;main;compute;malloc;[libc.so.6];running_[R]"),
        ],
        RULES,
    )
    assert report.total.weight_ns == 220 and report.total.samples == 10
    assert (report.waiting.weight_ns, report.running.weight_ns) == (156, 7)
    assert (report.conditions.weight_ns, report.blocked_elsewhere.weight_ns) == (30, 20)
    rows = [(s.place, s.kind, s.category, s.waiting.weight_ns, s.running.weight_ns) for s in report.sites]
    assert rows == [
        ("Shard::Lookup", "mutex", "LRU", 149, 0),
        ("Pool::Loop", "mutex", "other", 5, 0),
        ("Get", "rwlock", "other", 2, 0),
        ("Shard::Release", "mutex", "bloom", 0, 7),
    ]
    assert [(s.place, s.waiting.weight_ns) for s in report.owners] == [("LRU", 109), ("bloom", 40), ("other", 7)]
    assert [s.place for s in report.condition_sites] == ["Pool::Loop"]


def test_threads_that_do_nothing_are_a_line_below_the_table() -> None:
    condition = f"pthread_cond_wait;__futex_abstimed_wait_common;{KERNEL};sleeping_[S]"
    pool = [line("other", 99, f"rocksdb:low;Pool::Loop;{condition}", tid) for tid in range(7)]
    reader = [
        line("LRU", 30, f"t;Shard::Lookup;pthread_mutex_lock;__lll_lock_wait;{KERNEL};sleeping_[S]", 8),
        line("other", 10, f"t;Write;{condition}", 8),
        line("other", 60, "t;compute;running_[R]", 8),
    ]
    # One of the pool has worked for 1 % of its time, another for a little more.
    worked = [line("other", 1, "rocksdb:low;Pool::Loop;compute;running_[R]", 0)]
    busier = [line("other", 2, "rocksdb:low;Pool::Loop;compute;running_[R]", 1)]
    report = lock_report([*pool, *reader, *worked], RULES)
    assert (report.idle_threads, report.idle.weight_ns) == (7, 694)
    assert (report.total.weight_ns, report.waiting.weight_ns, report.conditions.weight_ns) == (100, 30, 10)
    text = section_text(locks_section(report, None))
    assert re.search("waiting for locks +30.00", text) and "left out: 7 idle threads" in text
    assert lock_report([*pool, *reader, *busier], RULES).idle_threads == 6
    # A lock that is held for ever is none of its waiters' idleness; where no thread works, all are shown.
    assert lock_report([reader[0], reader[2]], RULES).idle_threads == 0
    alone = lock_report(pool, RULES)
    assert (alone.idle_threads, alone.total.weight_ns) == (0, 693)
    assert "left out" not in section_text(locks_section(alone, None))


def test_names_are_compared_without_what_decorates_them() -> None:
    assert plain_name("__GI___lll_lock_wait@@GLIBC_2.34") == "lll_lock_wait"
    assert plain_name("a::B<c::D<int>>::lock.isra.0_[k]") == "a::B::lock"
    assert plain_name("operator<") == "operator<"
    for frame, kind in {
        "std::unique_lock<std::mutex>::lock": "mutex",
        "rocksdb::InstrumentedMutex::Lock": "mutex",
        "__pthread_rwlock_rdlock_full64": "rwlock",
        "__new_sem_wait_slow64.constprop.0": "semaphore",
        "rocksdb::SpinMutex::lock": "spin",
        "__futex_abstimed_wait_common64": "condition",
        "futex_wait": "futex",
    }.items():
        assert RULES.kind_of(frame) == kind, frame
    for frame in ("rocksdb::LRUCacheShard::Lookup", "read", "std::vector<std::mutex>::size", "mutex_of", ""):
        assert RULES.kind_of(frame) is None, frame


_STATES = st.sampled_from(list(SAMPLED_FRAMES.values()))
_FRAMES = st.lists(st.text(max_size=20), min_size=1, max_size=6)


@given(st.lists(st.tuples(st.integers(0, 10**12), _FRAMES, _STATES)))
def test_any_frames_keep_their_weight(stacks: list[tuple[int, list[str], str]]) -> None:
    lines = [
        line("x", weight, ";".join([*(frame.replace(";", ":").replace("\t", " ") for frame in frames), state]))
        for weight, frames, state in stacks
    ]
    report = lock_report(lines, RULES)
    assert report.total.weight_ns == sum(weight for weight, _, _ in stacks)
    parts = (report.waiting, report.running, report.conditions, report.blocked_elsewhere)
    assert sum(part.weight_ns for part in parts) <= report.total.weight_ns


def test_what_is_no_rule_is_said(tmp_path: Path) -> None:
    broken = tmp_path / "rules.toml"
    for text in ("schema = 2", 'schema = 1\n[[primitive]]\nkind = "key"\nframes = []', "x = [", "schema = 1"):
        broken.write_text(text)
        with pytest.raises(UsageError):
            read_rules(broken)


def lock_report_of(database: Path, cache_type: str, place: Path) -> Locks:
    """Of 8 threads that read a cached database, whose block cache has one shard."""
    place.mkdir()
    flags = "--use_existing_db=1 --num=500000 --value_size=100 --threads=8 --duration=120 --cache_size=1073741824 "
    flags += "--cache_numshardbits=0 --cache_index_and_filter_blocks=1 --report_interval_seconds=1"
    log = place / "report.csv"
    named = [f"--db={database}", f"--cache_type={cache_type}", f"--report_file={log}", *flags.split()]
    argv = ["db_bench", "--benchmarks=readrandom", *named]
    with (
        subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as engine,
        Children() as children,
    ):
        try:
            # Two lines with figures: it reads, and what it reads comes from the cache by now.
            until(lambda: log.exists() and len(log.read_text().splitlines()) >= 3, engine)
            sampling = Sampling(children, PmpPlan(hz=50), engine.pid, place)
            sampling.attach()
            sampling.open()
            sampling.wait(6)
            sampling.close()
            sampling.detach()
        finally:
            engine.kill()
    return lock_report(fold_pmp(place, "rocksdb").each_stack("owner"), RULES)


@pytest.mark.by_hand
@pytest.mark.needs("db_bench")
def test_the_lock_of_the_lru_cache_and_of_the_hyper_clock_cache(tmp_path: Path, figure: Report) -> None:
    load = ["--benchmarks=fillseq", "--num=500000", "--value_size=100", "--compression_type=none", "--disable_wal=1"]
    subprocess.run(["db_bench", f"--db={tmp_path / 'db'}", *load], capture_output=True, check=True)
    for cache, expected in (("lru_cache", "more than 2"), ("hyper_clock_cache", "0")):
        locks = lock_report_of(tmp_path / "db", cache, tmp_path / cache)
        inside = [site for site in locks.sites if "LRUCacheShard::" in site.place]
        held = sum(site.waiting.weight_ns + site.running.weight_ns for site in inside)
        figure(f"{cache}: time in the shard's lock, %", 100 * held / locks.total.weight_ns, expected=expected)
        waiting = 100 * (locks.waiting.weight_ns + locks.running.weight_ns) / locks.total.weight_ns
        figure(f"{cache}: time in any lock, %", waiting, expected="four times as much with the LRU cache")
