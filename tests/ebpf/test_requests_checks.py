"""What is said of the figures of `requests`, without a kernel that runs its programs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ebpf.request_cost import cost_checks
from ebpf.requests import RequestsOptions, attribution_checks, requests_observer
from ground.results.checks import Check, Verdict
from ground.results.io_latency import DiskWindow, ProgramCost
from ground.results.request_attribution import RequestAttribution
from ground.system.diskstats import DiskCount
from ground.system.process import Children
from tests.viz.observers import attributed, attribution


def said(found: RequestAttribution) -> dict[str, Check]:
    return {check.name.removeprefix("requests "): check for check in attribution_checks(found)}


def test_figures_that_the_device_confirms_are_ok() -> None:
    checks = said(attribution())
    assert {name: check.verdict for name, check in checks.items()} == {"losses": Verdict.OK, "coverage": Verdict.OK}
    assert checks["coverage"].value == (
        "477 reads of 477 (3,907,584 of 3,907,584 B), 30 writes of 30 (212,992 of 212,992 B), 4 flushes of 4 "
        "in diskstats"
    )


@pytest.mark.parametrize("field", ["read", "write", "flush"])
def test_requests_that_lack_are_a_failure(field: str) -> None:
    disk = attribution().diskstats
    assert disk is not None
    many = replace(disk.outer, **{field: DiskCount(5000, 0, 5000 * 16)})
    assert said(replace(attribution(), diskstats=DiskWindow(many, many)))["coverage"].verdict is Verdict.FAILED


def test_bytes_that_lack_are_a_failure_although_the_requests_are_there() -> None:
    disk = attribution().diskstats
    assert disk is not None
    larger = replace(disk.outer, read=DiskCount(477, 0, 477 * 16 * 1000))
    assert said(replace(attribution(), diskstats=DiskWindow(larger, larger)))["coverage"].verdict is Verdict.FAILED


def test_writes_that_device_mapper_counts_twice_are_said() -> None:
    found = attribution()
    disk = found.diskstats
    assert disk is not None
    more = replace(disk.outer, write=replace(disk.outer.write, requests=34))
    mapped = replace(
        found,
        device=replace(found.device, name="dm-0"),
        diskstats=DiskWindow(more, more),
        facts={"flushing_writes": 4},
    )
    check = said(mapped)["coverage"]
    assert check.verdict is Verdict.OK and "30 writes and 4 again that flush first of 34" in check.value


def test_a_device_that_is_not_counted_is_said_so() -> None:
    check = said(replace(attribution(), diskstats=None))["coverage"]
    assert check.verdict is Verdict.NOTE and check.mend == "echo 1 > /sys/block/vda/queue/iostats"


@pytest.mark.parametrize(
    ("losses", "verdict"),
    [({"no_end": 1}, Verdict.NOTE), ({"missed": 1}, Verdict.NOTE), ({"no_start": 9}, Verdict.WARN),
     ({"no_start": 40}, Verdict.FAILED), ({"lost_record": 1}, Verdict.FAILED),
     ({"no_stack": 2}, Verdict.NOTE), ({"not_kept": 1}, Verdict.FAILED)],
)  # fmt: skip
def test_losses(losses: dict[str, int], verdict: Verdict) -> None:
    assert said(replace(attribution(), losses=losses))["losses"].verdict is verdict


def test_what_is_nobody_s_and_what_is_not_listed_is_said() -> None:
    rows = [*attribution().rows, attributed("read", "unknown", 200)]
    found = said(
        replace(attribution(), rows=rows, unlisted=3, moved=5, unnamed=7, several_files=2, notes=["no MANIFEST"])
    )
    assert found["unknown"].verdict is Verdict.WARN
    assert "200 of" in found["unknown"].value and found["files"].value == "no MANIFEST"
    assert {"unlisted", "moved", "unnamed", "merged"} <= found.keys()
    without = said(replace(attribution(), rows=rows, facts={"direct_calls_seen": 0}))["unknown"]
    assert "does not show the files of direct IO" in without.means
    assert said(replace(attribution(), failed="it may not be read"))["files"].verdict is Verdict.WARN


def test_the_cost_of_a_request_is_said_and_an_idle_device() -> None:
    (told,) = cost_checks("requests", [ProgramCost("io_start", 500, 511_000)], 511, 511 * 40_000.0)
    assert (told.name, told.verdict) == ("requests cost", Verdict.OK)
    # The programs alone: what it costs is not less, and nobody measured how much more.
    own = "at least 1.00 us of CPU per request, by the kernel's account of the programs alone"
    assert told.value == f"{own}: 2.5 % of the 40.0 us that one takes"
    (dear,) = cost_checks("requests", [ProgramCost("io_start", 500, 511_000)], 511, 511 * 4_000.0)
    assert (dear.verdict, "slower by at least as much" in dear.means) == (Verdict.NOTE, True)
    assert not [
        *cost_checks("requests", [], 511, 1.0),
        *cost_checks("requests", [ProgramCost("io_start", 0, 0)], 0, 0.0),
    ]
    totals = {name: replace(total, device_ns=511 * 40_000) for name, total in attribution().totals.items()}
    cost = [ProgramCost("io_start", 511, 511_000)]
    assert said(replace(attribution(), costs=cost, totals=totals))["cost"].verdict is Verdict.OK
    totals = {name: replace(total, requests=0) for name, total in attribution().totals.items()}
    idle = replace(attribution(), rows=[], totals=totals, diskstats=None)
    assert said(idle)["requests"].value == "none ended on vda in 5.0 s"


def test_its_program_is_told_where_rows_and_stacks_go(tmp_path: Path) -> None:
    request = RequestsOptions([7, 8], (254, 0), True, 4)
    words = requests_observer(request, Children(), tmp_path / "requests.json")._arguments
    assert words[:2] == ["--device", "254:0"] and words.count("--pid") == 2 and "--children" in words
    assert words[-4:] == ["--reasons", "4", "--recording", str(tmp_path / "requests.stacks.data")]
