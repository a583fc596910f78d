"""`ioflame ebpf iolat`: IO latency of one device."""

from __future__ import annotations

import argparse
import os
import stat
from pathlib import Path

from collectors.counters import device_of
from ebpf.backends import BACKENDS
from ebpf.iolat import IoLatencyRequest, io_latency_observer
from ground.errors import UsageError
from ground.system.observer import Observer
from ground.system.process import Children
from ioflame.commands.ebpf.program import EbpfProgram, add_backend
from ioflame.stages.shown import show_io_latency

__all__ = ("PROGRAM",)

_OVERHEAD = """
Three small programs run for each request (start, issue, end): together 0.5 to 1 us of CPU on a 2-CPU VM, where a read
takes 50 us or more. The kernel's own account of their time is in each result (`iolat cost`). Nothing is written per
request: histograms are kept in the kernel and read four times a second. With bpftrace the programs are several times
as long, and a few requests in 100 are lost under load; the checks say how many.
"""

_EXAMPLE = """
ioflame ebpf iolat --pid 17919 --seconds 3 --device /var/lib/db
(db_bench readrandom, 4 threads, O_DIRECT, on a busy VM of 2 CPUs)

IO latency of vda (us; 254:0, 3.2 s, process 17919)
co-re: tp_btf block_io_start, block_rq_issue, block_io_done: whole requests, as
  /proc/diskstats counts them

                         count  mean   p50   p90   p99  p99.9 p99.99    max
read    process queue  116,832   0.8   0.7   0.9   1.9   18.0   54.6   78.8
read    process device 116,832  47.7  41.3  72.4 103.3 1121.8 1791.0 2764.5
read    process total  116,832  48.5  42.1  73.4 104.8 1121.8 1791.0 2765.5

                     size   count  mean  flags
read    process   8.0 KiB 116,826  48.5  sync idle

   note  iolat losses    ended without an end that was seen: 86, of 116,849; they are not in the figures
     ok  iolat coverage  116,832 reads of 116,918, 9 writes of 9, 7 discards of 7 in diskstats
     ok  iolat mean      48.52 us a read, diskstats 48.14 us (+0.8%)
     ok  iolat cost      0.66 us of CPU per request in the programs
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device",
        default=".",
        metavar="DEVICE|DIR",
        help="a block device (/dev/nvme0n1), or a directory on one (default: the current one)",
    )
    add_backend(parser, BACKENDS)


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


PROGRAM = EbpfProgram(
    name="iolat",
    about="IO latency of a device: by operation, flags and size; queue apart from device, a process from all others",
    overhead=_OVERHEAD,
    example=_EXAMPLE,
    add_arguments=_add_arguments,
    observer=_observer,
    show=show_io_latency,
)
