"""A block device by its number, and what /proc/diskstats counts for it (Documentation/admin-guide/iostats.rst)."""

from __future__ import annotations

from pathlib import Path

from ioflame.errors import UsageError
from ioflame.latency import Device, DiskCount, DiskCounts, DiskWindow

__all__ = ("all_disk_counts", "device_of_number", "disk_counts", "disk_window", "partition_sectors")


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
    return all_disk_counts().get((device.major, device.minor))


def all_disk_counts() -> dict[tuple[int, int], DiskCounts]:
    """The counters of every device now, by (major, minor)."""
    found = {}
    for line in Path("/proc/diskstats").read_text(encoding="utf-8").splitlines():
        words = line.split()
        numbers = [int(word) for word in words[3:]] + [0] * 17
        found[int(words[0]), int(words[1])] = DiskCounts(
            read=DiskCount(*numbers[0:4]),
            write=DiskCount(*numbers[4:8]),
            discard=DiskCount(*numbers[11:15]),
            flush=DiskCount(requests=numbers[15], ms=numbers[16]),
        )
    return found


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
