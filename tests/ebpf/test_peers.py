"""Our programs against those of others: the bpftrace scripts as a user runs them, and by hand figures of both."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ebpf.bpftrace import script
from ebpf.iolat import IoLatencyRequest, io_latency_observer
from ebpf.iolat_bcc import parse_biolatency
from ground.results.io_latency import read_io_latency
from ground.results.off_cpu import read_off_cpu, read_run_queue
from ground.system.observer import Observer
from ground.system.process import Children
from ioflame.instruments.offcpu import off_cpu_observer
from ioflame.instruments.runqlat import run_queue_observer
from tests.ebpf.conftest import Disk, Start, run_fio
from tests.ebpf.windows import Load
from tests.figures import Report
from tests.until import until

pytestmark = pytest.mark.needs("co-re")

_SECONDS = 5.0
# In a mount namespace of its own, tracefs where the host has not mounted it.
_TRACEFS = "[ -e /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing; exec"


def bpftrace(*words: str) -> str:
    """What it printed."""
    command = ["unshare", "--mount", "sh", "-c", f'{_TRACEFS} "$@"', "sh", "bpftrace", *words]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.needs("bpftrace", "unshare")
def test_a_script_prints_what_its_head_says(start: Start) -> None:
    printed = bpftrace(str(script("runqlat")), str(start("sleep", "lock").pid), "1")
    assert "@woken_us" in printed


def beside(tool: Sequence[str], links: int, out: Path, observer: Callable[[Children], Observer], load: Load) -> str:
    """What the tool printed of a window around ours: ours opens once it has all its `links` to events."""
    with Children() as children:
        ours = observer(children)
        ours.attach()
        peer = children.start(tool[0], list(tool), stdout=out, stop_signal=signal.SIGINT)
        until(lambda: _links(peer.pid) >= links, as_long_as=lambda: peer.running)
        ours.open()
        load()
        ours.close()
        peer.stop()
        ours.detach()
    return out.read_text()


def _links(pid: int) -> int:
    try:
        targets = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]  # noqa: PTH115 - not a path
    except OSError:
        return 0
    return sum("bpf_link" in target or "bpf-link" in target or "perf_event" in target for target in targets)


def pause() -> None:
    time.sleep(_SECONDS)  # the window itself


@pytest.mark.by_hand
@pytest.mark.needs("runqlat", "offcputime")
def test_waits_beside_runqlat_and_offcputime(start: Start, tmp_path: Path, figure: Report) -> None:
    pid = start("sleep", "lock").pid
    queue, off = tmp_path / "queue.json", tmp_path / "off.json"
    text = beside(
        ["runqlat", "-p", str(pid), "86400"], 3, tmp_path / "runqlat.txt",
        lambda children: run_queue_observer(children, pid, queue), pause,
    )  # fmt: skip
    theirs = sum(int(count) for count in re.findall(r"^ *\d+ -> \d+ *: (\d+)", text, re.MULTILINE))
    ours = sum(wait.count for wait in read_run_queue(queue).waits.values())
    figure("waits for a CPU: ours of runqlat's", ours / theirs, expected="little below 1: its window is the longer one")
    text = beside(
        ["offcputime", "-p", str(pid), "86400"], 1, tmp_path / "offcputime.txt",
        lambda children: off_cpu_observer(children, pid, off, tmp_path / "off.data"), pause,
    )  # fmt: skip
    theirs = sum(int(us) for us in re.findall(r"^ +(\d+)$", text, re.MULTILINE)) * 1000
    # It knows only what ended within its window: threads that blocked before and never ran are in ours alone.
    moved = [thread for thread in read_off_cpu(off).threads if thread.voluntary > 10]
    ours = sum(sum(thread.off_ns.values()) for thread in moved)
    figure("time off the CPU: ours of offcputime's", ours / theirs, expected="0.9 to 1")


@pytest.mark.by_hand
@pytest.mark.needs("loop", "biolatency", "fio")
def test_requests_beside_biolatency_and_diskstats(loop: Disk, tmp_path: Path, figure: Report) -> None:
    out, request = tmp_path / "iolat.json", IoLatencyRequest([os.getpid()], loop.number, children=True)
    text = beside(
        ["biolatency", "-F", "-d", Path(loop.path).name, "86400"], 2, tmp_path / "biolatency.txt",
        lambda children: io_latency_observer(request, children, out),
        lambda: run_fio(loop, "--rw=randread", "--bs=8k", "--io_size=80m"),
    )  # fmt: skip
    latency, theirs = read_io_latency(out), parse_biolatency(text)["read"][""]
    read = latency.row("read", "process")
    assert latency.diskstats is not None
    mean = latency.diskstats.outer.read.mean_ns
    figure("requests: ours of biolatency's", read.total.count / theirs.count, expected="0.98 to 1.02")
    for percent in (50.0, 90.0, 99.0):
        mine, other = read.device.percentile(percent), theirs.percentile(percent)
        figure(
            f"p{percent:g}, us by ours", (mine or 0) / 1e3, expected=f"{(other or 0) / 1e3:.4g}, within a factor of 2"
        )
    if mean and read.total.mean_ns:
        figure("mean of a read: ours of diskstats'", read.total.mean_ns / mean, expected="0.98 to 1.02")
