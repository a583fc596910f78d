"""Off-CPU and run-queue figures against libbpf-tools in one window, and the bpftrace scripts as a user runs them."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ebpf.bpftrace import script
from ebpf.offcpu import off_cpu_observer
from ebpf.runqlat import run_queue_observer
from ground.results.off_cpu import read_off_cpu, read_run_queue
from ground.system.observer import Observer
from ground.system.process import Children
from tests.ebpf.conftest import Start
from tests.until import until

pytestmark = pytest.mark.needs("co-re")

_SECONDS = 2.0
# In a mount namespace of its own, tracefs where the host has not mounted it.
_TRACEFS = "[ -e /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing; exec"


@pytest.fixture
def waiting(start: Start) -> int:
    """The pid of a process whose threads sleep 2 ms at a time and contend for a lock."""
    return start("sleep", "lock").pid


def beside(tool: Sequence[str], links: int, out: Path, observer: Callable[[Children], Observer]) -> str:
    """What the tool printed of a window around ours: ours opens once it has all its `links` to events."""
    with Children() as children:
        ours = observer(children)
        ours.attach()
        peer = children.start(tool[0], list(tool), stdout=out, stop_signal=signal.SIGINT)
        until(lambda: _links(peer.pid) >= links, as_long_as=lambda: peer.running)
        ours.open()
        time.sleep(_SECONDS)  # the window itself
        ours.close()
        peer.stop()
        ours.detach()
    return out.read_text()


def _links(pid: int) -> int:
    try:
        targets = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]  # noqa: PTH115 - not a path
    except OSError:
        return 0
    return sum("bpf_link" in target or "bpf-link" in target for target in targets)


@pytest.mark.alone
@pytest.mark.needs("runqlat")
def test_waits_for_a_cpu_are_those_of_runqlat(waiting: int, tmp_path: Path) -> None:
    text = beside(
        ["runqlat", "-p", str(waiting), "86400"],
        3,
        tmp_path / "runqlat.txt",
        lambda children: run_queue_observer(children, waiting, tmp_path / "queue.json"),
    )
    rows = [tuple(map(int, row)) for row in re.findall(r"^ *(\d+) -> (\d+) *: (\d+)", text, re.MULTILINE)]
    theirs = sum(count for _, _, count in rows)
    queue = read_run_queue(tmp_path / "queue.json")
    ours = sum(wait.count for wait in queue.waits.values())
    # Their window is the longer one, by what a tool takes to attach and to end.
    assert 0 < ours <= theirs
    seen = list(itertools.accumulate(count for _, _, count in rows))
    low = next(low for (low, _, _), so_far in zip(rows, seen, strict=True) if so_far >= theirs / 2)
    woken = queue.waits["woken"].percentile(50)
    assert woken is not None
    assert abs((low or 1).bit_length() - max(int(woken / 1e3), 1).bit_length()) <= 1


@pytest.mark.alone
@pytest.mark.needs("offcputime")
def test_time_off_the_cpu_is_that_of_offcputime(waiting: int, tmp_path: Path) -> None:
    text = beside(
        ["offcputime", "-p", str(waiting), "86400"],
        1,
        tmp_path / "offcputime.txt",
        lambda children: off_cpu_observer(children, waiting, tmp_path / "off.json", tmp_path / "off.data"),
    )
    theirs = sum(int(us) for us in re.findall(r"^ +(\d+)$", text, re.MULTILINE)) * 1000
    off = read_off_cpu(tmp_path / "off.json")
    # It knows only what ended within its window: threads that blocked before and never ran are in ours alone.
    moved = [thread for thread in off.threads if thread.voluntary > 10]
    ours = sum(sum(thread.off_ns.values()) for thread in moved)
    window = off.end_ns - off.start_ns
    assert len(moved) == 3
    assert 0.95 * ours < theirs < ours * 1.05 + 3 * window


@pytest.mark.needs("bpftrace", "unshare")
@pytest.mark.parametrize(
    ("name", "maps"), [("offcpu", ("@off_ns[", "@sleeps[")), ("runqlat", ("@woken_us",))], ids=["offcpu", "runqlat"]
)
def test_a_script_prints_what_its_head_says(waiting: int, name: str, maps: tuple[str, ...]) -> None:
    command = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        f'{_TRACEFS} "$@"',
        "sh",
        "bpftrace",
        str(script(name)),
        str(waiting),
        "1",
    ]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    for found in maps:
        assert found in done.stdout, done.stdout + done.stderr


@pytest.mark.needs("bpftrace", "unshare")
@pytest.mark.parametrize("name", ["iolat", "ladder"])
def test_a_script_is_one_that_bpftrace_understands(name: str) -> None:
    """Parsed and checked against this kernel's tracepoints, not run: `iolat` is run by test_iolat."""
    libc = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libc.so" in line)
    arguments = {"iolat": ["1", "0", "8", "1", "0", "1"], "ladder": ["1", libc, "read", "write", "1"]}[name]
    said = subprocess.run(["bpftrace", "--help"], capture_output=True, text=True, check=False)
    # Since 0.21 -d names what to print, and ends nothing.
    without_a_run = ["-d", "ast", "--dry-run"] if "--dry-run" in said.stdout + said.stderr else ["-d"]
    command = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        f'{_TRACEFS} "$@"',
        "sh",
        "bpftrace",
        *without_a_run,
        str(script(name)),
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "AST after: " in done.stdout + done.stderr
