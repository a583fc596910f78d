"""RocksDB's statistics in the forms that its versions print them in, and the events of LOG."""

from __future__ import annotations

import pytest

from tests.workloads.made_databases import compacted, event
from workloads.engines.rocksdb.engine import RocksDB
from workloads.engines.rocksdb.statistics import (
    dumps,
    in_windows,
    level_writes,
    stall_counts,
    statistics,
    tickers,
    written_by_events,
)  # fmt: skip

# 10.3 put WPreComp(GB) between: the same figures, one column further to the right.
OLD_HEAD = "Level Files Size Score Read(GB) Write(GB) Wnew(GB) Moved(GB) W-Amp Comp(sec) CompMergeCPU(sec) Comp(cnt)"
NEW_HEAD = OLD_HEAD.replace("Write(GB)", "Write(GB) WPreComp(GB)", 1)
TABLE = """
** Compaction Stats [default] **
{head}
-----------
  L0      1/0   43.10 KB   0.2   0.2   0.4 {more} 0.2   0.0   1.8   6.40   1.02   426
  L7    524/1   180.01 MB   0.0   0.1   0.1 {more} 0.1   0.3   1.0   2.49   0.38   8
 Sum    525/1   180.05 MB   0.0   0.6   0.5 {more} 0.5   0.3   4.1   8.89   1.40   434
 Int      0/0    0.00 KB   0.0   0.4   0.4 {more} 0.2   0.3   5.8   9.44   1.51   164

** Compaction Stats [default] **
Priority    Files   Size     Score Read(GB) Write(GB) Wnew(GB) Moved(GB) W-Amp Comp(sec) CompMergeCPU(sec) Comp(cnt)
-----------
 Low      0/0    0.00 KB   0.0   0.6   0.6   0.3   0.0   0.0   12.19   2.11   92

Uptime(secs): 12.6 total, 12.6 interval
Flush(GB): cumulative 0.199, interval 0.073
Cumulative compaction: 0.82 GB write, 71.43 MB/s write, 0.62 GB read, 54.08 MB/s read, 16.5 seconds
{stalls}

** DB Stats **
Cumulative writes: 10K writes, 500K keys, 10K commit groups, 1.0 writes per commit group, ingest: 0.21 GB, 17.72 MB/s
Cumulative WAL: 10K writes, 0 syncs, 10000.00 writes per sync, written: 0.20 GB, 17 MB/s
Cumulative stall: 00:01:4.672 H:M:S, 39.8 percent
"""
OLD_STALLS = (
    "Stalls(count): 3 level0_slowdown, 2 level0_slowdown_with_compaction, 0 level0_numfiles, "
    "4 slowdown for pending_compaction_bytes, 1 memtable_compaction, interval 9 total count"
)
NEW_STALLS = (
    "Write Stall (count): cf-l0-file-count-limit-delays-with-ongoing-compaction: 2, "
    "cf-l0-file-count-limit-stops-with-ongoing-compaction: 0, l0-file-count-limit-delays: 3, "
    "pending-compaction-bytes-delays: 4, memtable-limit-stops: 1, total-delays: 7, "
    "total-stops: 1, interval: 9 total count"
)


@pytest.mark.parametrize(
    ("head", "more", "stalls"), [(OLD_HEAD, "", OLD_STALLS), (NEW_HEAD, "9.9", OLD_STALLS)], ids=["7.8", "10.3"]
)
def test_columns_are_found_by_their_names(head: str, more: str, stalls: str) -> None:
    log = TABLE.format(head=head, more=more, stalls=stalls)
    first, last, total = level_writes(log)
    assert (first.level, first.files, first.write_gb, first.moved_gb) == ("L0", 1, 0.4, 0.0)
    assert (last.level, last.files, last.moved_gb, last.jobs) == ("L7", 524, 0.3, 8)
    assert (total.seconds, total.cpu_seconds) == (8.89, 1.40)
    assert statistics(log) == {
        "flushed_gb": 0.199, "compacted_gb": 0.82, "uptime": 12.6, "ingest_gb": 0.21, "wal_gb": 0.20,
        "stall_seconds": 64.672, "stalls": 8, "c_wsecs": 8.89, "c_csecs": 1.40, "moved_gb": 0.3,
    }  # fmt: skip


def test_stalls_are_counted_in_both_forms_and_what_is_in_another_is_not_counted_twice() -> None:
    assert stall_counts(OLD_STALLS)["level0_slowdown"] == 3
    assert stall_counts(OLD_STALLS)["slowdown for pending_compaction_bytes"] == 4
    assert "total-delays" not in stall_counts(NEW_STALLS)
    assert stall_counts(NEW_STALLS)["pending-compaction-bytes-delays"] == 4
    assert statistics(OLD_STALLS) == {"stalls": 8}
    assert statistics(NEW_STALLS) == {"stalls": 8}
    assert stall_counts("") == {}


def test_a_log_has_a_dump_a_second_with_what_was_counted_until_then() -> None:
    dump = (
        "2026/11/23-00:20:1{}.381213 10981 [db/db_impl/db_impl.cc:1105] ------- DUMPING STATS -------\n"
        "2026/11/23-00:20:1{}.381229 10981 [db/db_impl/db_impl.cc:1107] \n** DB Stats **\n"
        "Uptime(secs): {}.2 total, 1.0 interval\nCumulative stall: 00:00:0.{} H:M:S, 0.0 percent\n"
        "rocksdb.block.cache.hit COUNT : {}\n"
    )
    first, second = dumps("opened\n" + dump.format(4, 4, 1, 0, 100) + dump.format(5, 5, 2, 5, 350))
    assert second.at - first.at == 1.0
    assert (second.statistics["stall_seconds"], second.statistics["uptime"]) == (0.5, 2.2)
    assert second.tickers["block.cache.hit"] - first.tickers["block.cache.hit"] == 250
    assert tickers("") == {} and dumps("no dump") == []
    # Of a window between the two, half of what came in between.
    (own,) = in_windows(
        dump.format(4, 4, 1, 0, 100) + dump.format(5, 5, 2, 5, 350), [(first.at + 0.25, first.at + 0.75)]
    )
    assert [own["stall_seconds"], own["block.cache.hit"]] == pytest.approx([0.25, 125])
    assert "stall_seconds" not in in_windows(dump.format(4, 4, 1, 0, 100), [(first.at, first.at + 1)])[0]


def test_events_tell_flushes_compactions_and_moves_apart() -> None:
    gib = 2**30

    def made(job: int, number: int, keys: int) -> str:
        sizes = dict.fromkeys(("data_size", "index_size", "filter_size", "index_partitions"), 0)
        properties = {**sizes, "compression": "", "num_entries": keys}
        more = {"file_number": number, "file_size": gib, "cf_name": "default", "table_properties": properties}
        return event("table_file_creation", job, 5.0, **more)

    log = made(1, 10, 50) + event("flush_finished", 1, 5.0)
    log += made(2, 11, 50) + event("flush_finished", 2, 5.0)
    log += event("trivial_move", 3, 5.0, destination_level=7, files=1, total_files_size=gib)
    log += made(4, 12, 100) + compacted(4, 5.0, 7, gib, compaction_time_micros=1)
    log += event("table_file_deletion", 5, 5.0, file_number=10)
    log += event("table_file_deletion", 5, 5.0, file_number=11) + 'x EVENT_LOG_v1 {"event": "tab}\n'
    assert written_by_events(log) == {
        "events.flushed_gb": 2.0, "events.written_gb": 3.0, "events.below_gb": 1.0, "events.moved_gb": 1.0,
        "events.moves": 1.0, "events.flushed_keys": 100.0, "events.live_keys": 100.0, "events.levels": 2.0,
        "events.first.written_gb": 1.0, "events.first.moved_gb": 1.0,
    }  # fmt: skip
    assert written_by_events("") == {}
    assert in_windows(log, [(4.0, 5.0), (5.0, 6.0)]) == [
        {"flushed_gb": 0.0, "compacted_gb": 0.0}, {"flushed_gb": 2.0, "compacted_gb": 1.0},
    ]  # fmt: skip


def test_the_operations_of_every_thread_are_read_from_its_own_lines() -> None:
    log = (
        "2026/11/23-00:20:14  ... thread 1: (34000,34000) ops and (33766.9,33766.9) ops/second in (1.006904,1.006904) "
        "seconds\n2026/11/23-00:20:15  ... thread 0: (5000,10000) ops and (4067.8,4104.7) ops/second in "
        "(1.229156,2.436237) seconds\nreadwhilewriting :      26.100 micros/op\n"
    )
    assert RocksDB().thread_totals(log) == {1: [(1.006904, 34000)], 0: [(2.436237, 10000)]}
