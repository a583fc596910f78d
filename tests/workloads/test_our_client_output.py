"""What engines read of our client's output, of outputs that it printed once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ground.errors import MeasurementError
from tests.places import DATA
from workloads.engine import LevelSize, Tree
from workloads.engines.leveldb.engine import LevelDB
from workloads.engines.lmdb.engine import LMDB
from workloads.our_client import lines_of, result_of, totals_of
from workloads.registry import engine_named
from workloads.scales import DatabaseShape, Sizing
from workloads.steps import StepParameters
from workloads.tables import last_table

ON_LEVELDB, ON_LMDB = LevelDB(), LMDB()
LEVELDB_LOG = (DATA / "clients" / "leveldb.log").read_text(encoding="utf-8")
LMDB_LOG = (DATA / "clients" / "lmdb.log").read_text(encoding="utf-8")


def test_the_tree_of_leveldb_is_that_of_its_table_without_levels_that_are_empty() -> None:
    assert ON_LEVELDB.parse_tree(LEVELDB_LOG) == Tree([LevelSize(2, 12, 2)], 0)
    with pytest.raises(MeasurementError, match="printed no level table"):
        ON_LEVELDB.parse_tree("\n".join(line for line in LEVELDB_LOG.splitlines() if line.startswith("{")))


def test_what_leveldb_compacted_is_the_sum_over_its_levels() -> None:
    assert ON_LEVELDB.compacted_gb(LEVELDB_LOG) == 2 / 1024
    assert ON_LEVELDB.statistics(LEVELDB_LOG) == {"compacted_gb": 2 / 1024}
    assert ON_LEVELDB.compacted_gb("") is None and ON_LEVELDB.statistics("") == {}


def test_the_tree_of_lmdb_is_the_pages_in_use() -> None:
    # 684 pages of 4 KiB
    assert ON_LMDB.parse_tree(LMDB_LOG) == Tree([LevelSize(1, 1, 2)], 0)
    assert ON_LMDB.compacted_gb(LMDB_LOG) == 0 and ON_LMDB.compacted_gb("") is None
    with pytest.raises(MeasurementError, match="printed no tree"):
        ON_LMDB.parse_tree(LEVELDB_LOG)


@pytest.mark.parametrize(("keys", "mib"), [(1000, 64), (1_000_000, 1602)])
def test_the_map_of_lmdb_has_room_for_leaves_that_are_half_full(keys: int, mib: int) -> None:
    parameters = StepParameters(Sizing(DatabaseShape(keys), 1 << 20), Path("/db"), 1, 1, 5, Path("/r.csv"))
    assert ON_LMDB.placeholders(parameters)["map_size"] == mib << 20


@pytest.mark.parametrize(
    ("name", "own", "others"),
    [
        ("leveldb", ("000005.ldb", "MANIFEST-000004", "CURRENT", "LOG.old"), ("a.ldb", "OPTIONS-000007", "LOG.txt")),
        ("lmdb", ("data.mdb", "lock.mdb"), ("data.mdb.old", "other.mdb")),
    ],
)
def test_files_of_a_database_are_told_from_those_of_others(name: str, own: list[str], others: list[str]) -> None:
    engine = engine_named(name)
    assert all(map(engine.is_database_file, own)) and not any(map(engine.is_database_file, others))


def test_the_result_of_a_benchmark_is_that_of_its_readers() -> None:
    for engine, log in ((ON_LEVELDB, LEVELDB_LOG), (ON_LMDB, LMDB_LOG)):
        found = engine.parse_result(log, "readrandom")
        assert found is not None and (found.operations, found.found, found.reads) == (10_000, 10_000, 10_000)
        # Two threads: an operation takes twice the time between two of them.
        assert found.micros_per_op == pytest.approx(2e6 / found.ops_per_second)
        assert found.mb_per_second == pytest.approx(10_000 * 100 / 2**20 / found.seconds)
        assert found.p50 and found.p99 and found.pmax and found.p50 < found.p99 < found.pmax
    writing = result_of(LEVELDB_LOG, "readwhilewriting")
    assert writing is not None and writing.operations == 10_000
    assert result_of(LEVELDB_LOG, "fillseq") and result_of(LEVELDB_LOG, "overwrite") is None


def test_percentiles_of_a_rate_are_those_from_its_schedule_if_it_was_held() -> None:
    role: dict[str, object] = {"threads": 1, "operations": 9, "reads": 9, "found": 9, "bytes": 9, "usable": True}
    role["ops_per_second"] = 4.5
    role |= {"latency_from_call_us": {"get": {"p99": 5.0}}, "latency_from_schedule_us": {"get": {"p99": 70.0}}}

    def p99(**more: object) -> float | None:
        line = {"benchmark": "readrandom", "seconds": 2.0, "roles": {"readers": {**role, **more}}}
        found = result_of(json.dumps(line, separators=(",", ":")), "readrandom")
        assert found is not None and found.operations == 9
        return found.p99

    assert (p99(), p99(usable=False)) == (70.0, None)
    # Several kinds of operation have none in common.
    assert p99(latency_from_schedule_us={"get": {"p99": 5.0}, "put": {"p99": 6.0}}) is None


def test_a_load_has_no_reads_and_so_no_share_that_was_found() -> None:
    found = result_of(LMDB_LOG, "fillseq")
    assert found is not None and (found.operations, found.found, found.reads) == (20_000, None, None)


def test_operations_of_writer_and_readers_are_told_apart_where_both_are() -> None:
    (writer,), (readers,) = ON_LEVELDB.thread_totals(LEVELDB_LOG)[0], ON_LEVELDB.thread_totals(LEVELDB_LOG)[1]
    assert writer[0] == readers[0] and readers[1] == 10_000 and writer[1] > 0
    assert totals_of(LMDB_LOG) == {}


def test_lines_that_are_no_json_are_passed_over() -> None:
    assert [one["version"] for one in lines_of(LEVELDB_LOG, "about")] == ["1.23", "1.23"]
    assert lines_of('{"about": 1}\n{"about": cut\n[1]\n{"other": 2}\nwords', "about") == [1]


def test_the_last_table_counts_and_ends_at_an_empty_line() -> None:
    log = "Level Size\n 0 1 MB\n\nLevel Size\n----\n 0 412.55 MB\n 1 2 MB\nshort\n\n 2 9 MB\n"
    assert last_table(log, "Level", "Size") == [{"Level": "0", "Size": "412.55MB"}, {"Level": "1", "Size": "2MB"}]
    assert last_table(log, "Level", "Files") == []
