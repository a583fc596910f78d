"""The bpftrace ladders against the CO-RE one, both of the same window of db_bench."""

from __future__ import annotations

import re
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from ebpf.bpftrace import BpftraceRun, read_maps
from ebpf.ladder import LadderRequest, ladder_checks, ladder_observer
from ioflame.checks import Verdict
from ioflame.ladder import STAGES, Ladder, read_ladder
from ioflame.process import Children
from tests.ebpf.conftest import DIRECT

pytestmark = pytest.mark.needs("co-re", "bpftrace", "db_bench")

_SECONDS = 2.0
# The kernel skips a program of bpftrace's on a CPU that is in the middle of another: the end of a request that comes
# just then. One in eight on two busy CPUs with four threads.
_LEAST = 0.75
# As ladder.bt's head says to look for them.
_QUERY = re.compile(r"\b_ZN7rocksdb6DBImpl3GetE\w*basic_string\w*$", re.MULTILINE)
_READER = re.compile(r"\b_ZNK7rocksdb22RandomAccessFileReader4ReadE\w*$", re.MULTILINE)


def agree(ours: Ladder, theirs: dict[str, float]) -> None:
    """The same parts, the same two largest, and the same means but for what each one's probes add to the other's parts.

    Where both are at one place, one runs after the other: a few us of a part, and less than 5 % of the whole. Parts
    that are nearer to each other than that may change places.
    """
    mine = {rung.name: rung.mean_ns for rung in ours.stages}
    assert list(theirs) == list(mine)
    added = 0.05 * sum(mine.values())
    second = sorted(mine.values())[-2]
    assert all(mine[name] >= second - 2 * added for name in sorted(theirs, key=lambda name: -theirs[name])[:2])
    for name, mean in mine.items():
        assert theirs[name] == pytest.approx(mean, rel=0.25, abs=added), (name, mine, theirs)
    assert sum(theirs.values()) == pytest.approx(sum(mine.values()), rel=0.2)


@pytest.mark.parametrize("reader", [(1, *DIRECT), (4, *DIRECT)], indirect=True)
def test_the_script_for_people_has_the_same_parts(reader: int, tmp_path: Path) -> None:
    maps = Path(f"/proc/{reader}/maps").read_text()
    library = next(line.split()[-1] for line in maps.splitlines() if "librocksdb" in line)
    symbols = subprocess.run(["nm", "-D", library], capture_output=True, text=True, check=True).stdout
    (query,), (function,) = _QUERY.findall(symbols), _READER.findall(symbols)
    with Children() as children:
        core = ladder_observer(LadderRequest(reader, 1, "query"), children, tmp_path / "ladder.json")
        core.attach()
        arguments = [reader, library, query, function, 0, "CONTROL"]
        script = BpftraceRun(children, "ladder", arguments, tmp_path / "script.json")
        script.attach()
        core.open()
        script.open()
        time.sleep(_SECONDS)  # the window itself
        script.close()
        core.close()
        script.detach()
        core.detach()
    found = read_maps(script.text)
    queries = sum(count for _, count in found["queries"])
    odd = sum(count for _, count in found.get("odd", []))
    sums: Counter[str] = Counter()
    for (name,), ns in found["ns"]:
        sums[name.split()[1]] += ns
    total = sums.pop("total")
    assert sum(sums.values()) == total
    ladder = read_ladder(tmp_path / "ladder.json")
    # Of the queries that read once; what the kernel keeps from it, it counts.
    assert _LEAST * ladder.total.count <= queries <= ladder.total.count
    assert queries + odd >= 0.98 * ladder.total.count
    agree(ladder, {name: sums[name] / queries for name in STAGES})


@pytest.mark.parametrize("reader", [(1, *DIRECT), (4, *DIRECT)], indirect=True)
def test_the_backend_has_the_same_parts(reader: int, tmp_path: Path) -> None:
    with Children() as children:
        observers = [
            ladder_observer(LadderRequest(reader, 1, "syscall", backend=name), children, tmp_path / f"{name}.json")
            for name in ("co-re", "bpftrace")
        ]
        for observer in observers:
            observer.attach()
        for observer in observers:
            observer.open()
        time.sleep(_SECONDS)  # the window itself
        for observer in observers:
            observer.close()
        for observer in observers:
            observer.detach()
    core, script = (read_ladder(tmp_path / f"{name}.json") for name in ("co-re", "bpftrace"))
    assert not [check for check in ladder_checks(script) if check.verdict is Verdict.FAILED]
    assert sum(rung.sum_ns for rung in script.stages) == script.total.sum_ns
    assert script.queries == pytest.approx(core.queries, rel=0.02)
    assert script.total.count >= _LEAST * core.total.count
    assert script.total.count + script.of_class("disorder").count >= 0.98 * core.total.count
    assert script.threads == core.threads
    agree(core, {rung.name: rung.mean_ns for rung in script.stages})
    for percent in (50, 90, 99):
        ours, theirs = (ladder.total.histogram.percentile(percent) for ladder in (core, script))
        assert ours is not None and theirs == pytest.approx(ours, rel=0.2, abs=4000)
    assert script.device is not None and core.device is not None
    assert script.device.name == core.device.name
