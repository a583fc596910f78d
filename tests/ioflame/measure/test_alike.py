"""What may differ between arms, and what bars the verdict; which machine it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from ground.results.comparison import BUILD, Arm, Block, BlockWindow, Comparison, Factor, Plan
from ground.results.record import Command, RunRecord
from ground.system.host import host_facts
from ioflame.measure.compare.alike import tell_apart
from ioflame.measure.compare.disturbed import BOUNDS, bounds_of, passed_bounds
from tests.records import window
from tests.viz.runs import record


def comparison(factor: str) -> Comparison:
    plan = Plan("frozen", "shared", 1, 0.02, [4], 16, 2, 2.0, 1.0, 2.0)
    arms = [Arm(name, name, 1) for name in ("A", "B")]
    return Comparison("0", "now", "rocksdb", "readrandom", Factor(factor, ["a", "b"]), plan, arms)


def run(artifact: str, *flags: str) -> RunRecord:
    ran = Command("db_bench readrandom", ["db_bench", "LD_PRELOAD=/x", *flags], 1, 0.0, 1.0, "exit code 0")
    return record(tools={"engine": "7", "engine_artifact": artifact}, commands=[ran])


@pytest.mark.parametrize(
    ("factor", "one", "other", "differing", "barred"),
    [
        (BUILD, run("a"), run("b"), ["tool engine_artifact"], False),
        (BUILD, run("a", "--cache_size=1"), run("b", "--cache_size=2"), ["setting", "artifact"], True),
        # The older client lacks it: a part of its build, and said.
        (BUILD, run("a", "--cache_type=lru"), run("b"), ["setting", "artifact"], False),
        ("cache_size", run("a", "--cache_size=1"), run("a", "--cache_size=2"), ["setting"], False),
        ("cache_size", run("a", "--cache_size=1"), run("b", "--cache_size=2"), ["setting", "artifact"], True),
        ("nothing", run("a"), run("a"), [], False),
    ],
)
def test_only_the_factor_may_differ(
    factor: str, one: RunRecord, other: RunRecord, differing: list[str], barred: bool
) -> None:
    made = comparison(factor)
    tell_apart(made, {"A": one, "B": other})
    assert len(made.differing) == len(differing)
    assert all(any(word in name for name in made.differing) for word in differing)
    assert bool(made.not_comparable) == barred
    tell_apart(made, {"A": one, "B": one})
    assert made.not_comparable == [] and made.differing == {}


def test_the_factor_is_not_besides_itself_and_a_library_is_its_build_id() -> None:
    def of(client: str, snappy: str, artifact: str, *flags: str) -> RunRecord:
        made = run(artifact, *flags)
        made.tools |= {"engine_binary": client, "library libsnappy.so": snappy}
        made.options["db_bench"] = client
        return made

    made = comparison(BUILD)
    made.arms[0].value, made.arms[1].value = "/a", "LD_LIBRARY_PATH=/b /b"
    made.arms[1].environment["LD_LIBRARY_PATH"] = "/b"
    tell_apart(made, {"A": of("/a", "libsnappy.so.1.1.9 ade1", "a"), "B": of("/b", "libsnappy.so.1 ade1", "b")})
    # What an arm is: its client by path and hash, and no library of the same bits.
    assert set(made.differing) == {"option db_bench", "tool engine_binary", "tool engine_artifact"}
    assert made.besides == {}
    tell_apart(made, {"A": of("/a", "libsnappy.so.1 ade1", "a", "LD_LIBRARY_PATH=/a", "TZ=a"),
                      "B": of("/b", "libsnappy.so.1 0b1d", "b", "LD_LIBRARY_PATH=/b", "TZ=b")})  # fmt: skip
    assert "tool library libsnappy.so" in made.differing
    assert set(made.besides) == {"environment TZ"}
    made = comparison("cache_size")
    tell_apart(made, {"A": of("/a", "x 1", "a", "--cache_size=1"), "B": of("/a", "x 2", "a", "--cache_size=2")})
    assert set(made.besides) == {"tool library libsnappy.so"} and len(made.differing) == 2


def test_a_block_is_disturbed_by_counters_that_see_no_query() -> None:
    mib = 1 << 20
    quiet = window("plain", 2.0, queries=1, storage_read_bytes=100 * mib, process_read_bytes=99 * mib)
    stolen = window("plain", 2.0, queries=1, steal_ns=2_000_000_000)
    foreign = window("plain", 2.0, queries=1, storage_read_bytes=100 * mib, process_read_bytes=70 * mib)
    writes = window("plain", 2.0, queries=1, process_write_bytes=20 * mib)

    def seen(*windows: object, bounds: dict[str, float] = BOUNDS) -> str:
        slots = [BlockWindow("A", place, one) for place, one in enumerate(windows)]  # type: ignore[arg-type]
        return passed_bounds(Block(["A"] * len(slots), slots), bounds)

    cached = window("plain", 2.0, queries=1, storage_read_bytes=100 * mib)
    assert seen(quiet, cached) == ""
    assert seen(quiet, foreign) == "foreign reads 30 % in window 2 (A)"
    assert seen(writes) == "writes 10 MiB/s in window 1 (A)"
    assert seen(stolen).startswith("steal ")
    # What a workload that writes does itself disturbs nobody.
    assert seen(writes, bounds=bounds_of(writes=True)) == ""
    assert seen(foreign, bounds=bounds_of(writes=True)).startswith("foreign reads ")
    assert seen(writes, bounds=bounds_of(writes=False)) == "writes 10 MiB/s in window 1 (A)"


def test_a_machine_is_told_by_a_hash_of_its_number() -> None:
    facts = host_facts()
    number = Path("/etc/machine-id")
    if number.exists() and number.read_text().strip():
        assert number.read_text().strip() not in repr(facts)
        assert len(facts["host_id"]) == 16
    assert facts["boot_id"] in Path("/proc/sys/kernel/random/boot_id").read_text()
    assert set(facts) > {"microcode", "mitigations", "smt", "transparent_hugepages"}
