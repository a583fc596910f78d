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
Three small programs run for each request (start, issue, end). The kernel's own account of their time is printed
with each result (`iolat cost`).
"""

_EXAMPLE = """
ioflame ebpf iolat --pid 4242 --seconds 10 --device /var/lib/db
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
