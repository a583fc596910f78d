"""IO latency by `biolatency` of bcc's libbpf-tools: a second opinion, in powers of two, of everybody's requests."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import signal
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from ebpf.bpftrace import Edge, ToolObserver
from ebpf.diskstats import device_of_number, disk_counts, disk_window
from ebpf.trial import Trial
from ground.errors import HostError, IoflameError, MeasurementError
from ground.results.histogram import Histogram
from ground.results.io_latency import Device, IoKind, IoLatency, IoRow
from ground.system.atomic_files import read_text
from ground.system.diskstats import DiskCounts
from ground.system.observer import Observer
from ground.system.process import Child, Children, capture

_HOW = (
    "biolatency -F of libbpf-tools, with and without -Q: powers of two in us, so means are of bucket middles; "
    "queueing is their difference; no processes, sizes or course of time; losses not declared"
)
# Longer than any window: it prints once, when it is asked to end.
_INTERVAL = "86400"
_ATTACH_SECONDS = 30.0
# Its last probe sits a moment after its first. Where the kernel does not say what it has attached, no longer is waited.
_SETTLE_SECONDS, _LOADING_SECONDS = 0.5, 10.0
_LINE = re.compile(r"^\s*(\d+) -> (\d+)\s*: (\d+)\s")


def bcc_io_latency(children: Children, pids: Sequence[int], number: tuple[int, int], out: Path) -> Observer:
    """The observer `iolat` on bcc. HostError for a device that biolatency cannot count."""
    device = device_of_number(*number)
    if device.bio_based or device.partition:
        raise HostError(f"biolatency counts the requests of whole disks; {device.name} is none", mend="EBPF=co-re")
    run = _Biolatency(children, device, out)

    def result(opened: Edge[DiskCounts | None], closed: Edge[DiskCounts | None]) -> IoLatency:
        total, at_device = run.histograms("total"), run.histograms("device")
        if not (total or at_device):
            # Seen of other tools of bcc: they fail to attach, print nothing, and end with 0.
            raise MeasurementError("biolatency counted nothing", means="it attached to nothing, or nothing was read")
        rows = [
            IoRow(name, "others", Histogram(), at_device.get(name, {}).get("", Histogram()), merged[""])
            for name, merged in sorted(total.items())
        ]
        kinds = [
            IoKind(name, flags.split("-"), 0, "others", histogram.count, histogram.sum_ns)
            for name, by_flags in total.items()
            for flags, histogram in by_flags.items()
            if flags
        ]
        edges = disk_window((opened.before, opened.after), (closed.before, closed.after))
        return IoLatency(
            "bcc", _HOW, device, list(pids), False, opened.ns, closed.ns, rows, kinds, [], {}, diskstats=edges
        )

    return ToolObserver("iolat", "IO latency, bcc's biolatency", run, lambda: disk_counts(device), result, out)


class _Biolatency:
    """biolatency with and without the queue; attached when the window opens, since it cannot be made to wait."""

    def __init__(self, children: Children, device: Device, out: Path) -> None:
        self._children, self._device, self._out = children, device, out
        self._runs: dict[str, Child] = {}

    def attach(self) -> None: ...

    def open(self) -> int:
        for stage, options in (("device", []), ("total", ["-Q"])):
            argv = ["biolatency", "-F", *options, "-d", self._device.name, _INTERVAL]
            self._runs[stage] = self._children.start(
                f"biolatency {stage}", argv, stdout=self._path(stage), stop_signal=signal.SIGINT
            )
        deadline = time.monotonic() + _LOADING_SECONDS
        while time.monotonic() < deadline and any(
            run.running and not _attached(run.pid) for run in self._runs.values()
        ):
            time.sleep(0.02)
        time.sleep(_SETTLE_SECONDS)
        for stage, run in self._runs.items():
            if not run.running:
                raise HostError(f"{run.name} did not start: {read_text(self._path(stage))[-500:]}")
        return time.monotonic_ns()

    def close(self) -> int:
        for run in self._runs.values():
            run.stop(grace=_ATTACH_SECONDS)
        return time.monotonic_ns()

    def detach(self) -> None:
        for run in self._runs.values():
            run.stop()

    def histograms(self, stage: str) -> dict[str, dict[str, Histogram]]:
        return parse_biolatency(read_text(self._path(stage)))

    def _path(self, stage: str) -> Path:
        return self._out.with_suffix(f".biolatency-{stage}")


def _attached(pid: int) -> bool:
    """Whether a BPF program of its is attached, by what the kernel says of its open files."""
    with contextlib.suppress(OSError):  # a file is closed meanwhile
        return any("link_id:" in file.read_text(encoding="ascii") for file in Path(f"/proc/{pid}/fdinfo").iterdir())
    return False


def parse_biolatency(text: str) -> dict[str, dict[str, Histogram]]:
    """Histograms by operation and flags (`-F`); under "" those of all flags together. Words between are skipped."""
    counts: dict[str, dict[str, dict[tuple[int, int], int]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(int))
    )
    operation = flags = ""
    for line in text.splitlines():
        if line.startswith("flags = "):
            *words, last = line.removeprefix("flags = ").lower().split("-")
            operation, flags = last, "-".join(words)
        elif (match := _LINE.match(line)) and operation:
            low, high, count = map(int, match.groups())
            if count:
                bounds = (low * 1000, (high + 1) * 1000)
                counts[operation][""][bounds] += count
                if flags:
                    counts[operation][flags][bounds] += count
    return {name: {flags: _histogram(held) for flags, held in by_flags.items()} for name, by_flags in counts.items()}


def _histogram(held: dict[tuple[int, int], int]) -> Histogram:
    buckets = [(*bounds, count) for bounds, count in sorted(held.items())]
    return Histogram(
        count=sum(held.values()),
        sum_ns=sum((low + high) // 2 * count for low, high, count in buckets),
        least_ns=buckets[0][0],
        most_ns=buckets[-1][1],
        buckets=buckets,
    )


@contextlib.contextmanager
def _some_writes() -> Iterator[None]:
    """Within: a block is written and flushed fifty times a second. On a quiet host nothing else would be counted."""
    over = threading.Event()
    # On a disk: what is in memory or an overlay has a major number of 0.
    directories = [Path(name) for name in (tempfile.gettempdir(), "/var/tmp", ".")]
    directory = next((one for one in directories if one.is_dir() and os.major(one.stat().st_dev)), Path())

    def write() -> None:
        with contextlib.suppress(OSError), tempfile.TemporaryFile(dir=directory) as file:
            while not over.wait(0.02):
                file.write(b"ioflame" * 600)
                file.flush()
                os.fsync(file.fileno())

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()


@functools.cache
def try_bcc() -> Trial:
    """biolatency of libbpf-tools, attached for a second in which the disk is surely written to."""
    if shutil.which("biolatency") is None:
        return Trial(False, "biolatency of libbpf-tools is not installed", "sudo apt-get install libbpf-tools")
    try:
        with _some_writes():
            for seconds in ("1", "5"):  # a disk may be held up for one
                done = capture(["biolatency", seconds, "1"], timeout=30)
                if done.returncode or done.errors or "usecs" in done.text:
                    break
    except IoflameError as error:
        return Trial(False, error.what)
    # Some of bcc's tools end with 0 when they could not attach: what they say on standard error tells.
    if done.returncode == 0 and not done.errors and "usecs" in done.text:
        return Trial(True, "biolatency of libbpf-tools attached and counted")
    words = " ".join(line for line in done.errors.splitlines() if "MEMLOCK" not in line)
    return Trial(False, words[-300:] or "biolatency attached, and counted nothing in five seconds", "run as root")
