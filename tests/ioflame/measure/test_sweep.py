"""What a sweep takes of the client's closing line, and which workloads it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from ground.errors import UsageError
from ioflame.measure.sweep import check_swept, offered_of
from workloads.registry import engine_named

LATENCY = {"p50": 100.0, "p75": 110.0, "p99": 700.0, "p99_9": 1700.0, "max": 2400.0}


def closing(**more: Any) -> dict[str, Any]:
    from_call = {"get": {"p50": 9.0, "p99": 9.0, "p99_9": 9.0}}
    role = {"operations": 1000, "ops_per_second": 100.0, "latency_from_call_us": from_call}
    return {"seconds": 10.0, "roles": {"readers": {**role, **more}}}


def test_latency_is_from_the_schedule_and_cpu_is_divided_by_the_queries() -> None:
    one = offered_of(closing(latency_from_schedule_us={"get": LATENCY}, late_us={"p99": 90.0}), 100.0, 0.5)
    assert one.latency == {"p50": 100.0, "p99": 700.0, "p99_9": 1700.0}
    assert (one.rate, one.per_second, one.late, one.cpu, one.overloaded) == (100.0, 100.0, 90.0, 500.0, False)


def test_what_is_overloaded_has_no_latency_though_calls_have() -> None:
    assert offered_of(closing(overloaded=True), 100.0, 0.5).latency == {}


def test_of_several_kinds_the_worst_is_taken() -> None:
    kinds = {"get": LATENCY, "seek": {**LATENCY, "p99": 900.0}}
    assert offered_of(closing(latency_from_schedule_us=kinds), 100.0, 0.5).latency["p99"] == 900.0


def test_without_a_query_there_is_no_cost_of_one() -> None:
    assert offered_of(closing(operations=0), 100.0, 0.5).cpu == 0.0


@pytest.mark.parametrize("workload", ["overwrite", "fillseq"])
def test_a_workload_that_only_writes_is_refused(workload: str) -> None:
    with pytest.raises(UsageError, match=f"{workload} only writes") as refused:
        check_swept(engine_named("rocksdb", client="ioflame"), workload)
    assert "readrandom" in refused.value.mend and "readwhilewriting" in refused.value.mend
    check_swept(engine_named("rocksdb", client="ioflame"), "readwhilewriting")
