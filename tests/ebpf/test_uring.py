"""Queries that read by io_uring or libaio: whose requests these are, and which one is waited for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ebpf.ladder import LadderRequest, ladder_checks
from ebpf.tail import TailRequest
from ground.results.query_records import QueryRecord, Recorded
from ground.system.diskstats import disk_stats
from tests.ebpf.conftest import Build, Disk
from tests.ebpf.windows import FEW, Load, Standin, failed, ladder_of, part_sums, records_of
from tests.programs import FRAMES

pytestmark = [pytest.mark.long, pytest.mark.needs("co-re", "loop")]

_AT_ONCE = 8


@pytest.fixture(scope="session")
def program(compile_once: Build) -> Path:
    return compile_once("uring.c", *FRAMES)


@pytest.fixture
def engine(program: Path, loop: Disk) -> Iterator[Standin]:
    engine = Standin(program, Path(loop.path))
    yield engine
    engine.kill()


def followed(engine: Standin) -> LadderRequest:
    return LadderRequest(engine.pid, 1, "query", kind="batch", query_symbol="read_at_once")


def recorded(engine: Standin, directory: Path, order: str) -> tuple[Recorded, list[QueryRecord]]:
    request = TailRequest(engine.pid, keep="all", kind="batch", query_symbol="read_at_once")
    told, records = records_of(request, directory, engine.orders(order), engine)
    assert len(records) == told.queries
    return told, records


def counting(engine: Standin, order: str, reads: list[int]) -> Load:
    """Carries out the order, and appends how many reads its device counted meanwhile."""
    device = engine.data.stat().st_rdev

    def load() -> None:
        before = disk_reads(device)
        engine.query(order)
        reads.append(disk_reads(device) - before)

    return load


def disk_reads(device: int) -> int:
    return disk_stats()[os.major(device), os.minor(device)].counts.read.requests


@pytest.mark.parametrize(("how", "calls"), [("", 1), ("apart", 2), ("workers", 1), ("large", 1), ("libaio", 2)])
def test_reads_that_are_under_way_at_once_are_one_query(engine: Standin, tmp_path: Path, how: str, calls: int) -> None:
    order = f"{_AT_ONCE} {FEW} {how}"
    counted: list[int] = []
    ladder = ladder_of(followed(engine), tmp_path, counting(engine, order, counted), engine)
    whole, parts = ladder.of_class("several"), ladder.several
    assert parts is not None and whole.count == parts.queries == ladder.finished == FEW
    # A read of 1 MiB may be more than one request; the device says how many.
    assert [parts.requests] == counted and (how == "large" or counted == [_AT_ONCE * FEW])
    # It may sleep once more, woken by one of several.
    assert FEW * calls <= parts.reads <= FEW * (calls + _AT_ONCE)
    assert parts.not_waited < parts.requests and not failed(ladder_checks(ladder))
    told, records = recorded(engine, tmp_path, order)
    assert told.queries == FEW
    if how != "large":
        assert {sum(span.is_request for span in one.spans) for one in records} == {_AT_ONCE}
    assert any(wait.awaited for one in records for wait in one.waits)
    assert {one.reads for one in records} <= set(range(calls, calls + _AT_ONCE + 1))
    sums = part_sums(records)
    assert sums["device"] > 20 * sums["others_device"]


def test_a_read_by_itself_has_stages(engine: Standin, tmp_path: Path) -> None:
    ladder = ladder_of(followed(engine), tmp_path, engine.orders(f"1 {FEW}"), engine)
    assert sum(ladder.of_class(name).count for name in ("one_read", "awake", "disorder", "several")) == FEW
    assert [rung.name for rung in ladder.stages] and ladder.total.count > 0


def test_what_another_thread_submits_is_no_request_of_the_query(engine: Standin, tmp_path: Path) -> None:
    engine.query("1 1 polled")
    told, records = recorded(engine, tmp_path, f"{_AT_ONCE} {FEW} polled")
    assert told.queries == FEW and not any(span.is_request for one in records for span in one.spans)
    sums = part_sums(records)
    assert sums["device"] == 0 and sums["others_device"] + sums["unknown_io"] > 0


def test_of_more_than_a_record_holds_the_last_is_not_known(engine: Standin, tmp_path: Path) -> None:
    counted: list[int] = []
    ladder = ladder_of(followed(engine), tmp_path, counting(engine, f"64 {FEW}", counted), engine)
    assert ladder.several is not None and [ladder.several.requests] == counted == [64 * FEW]
    assert 0 < ladder.losses["beyond"] <= 32 * FEW
    told, records = recorded(engine, tmp_path, f"64 {FEW}")
    assert told.requests_beyond == 32 * FEW
    # Who woke it for a request that is not known is not called late.
    assert part_sums(records)["wake_up"] == 0
