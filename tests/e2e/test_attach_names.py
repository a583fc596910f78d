"""Names of functions of a target in mount and pid namespaces of its own, which are gone when its stacks are folded."""

from __future__ import annotations

import contextlib
import gzip
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
from tests.e2e.commands import attached, perf_that, service
from tests.ioflame.asked import refused
from tests.programs import FRAMES, compiled, installed_library
from tests.until import until

pytestmark = [pytest.mark.long, pytest.mark.needs("perf")]

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


def with_build_ids(place: Path, ids: str) -> Path:
    """The programs; what burns CPU in them has `ids` in its name."""
    place.mkdir()
    flags = (*FRAMES, "-Wall", "-Werror", f"-Wl,--build-id={ids}")
    crank = _SOURCES / "crank.c"
    compiled(crank, place / "libcrank.so", *flags, f"-DTURN=turn_deleted_{ids}", "-shared", "-fPIC")
    compiled(_SOURCES / "statically.c", place / "statically", *flags, f"-DTURN=turn_static_{ids}", "-static", crank)
    named = f'-DTURN="turn_deleted_{ids}"'
    compiled(_SOURCES / "loader.c", place / "loader", *flags, named, "-pthread", "-ldl")
    return place


@pytest.mark.needs("unshare")
def test_names_of_what_only_the_targets_saw_are_kept_with_and_without_build_ids(
    ioflame: Ioflame, tmp_path: Path
) -> None:
    runs, burned = tmp_path / "runs", {"made_at_run_time"}
    with contextlib.ExitStack() as around:
        pids = []
        for ids in ("sha1", "none"):
            burned |= {f"turn_deleted_{ids}", f"turn_static_{ids}"}
            built, inside = with_build_ids(tmp_path / ids, ids), tmp_path / f"inside-{ids}"
            inside.mkdir()
            argv = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", _STARTED]
            process = around.enter_context(service([*argv, built, inside], stdout=subprocess.PIPE))
            assert process.stdout is not None and process.stdout.readline() == b"begun\n"
            pids.append(process.pid)
        done = attached(runs, pids, "--seconds=10", "--freq=199", "--collect=perf")
        assert [len(descendants([pid])) for pid in pids] == [3, 3]
    leaves = {stack.frames[-1] for stack in read_profile(done.run.path(Files.PROFILE)).each_stack()}
    assert leaves >= burned, leaves
    assert "names" not in done.checks
    # What we see ourselves is not copied.
    assert not done.run.path(Files.MAPPED).joinpath("usr").exists()
    # Names stay when it is folded again, now that the targets are gone.
    again, _, _ = ioflame.run("analyse", done.run.directory)
    anew = {stack.frames[-1] for stack in read_profile(done.run.path(Files.PROFILE)).each_stack()}
    assert (again, anew) == (done.code, leaves)


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


@pytest.mark.needs("co-re")
def test_a_redacted_run_holds_no_name_of_the_targets_own(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, secretd: str
) -> None:
    with service([secretd]) as process:
        count = f"--count=: secret; cut -d' ' -f14 /proc/{process.pid}/stat"
        words = ("--seconds=8", "--freq=199", "--collect=perf,iolat,offcpu", "--redact", count)
        done = attached(tmp_path / "runs", [process.pid], *words)
    run = done.run
    assert run.path(Files.REPORT).exists() and run.path(Files.OFF_CPU_PROFILE).exists()
    check_nothing_is_told(run.directory)
    assert "secret" not in done.out and "secret" not in run.directory.name
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
    assert "is redacted: its recordings are not kept" in refused(capsys, "analyse", run.directory)


def test_what_an_observer_said_when_it_failed_is_hashed(tmp_path: Path, secretd: str) -> None:
    fails = perf_that(tmp_path / "bin", f'echo "cannot open {secretd}" >&2; exit 1')
    words = ("--seconds=5", "--collect=perf,null", "--redact")
    with service([secretd]) as process:
        done = attached(tmp_path / "runs", [process.pid], *words, prefix=fails)
    check_nothing_is_told(done.run.directory)
    (lost,) = done.record.unobserved
    assert re.fullmatch(r"perf failed; its words are hashed, .*: h[0-9a-f]{10}", lost.why)
    assert "secret" not in done.out


@pytest.mark.parametrize("signal_", [signal.SIGINT, signal.SIGKILL])
def test_a_redacted_run_that_is_interrupted_or_killed_leaves_no_name_either(
    ioflame: Ioflame, tmp_path: Path, secretd: str, signal_: signal.Signals
) -> None:
    with service([secretd]) as process:
        count = f"--count=: secret; cut -d' ' -f14 /proc/{process.pid}/stat"
        words = ("--seconds=24", "--freq=999", "--collect=perf", "--redact", count, "--out", str(tmp_path))
        watching = ioflame.start("attach", "--pid", str(process.pid), *words)
        # More than its head.
        until(lambda: any(path.stat().st_size > 20_000 for path in tmp_path.glob(f"*/{Files.PERF_DATA}")), watching)
        watching.send_signal(signal_)
        watching.communicate(timeout=120)
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
