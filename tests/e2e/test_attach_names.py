"""Names of functions of a target in mount and pid namespaces of its own, which are gone when its stacks are folded."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ioflame.results.files import Files
from ioflame.results.profile import read_profile
from ioflame.results.run import open_run
from ioflame.system.descendants import descendants
from tests.conftest import Ioflame
from tests.e2e.test_attach import service

_SOURCES = Path(__file__).parent / "namespaced"
# On file systems that only the target sees; what was mapped has no other name.
_STARTED = """
set -e
mount -t tmpfs tmpfs "$1"
mount -t tmpfs tmpfs /tmp
cp "$0"/* "$1"
cd "$1"
./statically &
exec ./loader ./libcrank.so
"""
_BURNED = {"turn_the_deleted_crank", "turn_the_static_crank", "made_at_run_time"}


@pytest.fixture(params=["sha1", "none"])
def built(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The programs, with and without build ids."""
    place = tmp_path / "built"
    place.mkdir()

    def compile_(out: str, turn: str, *arguments: str) -> None:
        words = ["cc", "-O1", "-fno-omit-frame-pointer", "-Wall", "-Werror", f"-Wl,--build-id={request.param}"]
        subprocess.run([*words, f"-DTURN={turn}", "-o", place / out, *arguments], cwd=_SOURCES, check=True)

    compile_("libcrank.so", "turn_the_deleted_crank", "-shared", "-fPIC", "crank.c")
    compile_("statically", "turn_the_static_crank", "-static", "statically.c", "crank.c")
    compile_("loader", "unused", "loader.c", "-pthread", "-ldl")
    return place


@pytest.mark.needs("perf", "unshare")
def test_names_of_what_only_the_target_saw_are_kept(ioflame: Ioflame, tmp_path: Path, built: Path) -> None:
    inside, runs = tmp_path / "inside", tmp_path / "runs"
    inside.mkdir()
    argv = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", _STARTED]
    with service([*argv, str(built), str(inside)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"begun\n"
        words = ("--seconds=8", "--freq=199", "--collect=perf", "--out", runs)
        code, said, err = ioflame.run("attach", "--pid", str(process.pid), *words)
        assert len(descendants([process.pid])) == 3
    run = open_run((runs / "latest").resolve())
    stacks = list(read_profile(run.path(Files.PROFILE)).each_stack())
    leaves = {stack.frames[-1] for stack in stacks}
    assert leaves >= _BURNED, leaves
    assert not [check for check in run.record.checks if check.name == "names"]
    # What we see ourselves is not copied.
    assert not run.path(Files.MAPPED).joinpath("usr").exists()
    # Names stay when it is folded again, now that the target is gone.
    again, _, _ = ioflame.run("analyse", run.directory)
    anew = {stack.frames[-1] for stack in read_profile(run.path(Files.PROFILE)).each_stack()}
    assert (again, anew) == (code, leaves), said + err
