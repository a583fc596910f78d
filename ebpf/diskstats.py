"""A block device by its number, and what the kernel counted for it in a window."""

from __future__ import annotations

from pathlib import Path

from ground.errors import UsageError
from ground.results.io_latency import Device, DiskWindow
from ground.system.diskstats import DiskCount, DiskCounts, disk_stats

__all__ = ("device_of_number", "disk_counts", "disk_window", "partition_sectors")


def device_of_number(major: int, minor: int) -> Device:
    """The device MAJOR:MINOR. UsageError when the kernel knows none."""
    link = Path(f"/sys/dev/block/{major}:{minor}")
    if not link.exists():
        raise UsageError(f"{major}:{minor} is no block device", mend="lsblk   (lists the devices)")
    path = link.resolve()
    partition = (path / "partition").exists()
    disk = path.parent if partition else path
    return Device(major, minor, path.name, partition, not (disk / "mq").exists())


def partition_sectors(device: Device) -> tuple[int, int] | None:
    """First sector and the one after the last; None for a whole disk."""
    if not device.partition:
        return None
    path = Path(f"/sys/dev/block/{device.major}:{device.minor}")
    first = int((path / "start").read_text(encoding="utf-8"))
    return first, first + int((path / "size").read_text(encoding="utf-8"))


def disk_counts(device: Device) -> DiskCounts | None:
    """The counters now; None where the kernel keeps none for it."""
    found = disk_stats().get((device.major, device.minor))
    return None if found is None else found.counts


def disk_window(
    opened: tuple[DiskCounts | None, DiskCounts | None], closed: tuple[DiskCounts | None, DiskCounts | None]
) -> DiskWindow | None:
    """From the counters read before and after the window was opened, and before and after it was closed."""
    if None in (*opened, *closed):
        return None
    return DiskWindow(inner=_since(closed[0], opened[1]), outer=_since(closed[1], opened[0]))


def _since(now: DiskCounts | None, before: DiskCounts | None) -> DiskCounts:
    assert now is not None and before is not None

    def less(a: DiskCount, b: DiskCount) -> DiskCount:
        return DiskCount(a.requests - b.requests, a.merged - b.merged, a.sectors - b.sectors, a.ms - b.ms)

    return DiskCounts(
        less(now.read, before.read),
        less(now.write, before.write),
        less(now.discard, before.discard),
        less(now.flush, before.flush),
    )
