from __future__ import annotations

import mmap
import os
import select
import subprocess
import threading
from pathlib import Path

import pytest

from collectors.counters import Device, ProcessProbe, Snapshot, delta, device_of
from ground.errors import HostError, MeasurementError
from ground.system.held_process import HeldProcess

BLOCK = 4096
READS = 1009  # a prime: no batching can make it up


@pytest.fixture
def device(tmp_path: Path) -> Device:
    return device_of(tmp_path)


def test_cpu_time_is_the_kernels_other_account_of_it(burner: subprocess.Popen[str], device: Device) -> None:
    """schedstat's nanoseconds and the ticks of /proc/PID/stat, of a process that does nothing while both are read."""
    probe, held = ProcessProbe(burner.pid, device), HeldProcess(burner.pid)

    def snapshot() -> Snapshot:
        held.stop()
        found = probe.snapshot()
        held.go_on()
        return found

    first = snapshot()
    while (counted := delta(first, last := snapshot(), None)).cpu_ns < 300_000_000:
        select.select([], [], [], 0.05)
    ticks = last.user_ticks + last.system_ticks - first.user_ticks - first.system_ticks
    seconds = ticks / os.sysconf("SC_CLK_TCK")
    assert counted.cpu_ns / 1e9 == pytest.approx(seconds, abs=0.04)  # two of them, at two edges
    assert counted.user_ns + counted.system_ns == counted.cpu_ns
    assert counted.user_ns > counted.system_ns
    assert last.at_ns - first.at_ns >= 290_000_000 and counted.threads_ended == 0


def test_direct_reads_are_counted_to_the_byte(device: Device, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(os.urandom(64 * BLOCK))
    os.sync()
    handle = os.open(path, os.O_RDONLY | os.O_DIRECT)
    probe = ProcessProbe(os.getpid(), device)
    try:
        with mmap.mmap(-1, BLOCK) as buffer:
            first = probe.snapshot()
            for number in range(READS):
                os.preadv(handle, [buffer], number % 64 * BLOCK)
            last = probe.snapshot()
    finally:
        os.close(handle)
    counted = delta(first, last, 1.0)
    # A page of this process that was written out is read as well.
    assert counted.process_read_bytes == READS * BLOCK or counted.major_faults
    assert counted.storage_reads >= READS  # the device may serve others too
    assert counted.storage_read_bytes >= READS * BLOCK
    assert READS <= counted.read_calls <= READS + 200  # reading /proc reads too
    assert counted.queries == 1.0


def test_threads_that_end_between_the_edges_are_told(device: Device) -> None:
    started, stop = threading.Event(), threading.Event()

    def wait() -> None:
        started.set()
        stop.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    started.wait()
    probe = ProcessProbe(os.getpid(), device)
    first = probe.snapshot()
    stop.set()
    thread.join()
    # Python has done with it before the kernel has.
    while Path(f"/proc/self/task/{thread.native_id}").exists():
        os.sched_yield()
    assert delta(first, probe.snapshot(), None).threads_ended == 1


def test_a_process_that_is_gone_is_an_error_not_a_zero(device: Device) -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    with pytest.raises(MeasurementError, match="is gone"):
        ProcessProbe(process.pid, device).snapshot()


def test_a_directory_on_no_disk_is_refused() -> None:
    with pytest.raises(HostError, match="no block device"):
        device_of(Path("/proc"))
