"""Bounds on CPU and memory: whoever is held to one is so with what it starts, and its group goes with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ground.errors import HostError
from ground.system.limits import hierarchy_of, limited_cpus, limited_memory
from tests.places import ROOT

# A fifth of a CPU. Its child burns until the kernel has throttled it; then it prints its group and waits for input.
_HELD = """
import subprocess, sys
from ground.system.limits import limited_cpus
from ground.system.limits import hierarchy_of
with limited_cpus(0.2) as unlimited:
    assert not unlimited, unlimited
    group = hierarchy_of("cpu").own
    burns = subprocess.Popen(["sh", "-c", "while :; do :; done"])
    while "nr_throttled 0" in (group / "cpu.stat").read_text():
        pass
    burns.kill()
    burns.wait()
    print(group, flush=True)
    input()
assert not group.exists() and hierarchy_of("cpu").own == group.parent
"""


def held() -> tuple[subprocess.Popen[str], Path]:
    argv = [sys.executable, "-c", _HELD]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


@pytest.mark.needs("cpu_group")
def test_what_we_start_is_held_to_the_bound_and_the_group_goes_with_us_or_with_the_next() -> None:
    process, left = held()
    assert left.name == f"ioflame-{process.pid}"
    process.kill()
    process.communicate()
    found = hierarchy_of("cpu")
    assert left.exists() and found is not None and left.parent == found.own
    following, group = held()
    assert not left.exists() and group.exists()
    following.communicate("\n")
    assert following.returncode == 0 and not group.exists()


_TWICE = """
from ground.system.limits import limited_cpus
from ground.system.limits import hierarchy_of
with limited_cpus(0.2) as outer:
    bounded = hierarchy_of("cpu").own
    with limited_cpus(1.0) as inner:
        assert (outer, inner, hierarchy_of("cpu").own) == ("", "", bounded), (outer, inner)
"""


@pytest.mark.needs("cpu_group")
def test_a_group_that_bounds_us_already_is_enough() -> None:
    """As the CPUQuota of a unit does, in whose group none with a larger bound can be."""
    subprocess.run([sys.executable, "-c", _TWICE], check=True)


def test_a_bound_on_cpus_is_held_or_says_why_it_is_not() -> None:
    group = hierarchy_of("cpu")
    with limited_cpus(1000.0) as why:
        within = hierarchy_of("cpu")
    # Without the right to make a group there is a reason, and the process stays in its group.
    assert within == group if why else group is not None
    assert hierarchy_of("cpu") == group


LIMIT = 24 << 20


@pytest.mark.needs("memory_group")
def test_a_process_and_the_page_cache_that_it_fills_stay_within_the_limit(tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.write(os.urandom(1 << 20) * 48)
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with limited_memory(LIMIT) as words:
        process = subprocess.run([*words, "cat", str(large)], stdout=subprocess.DEVNULL, check=True)
        group = Path(words[-1]).parent
        most = next(group / name for name in ("memory.max_usage_in_bytes", "memory.peak") if (group / name).exists())
        assert process.returncode == 0
        # It read twice as much, and what it left in the page cache is its own: that is bounded.
        assert 8 << 20 < int(most.read_text()) <= LIMIT
    assert not group.exists()


@pytest.mark.needs("memory_group", "unshare")
def test_a_group_that_may_not_be_made_is_refused_with_what_mends_it() -> None:
    with limited_memory(LIMIT) as words:
        parent = Path(words[-1]).parent.parent
    # The same directory, read-only.
    script = f'mount --bind {parent} {parent} && mount -o remount,bind,ro {parent} && exec "$@"'
    code = "from ground.system.limits import limited_memory\nwith limited_memory(1 << 24): pass"
    done = subprocess.run(
        ["unshare", "-m", "bash", "-c", script, "bash", "python3", "-c", code],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode != 0
    assert "HostError" in done.stderr and "no memory limit" in done.stderr


@pytest.mark.needs("memory_group")
def test_what_a_killed_one_left_is_removed_and_a_limit_that_is_too_small_is_refused() -> None:
    with limited_memory(LIMIT) as words:
        parent = Path(words[-1]).parent.parent
    # 2**22 is above every pid.
    abandoned = parent / "ioflame-4194305"
    abandoned.mkdir()
    with limited_memory(LIMIT):
        assert not abandoned.exists()
    with pytest.raises(HostError, match="no memory limit"), limited_memory(-5):
        pass
