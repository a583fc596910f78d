"""A block device by its number, and what the kernel counted for it in a window."""

from __future__ import annotations

import shlex
from pathlib import Path

from ground.errors import UsageError
from ground.results.checks import Check, Verdict
from ground.results.io_latency import Device, DiskWindow
from ground.system.diskstats import DiskCount, DiskCounts, disk_stats, whole_disk


def device_of_number(major: int, minor: int) -> Device:
    """The device MAJOR:MINOR. UsageError when the kernel knows none."""
    link = Path(f"/sys/dev/block/{major}:{minor}")
    if not link.exists():
        raise UsageError(f"{major}:{minor} is no block device", mend="lsblk   (lists the devices)")
    path, disk = link.resolve(), whole_disk(major, minor)
    return Device(major, minor, path.name, path != disk, not (disk / "mq").exists())


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
    if opened[0] is None or opened[1] is None or closed[0] is None or closed[1] is None:
        return None
    return DiskWindow(inner=closed[0].since(opened[1]), outer=closed[1].since(opened[0]))


def counted_twice(device: Device, flushing_writes: int) -> int:
    """Of the writes that flush the device's cache first, those that diskstats counts twice: device mapper sends the
    flush by itself, and then the data."""
    return flushing_writes if device.name.startswith("dm-") else 0


def requests_between(inner: DiskCount, outer: DiskCount) -> str:
    """How many there were in a window, of which both bounds are known."""
    if inner.requests == outer.requests:
        return f"{outer.requests:,}"
    return f"{inner.requests:,} to {outer.requests:,}"


def not_counted(check: str, device: str) -> Check:
    """Of a device that the kernel counts nothing for. check: its name"""
    counting = f"/sys/block/{device}/queue/iostats"
    return Check(
        check,
        Verdict.NOTE,
        "not checked: /proc/diskstats counts nothing for the device",
        "whether all of its requests were seen is unknown",
        f"echo 1 > {shlex.quote(counting)}",
    )
