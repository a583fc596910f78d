"""Disks, and mount points whose names have blanks and more: each reader of mountinfo finds what is mounted there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ground.system.diskstats import DiskCount, disk_stats, parse_disk_stats
from ground.system.limits import hierarchy_of
from ground.system.mounts import mounts

_NAMES = ("a blank", "tab\there", "line\nfeed", "back\\slash", "no\u00a0break", "carriage\rreturn", "\udcff")


def told(mounting: str, code: str, *words: str | Path) -> list[str]:
    """Lines that Python prints with these words, in a mount namespace of its own in which a shell mounted before."""
    argv = ["unshare", "--mount", "sh", "-ec", f'{mounting}\nexec "$0" -c "$CODE" "$@"', sys.executable, *words]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, env={**os.environ, "CODE": code})
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_what_is_mounted_is_told_with_its_kind() -> None:
    found = {mount.mount_point: mount for mount in mounts()}
    assert Path("/") in found and found[Path("/proc")].kind == "proc"
    assert found[Path("/proc")].options[0] in ("rw", "ro")


@pytest.mark.needs("unshare")
def test_the_disk_of_a_file_system_without_a_device_is_the_source_of_the_latest_one_there(tmp_path: Path) -> None:
    """As of btrfs or an overlay; a tmpfs takes any word for its source."""
    disk = next(disk.name for disk in disk_stats().values() if Path("/dev", disk.name).is_block_device())
    places = [tmp_path / name for name in _NAMES]
    for place in places:
        place.mkdir()
    mounting = 'disk=$1; shift; for at; do mount -t tmpfs none "$at"; mount -t tmpfs "$disk" "$at"; done'
    code = "import sys, pathlib, collectors.counters as c\n"
    code += "for at in map(pathlib.Path, sys.argv[1:]): print(c.device_of(at).name)"
    assert told(mounting, code, f"/dev/{disk}", *places) == [disk] * len(places)


# Others may have mounted the hierarchy, or a part of it, anywhere: in this namespace it is at $2 alone.
_ELSEWHERE = r"""
places=$(sed -n 's/\([^ ]* \)\{4\}\([^ ]*\) .* - cgroup2\{0,1\} .*/\2/p' /proc/self/mountinfo)
unmount() { for place in $places; do umount --lazy "$(printf %b "$place")"; done; }
"""
_MOVED = f"""{_ELSEWHERE}
mount --bind "$1" "$2"
unmount
shift
"""
_GROUPS = """
import sys, ground.system.groups as groups, ground.system.limits as own
found = own.hierarchy_of("cpu")
assert found and str(found.mount) == sys.argv[1], found
assert groups.named_group("/") == found.mount
"""


@pytest.mark.needs("unshare")
def test_control_groups_are_found_wherever_they_are_mounted(tmp_path: Path) -> None:
    found = hierarchy_of("cpu")
    if found is None:
        pytest.skip("no cpu controller is mounted")
    at = tmp_path / "".join(_NAMES)
    at.mkdir()
    told(_MOVED, _GROUPS, found.mount, at)


# A group ($1) is mounted at $2 before the hierarchy ($3) is at $4, as below the root of a container.
_PART = f"""{_ELSEWHERE}
mount --bind "$1" "$2"
mount --bind "$3" "$4"
unmount
"""
_WHOLE = """
import os, sys, ground.system.groups as groups, ground.system.limits as own
found = own.hierarchy_of("cpu")
assert found and str(found.mount) == sys.argv[4] and found.own.is_relative_to(sys.argv[4]), found
held = list(groups.groups_of(os.getpid()))
assert held and not [one for one in held if one.is_relative_to(sys.argv[2])], held
"""


@pytest.mark.needs("unshare")
def test_a_part_of_a_hierarchy_below_another_root_is_not_ours(tmp_path: Path) -> None:
    found = hierarchy_of("cpu")
    if found is None:
        pytest.skip("no cpu controller is mounted")
    whole, part, group = tmp_path / "whole", tmp_path / "part", found.mount / f"ioflame-test-{os.getpid()}"
    for place in (whole, part, group):
        place.mkdir()
    try:
        told(_PART, _WHOLE, group, part, found.mount, whole)
    finally:
        group.rmdir()


def test_a_line_has_as_many_counters_as_its_kernel_knows() -> None:
    text = "   8  1 sda1 5 6 7 8 9 10 11 12 0 14 15\n 254 0 vda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n"
    old, new = (parse_disk_stats(text)[number] for number in ((8, 1), (254, 0)))
    assert (old.name, new.name) == ("sda1", "vda")
    assert old.counts.read == DiskCount(5, 6, 7, 8) and old.counts.write == DiskCount(9, 10, 11, 12)
    assert old.counts.discard == old.counts.flush == DiskCount()
    assert new.counts.discard == DiskCount(12, 13, 14, 15) and new.counts.flush == DiskCount(requests=16, ms=17)


def test_this_kernels_own_lines_are_read() -> None:
    assert any(stats.counts.read.requests for stats in disk_stats().values())
