from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collectors.checks import libc_names_check, own_libc, queue_check
from collectors.pmp import pmp_checks
from ground.results.checks import Verdict
from ground.results.off_cpu import StateTotal
from ground.results.pmp import Durations, Lacking, Tally
from ground.system.elf import build_id
from tests.programs import compiled
from tests.viz.observers import off_cpu, pmp, thread


def queues(disk: Path, *lists: str) -> Path:
    for number, cpus in enumerate(lists):
        queue = disk / "mq" / str(number)
        queue.mkdir(parents=True)
        (queue / "cpu_list").write_text(cpus + "\n")
    return disk


@pytest.mark.parametrize(
    ("lists", "verdict", "value"),
    [
        (["0, 1"], Verdict.NOTE, "1 for 2 CPUs (disk)"),
        (["0", "1"], Verdict.OK, "2 for 2 CPUs (disk)"),
        (["0, 1", "2, 3"], Verdict.NOTE, "2 for 4 CPUs (disk)"),
        (["0"], Verdict.OK, "1 for 1 CPU (disk)"),
    ],
)
def test_a_cpu_without_a_queue_of_its_own_is_told(
    tmp_path: Path, lists: list[str], verdict: Verdict, value: str
) -> None:
    check = queue_check(queues(tmp_path / "disk", *lists))
    assert check is not None
    assert (check.verdict, check.value) == (verdict, value)
    assert bool(check.mend) == (verdict is Verdict.NOTE)


def test_a_partition_has_the_queues_of_its_disk_and_a_device_without_queues_is_not_judged(tmp_path: Path) -> None:
    partition = queues(tmp_path / "disk", "0, 1") / "disk1"
    partition.mkdir()
    (partition / "partition").write_text("1\n")
    check = queue_check(partition)
    assert check is not None and check.value == "1 for 2 CPUs (disk)"
    assert queue_check(tmp_path) is None


@pytest.mark.parametrize("disk", [path for path in sorted(Path("/sys/block").glob("*")) if (path / "mq").exists()])
def test_every_disk_of_this_host_is_understood(disk: Path) -> None:
    check = queue_check(disk.resolve())
    assert check is not None and disk.name in check.value


def test_this_process_has_a_c_library_and_without_one_nothing_is_claimed() -> None:
    assert Path(own_libc()).exists() and libc_names_check(own_libc()).verdict in (Verdict.OK, Verdict.NOTE)
    assert libc_names_check("").value == "not known"


def test_names_are_in_the_library_or_in_a_cache_or_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("DEBUGINFOD_CACHE_PATH", raising=False)
    library = compiled("int inside(void) { return 1; }\n", tmp_path / "libc.so", "-shared", "-fPIC", "-Wl,--build-id")
    check = libc_names_check(str(library))
    assert check.verdict is Verdict.OK and ".symtab" in check.value
    debug = tmp_path / "debuginfo"
    shutil.copy(library, debug)
    subprocess.run(["strip", library], check=True)
    check = libc_names_check(str(library))
    assert check.verdict is Verdict.NOTE and "only those that it exports" in check.value
    assert "libc6-dbg" in check.mend or "debuginfod-find debuginfo" in check.mend
    kept = tmp_path / "cache" / "debuginfod_client" / build_id(library.read_bytes()) / "debuginfo"
    kept.parent.mkdir(parents=True)
    shutil.copy(debug, kept)
    check = libc_names_check(str(library))
    assert check.verdict is Verdict.OK and check.value == str(kept)


@pytest.mark.parametrize(
    ("found", "check", "verdict", "says"),
    [
        ({}, "pmp samples", Verdict.OK, "100 of 1 threads"),
        ({"samples": 0}, "pmp samples", Verdict.FAILED, "none"),
        ({"lacking": Lacking(ended=1, did_not_stop=1)}, "pmp samples", Verdict.WARN, "2 lack their stack"),
        ({"late_rounds": 1}, "pmp rate", Verdict.WARN, "1 of 11 rounds left out"),
        ({"reached_hz": 0.6, "unseen": 0}, "pmp rate", Verdict.WARN, "0.6 a second and thread (10 asked for)"),
        ({"reached_hz": 9.7, "unseen": 880}, "pmp rate", Verdict.WARN, "880 more threads without a sample"),
        ({"end": "signal"}, "pmp window", Verdict.FAILED, "a signal ended stacksampler after 1.0 s"),
        ({"end": "target ended"}, "pmp window", Verdict.FAILED, "process 42 ended after 1.0 s"),
        ({"stop": Durations(9, 0, 14_000, 0, 0, 42_000, 68_000)}, "pmp stops", Verdict.OK, "p99 42 us, longest 68 us"),
    ],
)
def test_a_wall_clock_profile_is_judged_by_what_it_lacks(
    found: dict[str, Any], check: str, verdict: Verdict, says: str
) -> None:
    (told,) = (one for one in pmp_checks(replace(pmp(), **found)) if one.name == check)
    assert told.verdict is verdict and says in told.value
    assert [one.name for one in pmp_checks(pmp())] == ["pmp samples"]


@pytest.mark.parametrize(("rounds", "verdict"), [(500, Verdict.WARN), (5, Verdict.OK)])
def test_states_by_samples_are_held_against_the_schedulers(rounds: int, verdict: Verdict) -> None:
    """D of 33 % where the scheduler says 64: of five looks that is no difference."""
    sampled = {"R": Tally(34, 34 * 10**7), "S": Tally(33, 33 * 10**7), "D": Tally(33, 33 * 10**7)}
    threads = [thread(1, "db_bench", 0, io=640, condition=360)]
    off = replace(off_cpu(), threads=threads, states={"io": StateTotal(640 * 10**6, 9)})
    checks = pmp_checks(replace(pmp(), states=sampled, rounds=rounds), off)
    (check,) = (one for one in checks if one.name == "pmp states")
    assert (check.verdict, check.value) == (verdict, "R 34% (off-CPU 0%), D 33% (off-CPU 64%)")
