"""`ioflame ebpf iolat`: IO latency of one device."""

from __future__ import annotations

import argparse
import os
import stat
from pathlib import Path

from collectors.counters import device_of
from ebpf.backends import BACKENDS
from ebpf.iolat import IoLatencyRequest, io_latency_checks, io_latency_observer
from ioflame.commands.ebpf_program import EbpfProgram, Shown
from ioflame.errors import UsageError
from ioflame.latency import read_io_latency
from ioflame.observer import Observer
from ioflame.process import Children
from viz.latency import io_latency_text

__all__ = ("PROGRAM",)

_OVERHEAD = """
Three small programs run for each request (start, issue, end): together 0.5 to 1 us of CPU on a 2-CPU VM, where a read
takes 50 us or more. The kernel's own account of their time is in each result (`iolat cost`). Nothing is written per
request: histograms are kept in the kernel and read four times a second. With bpftrace the programs are several times
as long, and a few requests in 100 are lost under load; the checks say how many.
"""

_EXAMPLE = """
ioflame ebpf iolat --pid 4242 --seconds 10 --device /var/lib/db

operation owner    stage        count      mean       p50       p90       p99     p99.9    p99.99       max
read      process  queue       17,422       1.0       0.8       1.0      12.2      22.8      52.5      64.0
read      process  device      17,422      56.0      50.4      72.7     140.7     375.7    2269.4    2351.8
read      process  total       17,422      57.1      51.2      73.7     141.5     375.7    2269.4    2355.0
read      others   total       15,994      66.0      39.4      76.4     797.5    1032.2    2320.0   62800.3

operation owner         size       count      mean  flags
read      process    8.0 KiB      17,422      57.1  sync idle
read      others     4.0 KiB         267     633.9  rahead failfast

     ok  iolat losses    none in 51,006 requests
     ok  iolat coverage  33,416 reads of 33,416, 17,573 writes of 17,574, 13 discards of 13 in diskstats
     ok  iolat mean      61.34 us a read, diskstats 60.78 us (+0.9%)
     ok  iolat cost      0.85 us of CPU per request in the programs
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device",
        default=".",
        metavar="DEVICE|DIR",
        help="a block device (/dev/nvme0n1), or a directory on one (default: the current one)",
    )
    parser.add_argument(
        "--backend",
        default=os.environ.get("EBPF") or "auto",
        help=f"auto (the first that works here), or one of {', '.join(BACKENDS)} (default: EBPF, or auto)",
    )


def _device(text: str) -> tuple[int, int]:
    path = Path(text)
    try:
        status = path.stat()
    except OSError as error:
        raise UsageError(f"--device {text}: {error.strerror}", mend="lsblk   (lists the devices)") from None
    if stat.S_ISBLK(status.st_mode):
        return os.major(status.st_rdev), os.minor(status.st_rdev)
    device = device_of(path)
    return device.major, device.minor


def _observer(arguments: argparse.Namespace, children: Children, out: Path) -> Observer:
    request = IoLatencyRequest(arguments.pid, _device(arguments.device), arguments.children, arguments.backend)
    return io_latency_observer(request, children, out)


def _show(path: Path) -> Shown:
    latency = read_io_latency(path)
    return Shown(io_latency_text(latency), io_latency_checks(latency))


PROGRAM = EbpfProgram(
    name="iolat",
    about="IO latency of a device: by operation, flags and size; queue apart from device, a process from all others",
    overhead=_OVERHEAD,
    example=_EXAMPLE,
    add_arguments=_add_arguments,
    observer=_observer,
    show=_show,
)
