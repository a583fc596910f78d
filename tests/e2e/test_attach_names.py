"""Names of functions of a target in mount and pid namespaces of its own, which are gone when its stacks are folded."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from ground.results.files import Files
from ground.results.profile import read_profile
from ground.results.run import open_run
from ground.system.descendants import descendants
from tests.conftest import Ioflame
from tests.e2e.test_attach import service
from tests.programs import FRAMES, compiled, installed_library
from tests.until import until

pytestmark = pytest.mark.long

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

    flags = (*FRAMES, "-Wall", "-Werror", f"-Wl,--build-id={request.param}")
    crank = _SOURCES / "crank.c"
    compiled(crank, place / "libcrank.so", *flags, "-DTURN=turn_the_deleted_crank", "-shared", "-fPIC")
    statically = (*flags, "-DTURN=turn_the_static_crank", "-static", crank)
    compiled(_SOURCES / "statically.c", place / "statically", *statically)
    compiled(_SOURCES / "loader.c", place / "loader", *flags, "-pthread", "-ldl")
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


@pytest.fixture(scope="module")
def secretd(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program that computes. It, its library, the functions of both, its thread, and the directory that it has its C
    library from are called secret."""
    place = tmp_path_factory.mktemp("of-secret")
    libc = installed_library("libc.so.6")
    assert libc is not None
    shutil.copy(libc, place)
    flags = (*FRAMES, "-DTURN=secret_turn")
    library = compiled(_SOURCES / "crank.c", place / "libsecret.so", *flags, "-shared", "-fPIC")
    program = compiled(_SOURCES / "statically.c", place / "secretd", *flags, library, f"-Wl,-rpath,{place}")
    return str(program)


def check_nothing_is_told(directory: Path) -> None:
    """No name of the target's own, and nothing that one could be got back from."""
    for path in (path for path in directory.rglob("*") if path.is_file()):
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        assert b"secret" not in content and b"libsecret" not in path.name.encode(), path
    assert not [name for name in (Files.PERF_DATA, Files.OFF_CPU_DATA, Files.SALT) if (directory / name).exists()]


@pytest.mark.needs("perf", "co-re")
def test_a_redacted_run_holds_no_name_of_the_targets_own(ioflame: Ioflame, tmp_path: Path, secretd: str) -> None:
    runs = tmp_path / "runs"
    with service([secretd]) as process:
        count = f"--count=: secret; cut -d' ' -f14 /proc/{process.pid}/stat"
        given = ("--seconds=8", "--freq=199", "--collect=perf,iolat,offcpu", "--redact", count, "--out", str(runs))
        code, said, err = ioflame.run("attach", "--pid", str(process.pid), *given)
    run = open_run((runs / "latest").resolve())
    assert run.path(Files.REPORT).exists() and run.path(Files.OFF_CPU_PROFILE).exists(), said + err
    check_nothing_is_told(run.directory)
    assert "secret" not in said and "secret" not in run.directory.name
    profile = read_profile(run.path(Files.PROFILE))
    heaviest = max(profile.each_stack(), key=lambda stack: stack.weight)
    turn = heaviest.frames[-1]
    # Whether the kernel was sampled at all is chance, in a program that computes.
    assert re.fullmatch("h[0-9a-f]{10}", turn)
    assert not any(re.fullmatch(r"h[0-9a-f]{10}_\[k\]", frame) for frame in profile.names)
    for name in (Files.FOLDED, Files.SLICES, Files.FLAMEGRAPH, Files.REPORT):
        assert turn in run.path(name).read_text(encoding="utf-8"), name
    assert turn.encode() in gzip.decompress(run.path(Files.PPROF).read_bytes())
    assert "__libc_start_call_main" in profile.names or "__libc_start_main_impl" in profile.names
    code, _, err = ioflame.run("analyse", run.directory)
    assert code == 2 and "is redacted: its recordings are not kept" in err


@pytest.mark.needs("perf")
def test_what_an_observer_said_when_it_failed_is_hashed(ioflame: Ioflame, tmp_path: Path, secretd: str) -> None:
    script = tmp_path / "perf"
    fails = f'case "$*" in *--control*) echo "cannot open {secretd}" >&2; exit 1;; esac'
    script.write_text(f'#!/bin/sh\n{fails}\nexec {shutil.which("perf")} "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    runs = tmp_path / "runs"
    with service([secretd]) as process:
        words = (f"--pid={process.pid}", "--seconds=5", "--collect=perf,null", "--redact", f"--out={runs}")
        _, said, err = ioflame.run("attach", *words, prefix=("env", f"PATH={tmp_path}:{os.environ['PATH']}"))
    run = open_run((runs / "latest").resolve())
    check_nothing_is_told(run.directory)
    (lost,) = run.record.unobserved
    assert re.fullmatch(r"perf failed; its words are hashed, .*: h[0-9a-f]{10}", lost.why), said + err
    assert "secret" not in said


# A file, and bytes: of a recording more than its head.
_RECORDING, _FOLDING = (f"*/{Files.PERF_DATA}", 20_000), (f"*/{Files.PROFILE}", 0)


@pytest.mark.needs("perf")
@pytest.mark.parametrize(
    ("signal_", "made"), [(signal.SIGINT, _RECORDING), (signal.SIGINT, _FOLDING), (signal.SIGKILL, _RECORDING)]
)
def test_a_redacted_run_that_is_interrupted_or_killed_leaves_no_name_either(
    ioflame: Ioflame, tmp_path: Path, secretd: str, signal_: signal.Signals, made: tuple[str, int]
) -> None:
    with service([secretd]) as process:
        count = f"--count=: secret; cut -d' ' -f14 /proc/{process.pid}/stat"
        seconds = "--seconds=5" if made == _FOLDING else "--seconds=24"
        words = (seconds, "--freq=999", "--collect=perf", "--redact", count, "--out", str(tmp_path))
        watching = ioflame.start("attach", "--pid", str(process.pid), *words)
        until(lambda: any(path.stat().st_size > made[1] for path in tmp_path.glob(made[0])), watching)
        watching.send_signal(signal_)
        _, err = watching.communicate(timeout=120)
    (directory,) = (path for path in tmp_path.iterdir() if not path.is_symlink())
    if signal_ == signal.SIGKILL:
        until(lambda: not ioflame.left_behind())
        assert (directory / Files.PERF_DATA).exists() and (directory / Files.SALT).exists()
        code, _, err = ioflame.run("show", directory)
        assert code == 1 and "names in it are not hashed" in err
        code, _, err = ioflame.run("attach", "--pid", str(process.pid), "--out", tmp_path)
        assert code == 2 and f"{directory.name}: killed before its names were hashed" in " ".join(err.split())
    check_nothing_is_told(directory)
    # Where attach ended before the signal, nothing is missing.
    missing = open_run(directory).record.missing
    assert watching.returncode == 0 or missing == [
        "profile, tables and pages: what was recorded held names (--redact), and was removed"
    ]
