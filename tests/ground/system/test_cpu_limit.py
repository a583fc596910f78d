"""A bound on our own CPU: a process is held to it with what it starts, and its group goes with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ground.system.own_groups import hierarchy_of

pytestmark = pytest.mark.needs("cpu_group")

# A fiftieth of a CPU. Its child burns until the kernel has throttled it; then it prints its group and waits for input.
_HELD = """
import subprocess, sys
from ground.system.cpu_limit import limited_cpus
from ground.system.own_groups import hierarchy_of
with limited_cpus(0.02) as unlimited:
    assert not unlimited, unlimited
    group = hierarchy_of("cpu").own
    burns = subprocess.Popen([sys.executable, "-c", "while True: pass"])
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


def test_what_we_start_is_held_to_the_bound_and_the_group_goes_with_us() -> None:
    process, group = held()
    assert group.name == f"ioflame-{process.pid}" and group.exists()
    process.communicate("\n")
    assert process.returncode == 0 and not group.exists()


def test_the_group_of_one_that_was_killed_is_removed_by_the_next() -> None:
    process, left = held()
    process.kill()
    process.communicate()
    found = hierarchy_of("cpu")
    assert left.exists() and found is not None and left.parent == found.own
    following, group = held()
    assert not left.exists() and group.exists()
    following.communicate("\n")
    assert following.returncode == 0


_TWICE = """
from ground.system.cpu_limit import limited_cpus
from ground.system.own_groups import hierarchy_of
with limited_cpus(0.2) as outer:
    bounded = hierarchy_of("cpu").own
    with limited_cpus(1.0) as inner:
        assert (outer, inner, hierarchy_of("cpu").own) == ("", "", bounded), (outer, inner)
"""


def test_a_group_that_bounds_us_already_is_enough() -> None:
    """As the CPUQuota of a unit does, in whose group none with a larger bound can be."""
    subprocess.run([sys.executable, "-c", _TWICE], check=True)
