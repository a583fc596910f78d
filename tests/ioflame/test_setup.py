"""The set-up script as an ordinary user meets it: what is missing is named with the command that installs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.places import ROOT

SCRIPT = ROOT / "ioflame" / "setup.sh"
TOOLS = ("bash", "dirname", "cat", "grep", "uname", "head", "sort", "cut", "id", "env", "sh")
NEEDED = (
    "perf", "bpftrace", "fio", "db_bench", "gdb", "eu-stack", "setpriv", "cc", "clang", "pkg-config", "python3",
    "apt-get",
)  # fmt: skip


@pytest.fixture
def place() -> Iterator[Path]:
    """A tree with only the script and a PATH of chosen commands, readable to everybody, wherever the checkout is."""
    with tempfile.TemporaryDirectory(prefix="ioflame-setup-", dir="/tmp") as name:
        root = Path(name)
        for folder in (root, root / "ioflame", root / "bin"):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
        # A clone of root's may be readable to root alone.
        for script in (SCRIPT, SCRIPT.with_name("setup_names.sh")):
            shutil.copyfile(script, root / "ioflame" / script.name)
            (root / "ioflame" / script.name).chmod(0o644)
        link(root, *TOOLS)
        for tool in NEEDED:  # present and willing; only their presence is asked for
            stand_in(root, tool, "exit 0")
        yield root


def link(place: Path, *tools: str) -> None:
    """Commands of this host."""
    for tool in tools:
        found = shutil.which(tool)
        assert found
        (place / "bin" / tool).symlink_to(found)


def stand_in(place: Path, command: str, script: str) -> None:
    (place / "bin" / command).unlink(missing_ok=True)
    (place / "bin" / command).write_text(f"#!/bin/sh\n{script}\n")
    (place / "bin" / command).chmod(0o755)


def setup(place: Path, *prefix: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*prefix, str(place / "bin" / "bash"), str(place / "ioflame" / "setup.sh")],
        cwd=place,
        env={"PATH": str(place / "bin"), "HOME": str(place), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def installed(place: Path, **environment: str) -> str:
    """What the set-up calls apt-get with."""
    stand_in(place, "apt-get", 'echo "$@" >> calls')
    (place / "calls").unlink(missing_ok=True)
    setup(place, **environment)
    return (place / "calls").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root to become somebody else")
def test_an_ordinary_user_without_sudo_gets_the_exact_command(place: Path) -> None:
    (place / "bin" / "fio").unlink()
    (place / "bin" / "db_bench").unlink()
    nobody = shutil.which("setpriv")
    assert nobody
    done = setup(place, nobody, "--reuid=65534", "--regid=65534", "--clear-groups")
    assert done.returncode == 3
    assert "missing: fio rocksdb-tools" in done.stderr
    assert "sudo apt-get update && sudo apt-get install -y --no-install-recommends fio rocksdb-tools" in done.stderr
    assert not (place / ".venv").exists()


def test_what_a_target_needs_beside_is_installed_with_the_rest_at_once(place: Path) -> None:
    (place / "bin" / "fio").unlink()
    stand_in(place, "ldconfig", "exit 0")
    with_both = installed(place, NEEDS="valgrind jemalloc")
    assert "install -y --no-install-recommends fio valgrind libjemalloc2" in with_both
    assert "valgrind" not in installed(place)
    (place / "bin" / "apt-get").unlink()
    done = setup(place, NEEDS="valgrind jemalloc")
    assert done.returncode == 3 and "missing: fio valgrind libjemalloc2; there is no apt" in done.stderr


@pytest.mark.parametrize(
    "manager, said",
    [
        ("", "with your package manager (the names are those of Debian): linux-perf fio rocksdb-tools gdb"),
        ("dnf", "sudo dnf install perf fio gdb pkgconf-pkg-config leveldb-devel snappy-devel lmdb-devel, and build"),
        ("zypper", "sudo zypper install perf fio gdb pkg-config leveldb-devel snappy-devel lmdb-devel, and build"),
    ],
)
def test_a_host_without_apt_is_told_what_to_install(place: Path, manager: str, said: str) -> None:
    if manager:
        (place / "bin" / "apt-get").rename(place / "bin" / manager)
    else:
        (place / "bin" / "apt-get").unlink()
    for tool in ("perf", "fio", "db_bench", "gdb", "pkg-config"):
        (place / "bin" / tool).unlink()
    done = setup(place)
    assert done.returncode == 3
    assert "missing: linux-perf fio rocksdb-tools gdb; there is no apt here" in done.stderr
    assert said in done.stderr, done.stderr


def test_a_python_that_is_too_old_is_named(place: Path) -> None:
    done = setup(place)  # its python3 prints no version
    assert done.returncode == 3
    assert "ioflame needs 3.10" in done.stderr


def test_without_clang_it_goes_on_and_says_what_that_costs(place: Path) -> None:
    (place / "bin" / "clang").unlink()
    stand_in(place, "apt-get", "exit 100")
    done = setup(place)
    assert "the CO-RE programs are not built: bpftrace is used" in done.stdout
    assert "apt-get install -y --no-install-recommends clang" in done.stdout
    # It came as far as the next thing that this place lacks.
    assert "ioflame needs 3.10" in done.stderr


def test_names_of_libc_are_installed_for_the_version_that_is_here(place: Path) -> None:
    stand_in(place, "dpkg-query", 'case "$*" in *libc6-dbg*) exit 1;; *libc6*) printf 2.36-9+deb12u9;; esac')
    update, install = installed(place).splitlines()  # all that is missing comes by one call
    assert update == "update -qq" and " libc6-dbg=2.36-9+deb12u9" in install and " liblmdb-dev " in install
    (place / "calls").unlink()
    stand_in(place, "apt-get", 'case "$*" in *libc6-dbg*) exit 100;; *) echo "$@" >> calls;; esac')
    done = setup(place)
    assert "without libc6-dbg=2.36-9+deb12u9 frames within libc have no names of their own" in done.stdout
    assert any("liblmdb-dev" in line for line in (place / "calls").read_text().splitlines())


def venv(place: Path, python: str) -> None:
    """A .venv whose Python is the shell script `python`, and everything that the Python part of the set-up calls."""
    (place / ".venv" / "bin").mkdir(parents=True)
    script = place / ".venv" / "bin" / "python"
    script.write_text(f"#!/bin/sh\n{python}\n")
    script.chmod(0o755)
    for name in ("requirements.txt", "pyproject.toml"):
        (place / name).touch()
    link(place, "sha256sum", "basename")


def fail_in_cargo(place: Path, script: str) -> None:
    """Its builds run the script, and fail."""
    stand_in(place, "cargo", f'[ "$1" = --version ] && echo cargo 1.99.0 && exit; {script}; exit 101')


def test_a_venv_without_pip_is_made_anew(place: Path) -> None:
    venv(place, 'echo "No module named pip" >&2; exit 1')
    stand_in(place, "python3", 'case "$*" in *version*) echo 3.11.2;; -m*) echo "$@" > made;; esac')
    done = setup(place)
    assert (place / "made").read_text() == "-m venv --clear .venv\n", done.stderr
    assert "making .venv with Python 3.11.2" in done.stdout


def test_a_venv_that_works_is_left_alone_and_a_missing_cargo_is_named_with_rustup(place: Path) -> None:
    venv(place, "exit 0")
    stand_in(place, "python3", 'case "$*" in *venv\\ *) echo "$@" > made;; esac')
    done = setup(place)
    assert not (place / "made").exists() and done.returncode == 3, done.stderr
    assert "cargo is not installed" in done.stderr and "rustup" in done.stderr


def test_without_a_network_the_set_up_says_what_it_needs_one_for(place: Path) -> None:
    venv(place, 'case "$*" in *install*) echo "no route to host" >&2; exit 1;; esac')
    done = setup(place)
    assert done.returncode == 3
    assert "no route to host\nsetup: pip could not install the packages of requirements.txt" in done.stderr
    assert "fix: make setup   (with a network" in done.stderr


def test_a_build_says_how_far_it_is_and_why_it_failed(place: Path) -> None:
    venv(place, "exit 0")
    bars = "".join(rf"    Building [=> ] {n}/40: crate{n}(build)    \r" for n in (3, 4, 20, 21, 40))
    downloads = r" Downloading crates ...\n  Downloaded 40 crates (3MB) in 2s\n"
    words = rf"{downloads}   Compiling one v1\n{bars}   Compiling two v1\n\nerror: no space\n\n  left\n"
    fail_in_cargo(place, f'case "$*" in *--lib*) exit 1;; esac; printf "{words}" >&2')
    done = setup(place)
    assert done.returncode == 3
    said = [line for line in done.stdout.splitlines() if "crate " in line]
    assert said == [
        "setup: cargo: crate 3 of 40 (crate3)",
        "setup: cargo: crate 4 of 40 (crate4), less than a minute left",
        "setup: cargo: crate 20 of 40 (crate20), less than a minute left",
        "setup: cargo: crate 40 of 40 (crate40), less than a minute left",
    ]
    assert "error: no space\n  left\nsetup: cargo could not build stackfold" in done.stderr
    assert "setup: cargo: downloaded 40 crates (3MB) in 2s\n" in done.stdout
    assert "Compiling" not in done.stderr + done.stdout


def test_apt_says_how_far_it_is(place: Path) -> None:
    (place / "bin" / "db_bench").unlink()
    lines = [f"{kind}:one:{percent}.5:words" for kind in ("dlstatus", "pmstatus") for percent in (5, 21, 22, 60)]
    stand_in(place, "apt-get", "printf '%s\\n' Reading " + " ".join(lines))
    said = [line for line in setup(place).stdout.splitlines() if "apt:" in line]
    assert said == [
        f"setup: apt: {percent} % {what}, less than a minute left"
        for what in ("downloaded", "installed")
        for percent in (21, 60)
    ]


def test_a_profile_of_rocksdb_needs_less_than_all_commands(place: Path) -> None:
    for tool in ("fio", "gdb", "eu-stack", "bpftrace", "db_bench"):
        (place / "bin" / tool).unlink()
    least = installed(place, LEAST="1")
    assert " rocksdb-tools" in least and not any(one in least for one in ("fio", "gdb", "elfutils", "bpftrace", "lmdb"))
    assert "bpftrace fio rocksdb-tools gdb elfutils" in installed(place)
    # perf alone needs no compiler of BPF programs, nor them.
    (place / "bin" / "clang").unlink()
    (place / "calls").unlink()
    fail_in_cargo(place, 'echo "$@" >> calls')
    venv(place, "exit 0")
    said = setup(place, LEAST="perf")
    calls = (place / "calls").read_text()
    assert "setup: building stackfold (cargo" in said.stdout and "--package=stackfold --bin=stackfold\n" in calls
    assert not any(one in calls for one in ("clang", "libelf", "stacksampler", "ioflame-ebpf"))
    # Without the CO-RE programs it is bpftrace that watches.
    (place / "calls").unlink()
    stand_in(place, "apt-get", 'case "$*" in *clang*) exit 100;; *) echo "$@" >> calls;; esac')
    setup(place, LEAST="1")
    assert "bpftrace" in (place / "calls").read_text()


def test_what_pip_warns_of_is_not_printed(place: Path) -> None:
    venv(place, 'case "$*" in *install*) echo "WARNING: as root" >&2;; esac')
    assert "WARNING" not in setup(place).stderr


def test_without_a_network_cargo_says_so(place: Path) -> None:
    venv(place, "exit 0")
    fail_in_cargo(place, 'echo "no route to host" >&2')
    done = setup(place)
    assert done.returncode == 3
    assert "no route to host\nsetup: cargo could not build stackfold" in done.stderr
    assert "fix: make setup   (with a network" in done.stderr
