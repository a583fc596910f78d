"""What goes wrong while one program measures: clear words, the right exit code, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ebpf.iolat import io_latency_checks
from ebpf.observer import CoreObserver
from ground.errors import EXIT_CHECK_FAILED, EXIT_HOST, EXIT_INTERRUPTED, EXIT_OK
from ground.results.io_latency import read_io_latency
from ground.system.descendants import descendants
from tests.bpf import programs_of
from tests.conftest import Ioflame
from tests.ebpf.conftest import Disk, Start, run_fio
from tests.ebpf.requests_window import reading
from tests.ebpf.windows import failed, observed
from tests.places import ROOT
from tests.until import until

pytestmark = [pytest.mark.long, pytest.mark.needs("co-re", "loop")]

_LOADER = ROOT / "target" / "release" / "ioflame-ebpf"
_MEASURED = (EXIT_OK, EXIT_CHECK_FAILED)


def in_mount_namespace(command: str) -> tuple[str, ...]:
    """A prefix that runs `command` in a mount namespace of its own first."""
    return ("unshare", "--mount", "sh", "-c", f'{command} && exec "$@"', "sh")


@pytest.fixture
def reader(loop: Disk) -> Iterator[subprocess.Popen[bytes]]:
    """A process that reads the loop device with O_DIRECT for as long as it lives."""
    with reading(loop.path, 1) as process:
        yield process


def iolat(reader: subprocess.Popen[bytes], loop: Disk, *more: str) -> list[str]:
    return ["ebpf", "iolat", "--pid", str(reader.pid), "--device", loop.path, "--json", *more]


def await_counting(running: subprocess.Popen[str]) -> None:
    """Until it says that its window is open."""
    assert running.stderr is not None
    assert running.stderr.readline().startswith("counting for"), running.stderr.read()


def reads_of(disk: Disk) -> int:
    return int(Path("/sys/dev/block/{}:{}/stat".format(*disk.number)).read_text().split()[0])


def programs() -> dict[int, str]:
    """Names of the kernel's BPF programs by their ids."""
    listed = subprocess.run(["bpftool", "--json", "prog", "list"], capture_output=True, check=True).stdout
    return {program["id"]: program.get("name", "") for program in json.loads(listed)}


@pytest.mark.needs("bpftool")
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGKILL])
def test_a_signal_ends_the_window_and_no_program_is_left(
    ioflame: Ioflame, reader: subprocess.Popen[bytes], loop: Disk, signum: int
) -> None:
    running = ioflame.start(*iolat(reader, loop, "--seconds", "600"))
    await_counting(running)
    ours, before = programs_of(descendants([running.pid])), reads_of(loop)
    assert {programs()[number] for number in ours} >= {"io_start", "io_done", "rq_issue"}
    # One may have begun before the window did, and some in a row may end where the kernel runs no program.
    until(lambda: reads_of(loop) >= before + 100)
    running.send_signal(signum)
    out, err = running.communicate()
    if signum == signal.SIGINT:
        assert running.returncode == EXIT_INTERRUPTED, err
        owners = {row["owner"] for row in json.loads(out)["rows"] if row["operation"] == "read"}
        assert owners == {"process"}, out + err
    # The kernel frees programs after a grace period.
    until(lambda: not ours & programs().keys(), every=0.05)
    until(lambda: not ioflame.left_behind(), every=0.05)
    assert reader.poll() is None


@pytest.mark.needs("unshare")
@pytest.mark.parametrize(
    ("prefix", "words"),
    [
        (("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"), ("CAP_BPF", "run it as root")),
        (in_mount_namespace("mount --bind /dev/null /sys/kernel/btf/vmlinux"), ("co-re",)),
    ],
    ids=["not root", "no BTF"],
)
def test_what_it_needs_is_said(
    ioflame: Ioflame, reader: subprocess.Popen[bytes], loop: Disk, prefix: tuple[str, ...], words: tuple[str, ...]
) -> None:
    code, out, err = ioflame.run(*iolat(reader, loop, "--backend", "co-re"), prefix=prefix)
    assert (code, out) == (EXIT_HOST, "") and "Traceback" not in err
    assert all(word in err for word in words), err


@pytest.mark.parametrize(
    ("hidden", "backend"),
    [
        pytest.param(
            f"mount --bind /dev/null {ROOT}/target/release/ioflame-ebpf",
            "bpftrace",
            marks=pytest.mark.needs("bpftrace"),
        ),
        ("mount -t tmpfs none /sys/kernel/tracing", "co-re"),
    ],
    ids=["no loader", "no tracefs"],
)
@pytest.mark.needs("unshare")
def test_what_is_hidden_is_done_without(
    ioflame: Ioflame, reader: subprocess.Popen[bytes], loop: Disk, hidden: str, backend: str
) -> None:
    code, out, err = ioflame.run(*iolat(reader, loop, "--seconds", "1"), prefix=in_mount_namespace(hidden))
    assert code in _MEASURED and out, err
    assert json.loads(out)["backend"] == backend


@pytest.mark.needs("unshare")
def test_in_a_pid_namespace_of_its_own(ioflame: Ioflame, loop: Disk) -> None:
    read = f"fio --name=a --filename={loop.path} --direct=1 --rw=randread --size=8m --time_based --runtime=600"
    shell = f'{read} >/dev/null & "$@"; exit $?'
    prefix = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", shell, "sh")
    arguments = ["ebpf", "iolat", "--pid", "2", "--children", "--device", loop.path, "--json", "--seconds", "2"]
    code, out, err = ioflame.run(*arguments, prefix=prefix)
    assert code in _MEASURED, err
    assert any(row["owner"] == "process" for row in json.loads(out)["rows"])


def test_the_process_dies_in_the_middle(ioflame: Ioflame, reader: subprocess.Popen[bytes], loop: Disk) -> None:
    running = ioflame.start(*iolat(reader, loop, "--seconds", "600"))
    await_counting(running)
    reader.kill()
    out, err = running.communicate()
    assert running.returncode in _MEASURED
    assert "every process has ended" in err
    assert json.loads(out)["facts"]["processes_ended"] == 1


def test_full_maps_are_an_error(tmp_path: Path, loop: Disk) -> None:
    out = tmp_path / "iolat.json"
    words = ["--pid", str(os.getpid()), "--children", "--device", "{}:{}".format(*loop.number), "--map-entries", "64"]
    # More in flight than the map has room for.
    options = ("--rw=randread", "--bs=4k", "--ioengine=libaio", "--iodepth=256", "--iodepth_batch=256")
    observed(
        lambda children: CoreObserver("iolat", "iolat", children, words, out),
        lambda: run_fio(loop, *options, "--io_size=32m"),
    )
    latency = read_io_latency(out)
    assert latency.losses["lost_start"] > 0
    assert "iolat losses" in {check.name for check in failed(io_latency_checks(latency))}


def test_what_a_killed_command_left_goes_with_the_next(
    ioflame: Ioflame, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    words = ["ebpf", "runqlat", "--pid", str(start("sleep").pid), "--seconds"]
    killed = ioflame.start(*words, "600")
    assert killed.stderr is not None
    assert any("counting" in line for line in iter(killed.stderr.readline, ""))
    (left,) = place.iterdir()
    # Another one at the same time leaves it alone; so does everything that is not ours.
    others = [place / name for name in ("ioflame-notes", "ioflame-1-1-x.txt", "else")]
    for path in others:
        path.mkdir()
    (place / "ioflame-4194304-1-link").symlink_to(others[0])
    assert ioflame.run(*words, "0.1")[0] in _MEASURED
    assert left.exists()
    killed.kill()
    killed.communicate()
    assert left.exists()
    assert ioflame.run(*words, "0.1")[0] in _MEASURED
    assert {path.name for path in place.iterdir()} == {*(path.name for path in others), "ioflame-4194304-1-link"}
