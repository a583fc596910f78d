"""Jobs and stalls of a LOG: of real ones against RocksDB's own tables, and of lines that are made here."""

from __future__ import annotations

import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from ground.results.jobs import Job, Jobs, RunJobs
from tests.e2e.test_services import done
from tests.figures import Report
from tests.workloads.made_databases import compacted, creation, event
from tests.workloads.test_real_files import db_bench
from workloads.engines.rocksdb.log_events import log_texts, logged_tables, moves, running
from workloads.engines.rocksdb.log_jobs import jobs_in
from workloads.engines.rocksdb.log_lines import events
from workloads.engines.rocksdb.statistics import in_windows, level_writes, statistics, written_by_events
from workloads.registry import engine_named, files_reader

ROCKSDB = engine_named("rocksdb")
OPENED = "2026/11/26-18:25:41.000001 7 [/version_set.cc:5933] Recovered from manifest file:/db/MANIFEST-000004\n"
FLUSHED = "2026/11/26-18:25:42.000001 7 [/flush_job.cc:1067] [new] [JOB 4] Flush lasted 52 microseconds, and 43 cpu"
COMPACTING = "2026/11/26-18:25:42.000001 8 [/compaction_job.cc:2102] [new] [JOB 5] Compacting 2@0 + 1@1 files to L1,"


def held_back(line: str, thread: int = 7) -> str:
    return f"2026/11/26-18:25:42.000001 {thread} [WARN] [/column_family.cc:1001] [new] {line}\n"


def flush(job: int, at: float, between: str = "") -> str:
    """One that took a second."""
    return event("flush_started", job, at) + creation(9, job, at) + between + event("flush_finished", job, at + 1)


def test_a_job_has_what_events_and_text_say_of_it() -> None:
    started = event("flush_started", 4, 100, total_data_size=20_000, flush_reason="Write Buffer Full")
    finished = event("flush_finished", 4, 101, lsm_state=[1, 2], immutable_memtables=1)
    more = {"files_L0": [3, 4], "files_L1": [1]}
    merging = event("compaction_started", 5, 102, **more, input_data_size=3, compaction_reason="R")
    merged = compacted(5, 104, 1, 2, compaction_time_cpu_micros=900_000, lsm_state=[0, 1])
    log = OPENED + started + creation(9, 4, 100.5) + f"{FLUSHED} microseconds.\n" + finished + COMPACTING + "\n"
    log += merging
    gone = "".join(event("table_file_deletion", 5, at, file_number=file) for at, file in ((104.25, 3), (104.5, 4)))
    found = jobs_in([log + merged + gone], 0, 1000)
    assert found.jobs == (
        Job(
            "flush", 4, 7, 100.0, 101.0, "new", "Write Buffer Full", (), 0, 20_000, 10_000, 0, 1, 43, 52, (7,),
            ("000009.sst",),
        ),
        Job(
            "compaction", 5, 7, 102.0, 104.0, "new", "R", (0, 1), 1, 3, 2, 3, 1, 900_000, 1_900_000, (7,), (), 2, 104.5
        ),
    )  # fmt: skip
    states = [(state.at, state.files, state.immutable_memtables) for state in found.states]
    assert states == [(101.0, (1, 2), 1), (104.0, (0, 1), None)]
    # Of what overlaps a stretch of time, its end left out.
    assert [job.number for job in jobs_in([log + merged], 100.9, 102.0).jobs] == [4]
    running = jobs_in([log], 101.0, 103.0).jobs
    assert [(job.number, job.end, job.level) for job in running] == [(5, None, 1)]


def test_a_job_ends_in_the_next_log_of_its_process_and_not_in_that_of_another() -> None:
    begun = OPENED + event("flush_started", 4, 100, total_data_size=1, flush_reason="R")
    end = event("flush_finished", 4, 101)
    assert [job.end for job in jobs_in([begun, end], 0, 1000).jobs] == [101.0]
    assert [job.end for job in jobs_in([begun, OPENED + end], 0, 1000).jobs] == [None]
    assert [job.end for job in jobs_in([begun, OPENED + begun + end], 0, 1000).jobs] == [None, 101.0]


def test_a_stall_lasts_until_a_job_ends_without_a_word_of_it() -> None:
    stopping = held_back("Stopping writes because we have 2 immutable memtables (waiting for flush), "
                         "max_write_buffer_number is set to 2")  # fmt: skip
    slow = "Stalling writes because we have {} level-0 files rate {}"
    log = flush(4, 100, stopping) + flush(5, 102) + flush(6, 104, held_back(slow.format(20, 16777216)))
    log += held_back(slow.format(21, 13421772), 8) + flush(7, 106)
    found = jobs_in([OPENED + log], 0, 1e10)
    assert {(stall.cause, stall.stopped, stall.end) for stall in found.stalls} == {
        ("immutable memtables (waiting for flush)", True, 103.0),
        ("level-0 files", False, 107.0),
    }
    pending = held_back("Stalling writes because of estimated pending compaction bytes 7000 rate 16777216")
    [stall] = jobs_in([OPENED + pending], 0, 1e10).stalls
    assert (stall.cause, stall.end, stall.column_family) == ("estimated pending compaction bytes", None, "new")


def test_of_a_long_log_the_end_is_read(tmp_path: Path) -> None:
    (tmp_path / "LOG.old.1795737752127310").write_text("before\n", encoding="utf-8")
    (tmp_path / "LOG").write_text("0123456789", encoding="utf-8")
    assert list(log_texts(tmp_path / "LOG", 0, most=4)) == ["ore\n", "6789"]
    inode = (tmp_path / "LOG").stat().st_ino
    assert list(log_texts(tmp_path / "LOG", 0, {inode: 8}, most=4)) == ["ore\n", "89"]
    assert list(log_texts(tmp_path / "LOG", time.time() + 99)) == []


def test_a_log_of_another_time_zone_is_moved_to_ours() -> None:
    at = time.mktime(time.strptime("2026/11/26-18:25:42", "%Y/%m/%d-%H:%M:%S"))
    stopping = held_back("Stopping writes because we have 2 immutable memtables (waiting for flush)")
    for hours in (0, 2, -5):
        log = OPENED + flush(4, at + 3600 * hours, stopping) + flush(5, at + 3600 * hours + 2)
        found = jobs_in([log], 0, 1e10)
        [stall] = found.stalls
        assert stall.begin == pytest.approx(at + 3600 * hours, abs=1) and stall.end == at + 3600 * hours + 3
        assert found.until == pytest.approx(at + 3600 * hours, abs=1)


def lines_of_another_form() -> Iterator[str]:
    """Each event without one of its keys, and with one of another type; text that names no moment and no number."""
    events = [
        event("flush_started", 8, 200, total_data_size=1, flush_reason="R"), creation(9, 8, 200.5),
        event("flush_finished", 8, 201, lsm_state=[1], immutable_memtables=1),
        event("compaction_started", 8, 202, files_L0=[3], input_data_size=3, compaction_reason="R"),
        compacted(8, 203, 1, 2, compaction_time_cpu_micros=1, lsm_state=[1]),
        event("table_file_deletion", 8, 203, file_number=3),
        event("trivial_move", 8, 204, destination_level=1, total_files_size=1),
    ]  # fmt: skip
    others: tuple[object, ...] = (None, "x", [{}], {"a": 1}, -1, 1 << 80, 1.5)
    for line in events:
        begin, _, text = line.partition("EVENT_LOG_v1 ")
        whole = json.loads(text)
        for key in whole:
            yield begin + "EVENT_LOG_v1 " + json.dumps({name: value for name, value in whole.items() if name != key})
            for other in others:
                yield begin + "EVENT_LOG_v1 " + json.dumps({**whole, key: other})
    digits = "9" * 5000
    yield OPENED.replace("11/26", "99/99") + FLUSHED.replace("2026/11/26", "9999/99/99")
    yield FLUSHED.replace("JOB 4", f"JOB {digits}") + "\n" + COMPACTING.replace("L1", f"L{digits}")
    yield FLUSHED.replace(" 7 ", f" {digits} ") + f"\n{FLUSHED.replace('52', digits)}"
    yield f'2026/11/26-18:25:42.7 7 EVENT_LOG_v1 {"{"}"a": {"[" * 100_000}{"}"}'
    yield "2026/99/26-18:25:42.000001 7 ------- DUMPING STATS -------"


def test_lines_of_another_form_are_left_out_and_the_others_are_read() -> None:
    for line in lines_of_another_form():
        log = f"{OPENED}{flush(4, 100)}{line}\n{flush(5, 300)}"
        found = jobs_in([log], 0, 1e10)
        assert {4, 5} <= {job.number for job in found.jobs if job.end is not None}, line
        assert RunJobs(((0, 0), (1, 1)), found).monotonic_ns(found.until)
        assert msgspec.json.decode(msgspec.json.encode(found), type=Jobs).jobs, line
        assert {9} <= logged_tables(log).keys() and running(log) and moves(log) is not None, line
        assert {4, 5} <= {one["job"] for one in events(log) if one.get("event") == "flush_finished"}, line
        assert in_windows(log, [(100.0, 102.0)])[0]["flushed_gb"] > 0 and written_by_events(log), line


@pytest.mark.long
@pytest.mark.needs("db_bench")
@pytest.mark.parametrize("flags", [[], ["--num_column_families=3", "--subcompactions=2"]], ids=["plain", "families"])
def test_jobs_of_a_real_log_are_those_of_the_tables_of_levels(tmp_path: Path, flags: list[str]) -> None:
    printed = done(db_bench(tmp_path / "db", "fillrandom,overwrite,waitforcompaction,stats", *flags))
    found = ROCKSDB.jobs(tmp_path / "db", 0, 1e11)
    assert found is not None and not found.notes and found.until == pytest.approx(found.jobs[-1].begin, abs=60)
    assert all(job.end is not None and job.end > job.begin for job in found.jobs)
    assert files_reader("myrocks").jobs(tmp_path, 0, 1e11) == found
    families = {job.column_family for job in found.jobs}
    assert len(families) == (3 if flags else 1) and "default" in families
    default = [job for job in found.jobs if job.column_family == "default"]
    jobs = Counter(f"L{job.level}" for job in default)
    cpu: dict[str, float] = defaultdict(float)
    for job in default:
        cpu[f"L{job.level}"] += (job.cpu_us or 0) / 1e6
    tables = printed.rpartition("** Compaction Stats [default] **\nLevel")
    rows = {row.level: row for row in level_writes(re.split(r"\nPriority", f"Level{tables[2]}")[0]) if row.jobs}
    del rows["Sum"]
    assert {level: row.jobs for level, row in rows.items()} == jobs
    for level, row in rows.items():
        assert cpu[level] == pytest.approx(row.cpu_seconds, abs=0.011)


def stalled(folder: Path) -> tuple[Jobs, dict[str, float]]:
    """Jobs of a load whose writers wait for flushes, and what RocksDB stated of it."""
    # Without a log of writes: the file system frees one after the last line of its job. A flush takes half a second.
    flags = ["--num=24000", "--value_size=400", "--write_buffer_size=1048576", "--max_write_buffer_number=2"]
    flags += ["--rate_limiter_bytes_per_sec=2097152", "--disable_wal=true", "--level0_file_num_compaction_trigger=999"]
    flags += ["--level0_slowdown_writes_trigger=999", "--level0_stop_writes_trigger=999", "--stats_dump_period_sec=1"]
    stated = statistics(done(db_bench(folder, "fillrandom,stats", *flags)))
    found = ROCKSDB.jobs(folder, 0, 1e11)
    assert found is not None
    return found, stated


@pytest.mark.long
@pytest.mark.needs("db_bench")
def test_stopped_writes_of_a_real_log_are_among_those_that_it_counted(tmp_path: Path) -> None:
    found, stated = stalled(tmp_path / "db")
    waiting = ("immutable memtables (waiting for flush)", True)
    assert {(stall.cause, stall.stopped) for stall in found.stalls} == {waiting}
    assert found.held_back and found.held_back[-1][1] <= stated["stall_seconds"]
    assert 0 < len(found.stalls) <= stated["stalls"]
    assert all(stall.end is not None and stall.end > stall.begin for stall in found.stalls)


@pytest.mark.by_hand
@pytest.mark.needs("db_bench")
def test_stopped_writes_last_as_long_as_rocksdb_says(tmp_path: Path, figure: Report) -> None:
    """A writer may be woken long after the last line of the job that it waited for."""
    found, stated = stalled(tmp_path / "db")
    lasted = sum((stall.end or 0) - stall.begin for stall in found.stalls)
    figure("stalls by LOG / cumulative stall", lasted / stated["stall_seconds"], expected="0.95 to 1.05")
