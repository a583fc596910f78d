"""Mount points whose names have blanks and more: each reader of mountinfo finds what is mounted there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ground.system.diskstats import disk_stats
from ground.system.mounts import mounts
from ground.system.own_groups import hierarchy_of

_NAMES = pytest.mark.parametrize(
    "name", ["a blank", "tab\there", "line\nfeed", "back\\slash", "no\u00a0break", "carriage\rreturn", "\udcff"]
)


def mounted(at: Path, mount: str, source: str | Path, code: str) -> str:
    """What Python prints where `at` is mounted from the source, in a mount namespace of its own."""
    at.mkdir()
    script = f'set -e; source=$1; at=$2; shift 2; {mount}; exec "$@"'
    argv = ["unshare", "--mount", "sh", "-c", script, "sh", source, at, sys.executable, "-c", code, at]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


_DISK = "import sys, pathlib, collectors.counters as it; print(it.device_of(pathlib.Path(sys.argv[1])).name)"


def a_disk() -> str:
    return next(disk.name for disk in disk_stats().values() if Path("/dev", disk.name).is_block_device())


def test_what_is_mounted_is_told_with_its_kind() -> None:
    found = {mount.place: mount for mount in mounts()}
    assert (
        Path("/") in found and found[Path("/proc")].kind == "proc" and found[Path("/proc")].options[0] in ("rw", "ro")
    )


@pytest.mark.needs("unshare")
@_NAMES
def test_the_disk_of_a_file_system_without_a_device_is_its_source(name: str, tmp_path: Path) -> None:
    """As of btrfs or an overlay; a tmpfs takes any word for its source."""
    disk = a_disk()
    assert mounted(tmp_path / name, 'mount -t tmpfs "$source" "$at"', f"/dev/{disk}", _DISK) == f"{disk}\n"


@pytest.mark.needs("unshare")
def test_of_two_file_systems_at_one_place_the_later_is_seen(tmp_path: Path) -> None:
    disk = a_disk()
    twice = 'mount -t tmpfs none "$at"; mount -t tmpfs "$source" "$at"'
    assert mounted(tmp_path / "twice", twice, f"/dev/{disk}", _DISK) == f"{disk}\n"


_GROUPS = """
import sys, ground.system.groups as groups, ground.system.own_groups as own
found = own.hierarchy_of("cpu")
assert found and str(found.mount) == sys.argv[1], found
assert groups.named_group("/") == found.mount
"""


@pytest.mark.needs("unshare")
@_NAMES
def test_control_groups_are_found_wherever_they_are_mounted(name: str, tmp_path: Path) -> None:
    found = hierarchy_of("cpu")
    if found is None:
        pytest.skip("no cpu controller is mounted")
    moved = 'mount --bind "$source" "$at"; umount --lazy --recursive /sys/fs/cgroup'
    mounted(tmp_path / name, moved, found.mount, _GROUPS)
