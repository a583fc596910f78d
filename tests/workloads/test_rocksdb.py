from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ground.errors import HostError, MeasurementError, UsageError
from ground.results.writes import columns
from tests.workloads.test_artifact import build
from tests.workloads.test_statistics import NEW_HEAD, OLD_HEAD, OLD_STALLS, TABLE
from workloads.engine import LevelSize, Tree
from workloads.engines.rocksdb.engine import RocksDB
from workloads.scales import DatabaseShape, Sizing
from workloads.steps import StepParameters

# db_bench 7.8.3 --benchmarks=fillseq,waitforcompaction,levelstats ...
LEVELS = """
Level Files Size(MB)
--------------------
  0        2       63
  1        0        0
  6        1       32
  7       17      317


Level Files Size(MB)
--------------------
  0        0        0
  1        0        0
  7       21      413

"""
RESULT = (
    "readrandom   :      87.537 micros/op 11423 ops/sec 8.053 seconds 91999 operations;    "
    "4.6 MB/s (91999 of 91999 found)\n"
)

BUILD = build(Path("/bin/db_bench"))


def parameters(tmp_path: Path) -> StepParameters:
    return StepParameters(
        Sizing(DatabaseShape(1000), 64 << 20), tmp_path, 3, 42, duration=7, report_file=tmp_path / "r.csv"
    )


def test_overwriting_a_tenth_makes_the_l0_files_that_start_an_automatic_compaction(tmp_path: Path) -> None:
    for keys in (800_000, 10_000_000, 100_000_000):
        shape = DatabaseShape(keys)
        given = StepParameters(Sizing(shape, 64 << 20), tmp_path, 1, 1, 0, tmp_path / "r.csv")
        argv = RocksDB().command(BUILD, "overwritesome", given)
        flags = dict(word.removeprefix("--").split("=", 1) for word in argv[1:])
        files = int(flags["writes"]) * (shape.key_size + shape.value_size) / int(flags["write_buffer_size"])
        assert files >= 2 * int(flags["level0_file_num_compaction_trigger"])
        # One memtable being filled and one being flushed: none waits to be merged with the next into one file.
        assert flags["max_write_buffer_number"] == "2"


def test_the_last_level_table_counts_and_empty_levels_do_not() -> None:
    assert RocksDB().parse_tree(LEVELS) == Tree([LevelSize(7, 21, 413)], None)
    with pytest.raises(MeasurementError, match="no level table"):
        RocksDB().parse_tree("readrandom : ...")


# db_bench 7.8.3 --benchmarks=memstats,...
MEMTABLES = """
rocksdb.num-immutable-mem-table: 0
rocksdb.cur-size-active-mem-table: 2048
rocksdb.cur-size-all-mem-tables: 2048
rocksdb.size-all-mem-tables: 2048
rocksdb.num-entries-active-mem-table: {active}
rocksdb.num-entries-imm-mem-tables: {immutable}
"""


@pytest.mark.parametrize(("active", "immutable"), [(0, 0), (20, 0), (0, 7)])
def test_what_is_left_in_the_memtables_is_read(active: int, immutable: int) -> None:
    earlier = MEMTABLES.format(active=900, immutable=9)
    log = earlier + MEMTABLES.format(active=active, immutable=immutable) + LEVELS
    assert RocksDB().parse_tree(log).memtable_entries == active + immutable


def test_a_configurations_flags_win_over_the_steps(tmp_path: Path) -> None:
    engine = RocksDB()
    buffered = engine.configurations()["iobuf"]
    assert (buffered.direct, engine.configurations()["iodir"].direct) == (False, True)
    argv = engine.command(BUILD, "readrandom", replace(parameters(tmp_path), flags=buffered.flags))
    assert "--use_direct_reads=false" in argv
    assert len([word for word in argv if word.startswith("--use_direct_reads=")]) == 1
    assert engine.configurations()["iodir_noalign"].block_align is False
    assert engine.configurations()["byrx"].cached_by_engine is True


HISTOGRAM = """
Microseconds per read:
Count: 91999 Average: 87.5371  StdDev: 52.59
Min: 2  Median: 81.5325  Max: 5353
Percentiles: P50: 81.53 P75: 99.05 P99: 307.74 P99.9: 562.33 P99.99: 856.15
"""
# The same line as db_bench 10 and 11 print it: a wider count, another rate, readrandom2's own benchmark name.
NEWER = (
    "readrandom   :     101.003 micros/op 59402 ops/sec 600.007 seconds 35641992 operations;   23.8 MB/s "
    "(5940331 of 5940331 found)\n"
)


def test_closing_lines_of_old_and_new_versions_are_read_alike() -> None:
    for workload in ("readrandom", "readrandom2", "readrandom3"):
        old = RocksDB().parse_result("noise\n" + RESULT + HISTOGRAM, workload)
        assert old is not None
        assert (old.micros_per_op, old.ops_per_second, old.seconds) == (87.537, 11423.0, 8.053)
        assert (old.operations, old.found, old.reads, old.mb_per_second) == (91999, 91999, 91999, 4.6)
        assert (old.p50, old.p99, old.p99_9, old.p99_99, old.pmax) == (81.53, 307.74, 562.33, 856.15, 5353.0)
        new = RocksDB().parse_result(NEWER + HISTOGRAM.replace("81.53 P75", "99.5 P75"), workload)
        assert new is not None
        assert (new.ops_per_second, new.mb_per_second, new.p50, new.found) == (59402.0, 23.8, 99.5, 5940331)
    bare = RocksDB().parse_result(RESULT, "readrandom")
    assert bare is not None and bare.p50 is None
    assert RocksDB().parse_result(RESULT, "multireadrandom") is RocksDB().parse_result("", "readrandom") is None


# Of a load; its statistics are those of test_statistics.
LOAD = """fillseq      :       2.346 micros/op 426182 ops/sec 2.346 seconds 1000000 operations;  170.7 MB/s
Microseconds per write:
Count: 1000000 Average: 2.3463  StdDev: 155.11
Min: 0  Median: 0.8711  Max: 42521
Percentiles: P50: 0.87 P75: 1.35 P99: 4.92 P99.9: 37.40 P99.99: 6600.00
"""


@pytest.mark.parametrize(("head", "more"), [(OLD_HEAD, ""), (NEW_HEAD, "9.9")], ids=["7.8", "10.3"])
def test_what_a_load_wrote_is_read_from_old_and_new_versions(head: str, more: str, tmp_path: Path) -> None:
    def figures(log: str) -> dict[str, float]:
        return {**RocksDB().figures(log, "load", tmp_path), "entry_bytes": 420.0, "du_kib": 8.0}

    log = LOAD + TABLE.format(head=head, more=more, stalls=OLD_STALLS)
    got = figures(log)
    row = columns(got)
    assert row is not None
    names = ("size_gb", "flushed_gb", "sum_gb", "stall_seconds")
    assert tuple(got[name] for name in names) == (180.05 / 1024, 0.199, 0.82, 64.672)
    assert (row["ops/sec"], row["mb/sec"], row["W-Amp"], row["usec/op"]) == ("426182", "170.7", "4.1", "2.3")
    assert (row["W-MB/s"], row["Uptime"], row["p50"]) == ("66.6", "12.6", "0.9")
    assert (row["p75"], row["p99.99"]) == ("1.4", "6600.0")
    # What flushes wrote is part of it, but is printed with one digit more.
    row = columns(figures(log.replace("0.82 GB write", "0.19 GB write")))
    assert row is not None and row["W-Amp"] == "1.0"
    assert columns(figures(log.partition("** DB Stats **")[0])) is None


def test_every_flag_of_a_workload_is_explicit_and_no_argument_is_stray(tmp_path: Path) -> None:
    argv = RocksDB().command(BUILD, "readrandom", parameters(tmp_path))
    assert all(word.startswith("--") and "=" in word for word in argv[1:])
    assert not [word for word in argv if "{" in word]
    flags = dict(word[2:].split("=", 1) for word in argv[1:])
    assert len(flags) == len(argv) - 1  # none is given twice
    expected = {
        "seed": "42", "threads": "3", "duration": "7", "num": "1000", "cache_size": str(64 << 20),
        "cache_numshardbits": "4", "use_direct_reads": "true", "use_existing_db": "true", "block_size": "8192",
        "bloom_bits": "10", "report_interval_seconds": "1", "benchmarks": "readrandom,stats",
    }  # fmt: skip
    assert {name: flags[name] for name in expected} == expected


@pytest.mark.long
@pytest.mark.needs("db_bench")
def test_this_db_bench_knows_every_flag_of_every_step(tmp_path: Path) -> None:
    engine = RocksDB()
    found = engine.inspect(engine.find_binary(None))
    assert found.flags is not None and {"benchmarks", "num", "seed", "use_direct_reads"} <= found.flags
    for step in [*engine.steps(), *engine.workloads()]:
        names = [word[2:].partition("=")[0] for word in engine.command(found, step, parameters(tmp_path))[1:]]
        assert set(names) <= found.flags, step


def test_a_flag_that_a_version_lacks_is_left_out_only_where_that_changes_nothing(tmp_path: Path) -> None:
    engine = RocksDB()
    argv = engine.command(BUILD, "readrandom3", parameters(tmp_path))
    flags = frozenset(word[2:].partition("=")[0] for word in argv[1:])
    older = replace(BUILD, flags=flags - {"cache_low_pri_pool_ratio"})
    without = engine.command(older, "readrandom3", parameters(tmp_path))
    assert set(argv) - set(without) == {"--cache_low_pri_pool_ratio=0"}
    assert engine.left_out(flags - {"cache_low_pri_pool_ratio"}).keys() == {"cache_low_pri_pool_ratio"}
    other = replace(BUILD, flags=flags - {"optimize_filters_for_hits"})
    with pytest.raises(UsageError, match="does not know --optimize_filters_for_hits of step readrandom3") as caught:
        engine.command(other, "readrandom3", parameters(tmp_path))
    assert caught.value.exit_code == 2


@pytest.mark.long
@pytest.mark.needs("db_bench")
def test_debians_build_is_seen_for_what_it_is(tmp_path: Path) -> None:
    engine = RocksDB()
    build = engine.inspect(engine.find_binary(None))
    assert build.version[0].isdigit()
    assert build.code.name.startswith("librocksdb.so")
    # It destroys what is in the directory that it is given.
    argv = [str(build.path), "--benchmarks=", f"--db={tmp_path}"]
    banner = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert build.assertions == ("Assertions are enabled" in banner.stdout + banner.stderr)


def test_a_binary_that_is_no_db_bench_or_cannot_run_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="did not run a one-operation job"):
        RocksDB().inspect(Path("/bin/true"))
    (tmp_path / "file").write_text("x")
    for name, reason in (("", "is a directory"), ("no", "does not exist"), ("file", "executed")):
        with pytest.raises(UsageError, match=reason):
            RocksDB().find_binary(str(tmp_path / name))
