"""What others do on this host before anything is measured: said in one line, or in none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collectors.counters import Device
from collectors.host_load import Look, fastest_clock, host_load, load_between
from collectors.target_counters import TargetProbe
from ground.results.checks import Verdict
from ground.results.host_load import HostLoad
from ground.results.record import HostTimes
from ground.system.diskstats import DiskCount, DiskCounts
from ground.system.process import Children
from ground.system.target import Target
from ground.text.progress import Reporter
from ioflame.measure.host_checks import tell_busy

_NONE = DiskCount()
QUIET = HostLoad(1.0, 2, 0.05, 0.0, 0.5, "vda", 1e3, 2e3, 0.01)
DISK = Device(254, 0, "vda")


def look(at: float, user: int = 0, steal: int = 0, ours_ns: float = 0, read: int = 0, **own: int) -> Look:
    """Ticks of the host, ns of ours, MB read from the device in 1 ms each."""
    device = DiskCounts(DiskCount(read, 0, read * 1_000_000 // 512, read), *[_NONE] * 3)
    return Look(at, HostTimes(0, user, 0, 0, 0, steal), device, ours_ns, **own)


def test_others_are_all_but_ourselves_and_what_is_to_be_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    begin = look(10.0)
    load = load_between(begin, look(12.0, user=500, steal=60, ours_ns=2e9), 3.0, DISK, (0.0, 0.0))
    assert (load.others_cpus, load.stolen_cpus, load.cpus, load.seconds) == pytest.approx((1.5, 0.3, 4, 2.0))
    # 200 MB in 2 s, of which the target read 150: a quarter of the time that they took is others'.
    load = load_between(begin, look(12.0, read=200, read_bytes=150_000_000), 0.0, DISK, (0.0, 0.0))
    assert (load.read_bytes, load.in_flight) == pytest.approx((25e6, 0.1 * 0.25), rel=1e-3)
    # Counters of ticks and of ns never agree to the last one.
    assert load_between(begin, look(11.0, user=10, ours_ns=2e8), -1.0, None, (0.0, 0.0)).others_cpus == 0


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, ""),
        ({"others_cpus": 1.9, "runnable": 4.2}, "others used 1.9 of 2 CPUs, 4.2 threads ran or waited for one"),
        ({"stolen_cpus": 0.3}, "the hypervisor took 0.3 of 2 CPUs"),
        ({"in_flight": 0.8, "read_bytes": 120e6}, "others read 120.0 and wrote 0.0 MB/s on vda"),
        ({"ghz": 1.2, "most_ghz": 3.5}, "the CPUs ran at 1.2 of 3.5 GHz"),
        ({"ghz": 2.6, "most_ghz": 3.5}, ""),
    ],
)
def test_a_busy_host_is_told_in_one_line_and_a_quiet_one_in_none(
    changed: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    load = replace(QUIET, **changed)
    check = load.check()
    assert check.verdict is (Verdict.WARN if said else Verdict.OK) and said in check.value
    tell_busy(load, Reporter(quiet=True))
    told = capsys.readouterr().err
    assert told.count("\n") == bool(said) and said in told
    means = "QPS, latency, waits and CPU per query"
    assert not said or told.startswith(f"warning: busy host: {said} (a look of 1.0 s); {means}")


def test_the_clock_is_that_of_the_fastest_cpu(tmp_path: Path) -> None:
    for number, (now, most) in enumerate(((1_200_000, 3_500_000), (3_100_000, 3_500_000))):
        place = tmp_path / f"cpu{number}" / "cpufreq"
        place.mkdir(parents=True)
        (place / "scaling_cur_freq").write_text(f"{now}\n")
        (place / "cpuinfo_max_freq").write_text(f"{most}\n")
    assert fastest_clock(tmp_path) == (3.1, 3.5)
    (tmp_path / "cpu1" / "cpufreq" / "scaling_cur_freq").write_text("<unknown>\n")
    assert fastest_clock(tmp_path) == (1.2, 3.5)
    assert fastest_clock(tmp_path / "none") == (0.0, 0.0)


def test_on_this_host_no_more_than_all_cpus_are_busy(children: Children) -> None:
    child = children.start("sleep", ["sleep", "60"])
    target = Target([child.pid], started=True)
    load = host_load(None, TargetProbe(target, None, lambda *_: ""))
    child.stop()
    assert load.seconds >= 1 and 0 <= load.others_cpus <= load.cpus * 1.2
    assert (load.device, load.read_bytes, load.in_flight) == ("", 0, 0)
