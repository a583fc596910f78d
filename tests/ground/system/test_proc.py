"""What /proc and the control groups say of processes, and of us: real processes, of our own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ground.errors import MeasurementError, UsageError
from ground.system.cpu_limit import limited_cpus
from ground.system.descendants import ancestors, descendants, having_open, is_below
from ground.system.groups import container_group, groups_of, named_group
from ground.system.own_cpu import own_cpu_seconds
from ground.system.own_groups import hierarchy_of, own_name, remove_abandoned
from ground.system.proc_stat import stat_fields
from ground.system.process import Children
from ground.system.repeated_command import RepeatedCommand

# Names itself as somebody may who wants to be misread, and starts a child, which it tells of.
_NAMED = """
import ctypes, subprocess, sys
ctypes.CDLL(None).prctl(15, b") R 1 2 (", 0, 0, 0)
child = subprocess.Popen(["sleep", "600"])
print(child.pid, flush=True)
sys.stdin.read()
child.kill()
"""


@pytest.fixture
def family() -> Iterator[tuple[int, int]]:
    """The numbers of a process, whose name is hostile, and of its child."""
    with subprocess.Popen(
        [sys.executable, "-c", _NAMED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline())
        process.communicate("")


def test_fields_of_a_process_are_not_read_from_its_name(family: tuple[int, int]) -> None:
    parent, child = family
    fields = stat_fields(f"/proc/{parent}/stat")
    assert fields[0] in (b"S", b"R") and int(fields[1]) == os.getpid()
    assert int(stat_fields(f"/proc/{child}/stat")[1]) == parent


def test_what_a_process_started_is_below_it_and_it_is_above(family: tuple[int, int]) -> None:
    parent, child = family
    assert descendants([parent]) == [parent, child] and {parent, child} <= set(descendants([os.getpid()]))
    assert list(ancestors(child))[:3] == [child, parent, os.getpid()]
    assert is_below(child, os.getpid()) and not is_below(parent, child)
    with subprocess.Popen(["true"]) as gone:
        pass
    assert descendants([gone.pid]) == [gone.pid] and not is_below(gone.pid, os.getpid())


def test_who_has_a_file_open_is_told_by_the_file_and_not_by_its_name(tmp_path: Path, family: tuple[int, int]) -> None:
    file, link = tmp_path / "open", tmp_path / "link"
    with file.open("wb"):
        link.hardlink_to(file)
        assert having_open(link, [os.getpid(), *family]) == [os.getpid()]
    assert having_open(link, [os.getpid()]) == [] and having_open(tmp_path / "none", [os.getpid()]) == []


def test_cpu_of_what_we_started_is_ours() -> None:
    before = own_cpu_seconds()
    done = subprocess.run(
        [sys.executable, "-c", "import time\nwhile time.process_time() < 0.05: pass"], check=True, capture_output=True
    )
    assert done.returncode == 0 and own_cpu_seconds() - before >= 0.05


def test_a_group_is_found_by_its_path_and_a_container_by_its_id_alone() -> None:
    groups = list(groups_of(os.getpid()))
    if not groups:
        pytest.skip("no control group holds us here")
    assert all((group / "cgroup.procs").exists() for group in groups)
    assert named_group(str(groups[0])) == groups[0]
    with pytest.raises(UsageError, match="no control group of that name holds a process"):
        named_group("ioflame-no-such.service")
    with pytest.raises(UsageError, match="is no id: 12 to 64 hexadecimal digits"):
        container_group("web")
    with pytest.raises(UsageError, match="--container 0123456789ab"):
        container_group("0123456789ab")


def test_groups_of_ours_go_once_their_process_is_gone(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as gone:
        pass
    names = [own_name(), f"ioflame-{gone.pid}", "ioflame-other", "others-1"]
    for name in names:
        (tmp_path / name).mkdir()
    remove_abandoned(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[:1] + names[2:])


def test_our_group_lies_in_its_hierarchy() -> None:
    found = hierarchy_of("cpu")
    if found is not None:
        assert found.own.is_dir() and found.own.is_relative_to(found.mount)
    assert hierarchy_of("ioflame-no-such-controller") is None


def test_a_bound_on_cpus_is_held_or_says_why_it_is_not() -> None:
    group = hierarchy_of("cpu")
    with limited_cpus(1000.0) as why:
        within = hierarchy_of("cpu")
    # Without the right to make a group there is a reason, and the process stays in its group.
    assert within == group if why else group is not None
    assert hierarchy_of("cpu") == group


@pytest.fixture
def children() -> Iterator[Children]:
    with Children() as started:
        yield started


def test_a_command_is_run_again_by_one_shell(children: Children) -> None:
    command = RepeatedCommand(children, "count", "echo $PPID; echo words >&2; exit 3")
    first, second = command.run(60), command.run(60)
    assert first.stdout == second.stdout and int(first.stdout) > 1
    assert (second.returncode, second.stderr) == (3, b"words\n")


@pytest.mark.parametrize(
    ("command", "seconds", "says"),
    [("sleep 600", 0.1, "did not end within 0 s"), ("yes", 60, "printed more than 64 KiB")],
)
def test_a_command_that_goes_on_is_stopped_with_what_it_started(
    children: Children, command: str, seconds: float, says: str
) -> None:
    with pytest.raises(MeasurementError, match=says):
        RepeatedCommand(children, "endless", command).run(seconds)
    assert not [pid for pid in descendants([os.getpid()]) if b"sleep\x00600" in cmdline(pid)]


def cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
