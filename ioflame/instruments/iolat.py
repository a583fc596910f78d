"""`iolat`: IO latency of one device, by operation, flags and size; queue apart from device."""

from __future__ import annotations

import argparse
import os
import stat
from dataclasses import replace
from pathlib import Path

from markupsafe import Markup

from collectors.counters import device_of
from ebpf.backends import BACKENDS
from ebpf.iolat import EVENTS_CHECK, IoLatencyRequest, io_latency_checks, io_latency_observer
from ebpf.observer import loader_binary
from ground.errors import MeasurementError, UsageError
from ground.results.checks import Check, Verdict
from ground.results.files import Files
from ground.results.io_latency import IoLatency, read_io_latency
from ground.results.run import Run
from ground.system.observer import Observer
from ground.system.process import Children
from ioflame.instruments.instrument import Alone, Instrument, JsonResult, ObserverContext, add_backend
from viz.page.run_view import Observed, Panel
from viz.tables.io_latency import io_latency_section


def _observer(context: ObserverContext) -> Observer:
    # Of a target the children that it will have, too; a workload of ours has none.
    device, children = device_of_target(context), context.run.record.target is not None
    request = IoLatencyRequest(context.pids, device, children, turns=context.turns)
    return io_latency_observer(request, context.children, context.run.path(Files.IO_LATENCY))


def _checks(latency: IoLatency, run: Run | None) -> list[Check]:
    checks = io_latency_checks(latency)
    if run is None or run.record.target is None:
        return checks
    # That a service needs no storage for a while is nobody's failure.
    return [replace(one, verdict=Verdict.NOTE) if one.name == EVENTS_CHECK else one for one in checks]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device",
        default=".",
        metavar="DEVICE|DIR",
        help="a block device (/dev/nvme0n1), or a directory on one (default: the current one)",
    )
    add_backend(parser, BACKENDS)


def device_of_target(context: ObserverContext) -> tuple[int, int]:
    """MeasurementError where there is none."""
    if context.device is None:
        raise MeasurementError(
            "the target has no file open on a block device",
            means="there is no device whose requests could be looked at",
            mend="--device DIR   (a directory on the device that it uses)",
        )
    return context.device.major, context.device.minor


def device_number(text: str) -> tuple[int, int]:
    path = Path(text)
    try:
        status = path.stat()
    except OSError as error:
        raise UsageError(f"--device {text}: {error.strerror}", mend="lsblk   (lists the devices)") from None
    if stat.S_ISBLK(status.st_mode):
        return os.major(status.st_rdev), os.minor(status.st_rdev)
    device = device_of(path)
    return device.major, device.minor


def _alone(arguments: argparse.Namespace, children: Children, out: Path) -> Observer:
    request = IoLatencyRequest(arguments.pid, device_number(arguments.device), arguments.children, arguments.backend)
    return io_latency_observer(request, children, out)


def _panel(seen: Observed) -> Markup:
    from viz.page.io_latency import io_panel

    return io_panel(seen.the(Files.IO_LATENCY, IoLatency))


_RESULT = JsonResult(Files.IO_LATENCY, read_io_latency, lambda latency, _: io_latency_section(latency), _checks)
INSTRUMENT = Instrument(
    "iolat",
    order=2,
    observer=_observer,
    result=Files.IO_LATENCY,
    reads={_RESULT.file: _RESULT.read},
    analyse=_RESULT.analyse,
    parts={"iolat": _RESULT.part("requests of the device")},
    panels=[Panel("IO latency", "iolat", 2, [Files.IO_LATENCY], _panel)],
    alone=Alone(
        "IO latency of a device: by operation, flags and size; queue apart from device, a process from all others",
        _add_arguments,
        _alone,
        _RESULT.show,
    ),
    by_default=True,
    takes_turns=loader_binary() is not None,  # bpftrace counts once
)
