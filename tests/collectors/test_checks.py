from __future__ import annotations

from pathlib import Path

import pytest

from collectors.checks import queue_check
from ground.results.checks import Verdict


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


def test_a_partition_has_the_queues_of_its_disk(tmp_path: Path) -> None:
    partition = queues(tmp_path / "disk", "0, 1") / "disk1"
    partition.mkdir()
    (partition / "partition").write_text("1\n")
    check = queue_check(partition)
    assert check is not None and check.value == "1 for 2 CPUs (disk)"


def test_a_device_without_queues_is_not_judged(tmp_path: Path) -> None:
    assert queue_check(tmp_path) is None


@pytest.mark.parametrize("disk", [path for path in sorted(Path("/sys/block").glob("*")) if (path / "mq").exists()])
def test_every_disk_of_this_host_is_understood(disk: Path) -> None:
    check = queue_check(disk.resolve())
    assert check is not None and disk.name in check.value
