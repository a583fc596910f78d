"""Set-up and a smoke profile as a new user would do them, on other Debians: each in a root of its own (debootstrap).

`archive-SUITE` has neither compiler nor network, and takes the archive of `make dist`; its packed run is analysed here.

    make test-hosts                      all of them; as root, some 15 minutes each the first time
    make test-hosts HOSTS='trixie archive-trixie'

A root is kept in IOFLAME_HOSTS (default: /var/tmp/ioflame-hosts) and used again; its checkout is made anew. Kernel,
/proc, /sys, /dev and the Rust toolchain are this host's; packages come from the root's own apt. The profile is analysed
again without libc's debug symbols, which must give the same categories. The recording is kept as SUITE.perf.data. Exit
code 1 where a suite failed; the others are tried all the same.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.places import ROOT

_ARCHIVE = "archive-"
SUITES = ("bookworm", "trixie", "sid", f"{_ARCHIVE}bookworm", f"{_ARCHIVE}trixie")
_PLACE = Path(os.environ.get("IOFLAME_HOSTS", "/var/tmp/ioflame-hosts"))
_PACKAGES = "ca-certificates,git,make,gcc,libc6-dev,python3,python3-venv,procps"
_BARE = "ca-certificates,python3"
_HOME = Path("root")
# How a host reaches its mirrors: not ours to know, so it is passed on.
_PASSED_ON = ("/etc/resolv.conf", "/etc/pip.conf", "/etc/ssl/certs")
_CERTIFICATES = ("SSL_CERT_FILE", "PIP_CERT", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE")
_MOST_INCOMPLETE = 0.05


class SuiteError(Exception):
    """What a suite was found to do wrong."""


def _made(suite: str) -> Path:
    root = _PLACE / suite
    if not (root / "usr/bin/python3").exists():
        _PLACE.mkdir(parents=True, exist_ok=True)
        packages = _BARE if suite.startswith(_ARCHIVE) else _PACKAGES
        argv = ["debootstrap", "--variant=minbase", f"--include={packages}", suite.removeprefix(_ARCHIVE), str(root)]
        with (_PLACE / f"{suite}.debootstrap.log").open("wb") as log:
            subprocess.run(argv, check=True, stdout=log, stderr=log)
        # A mirror may be older than its list says.
        (root / "etc/apt/apt.conf.d/99age").write_text('Acquire::Check-Valid-Until "false";\n', encoding="ascii")
    named = (os.environ.get(name, "") for name in _CERTIFICATES)
    copy = ["cp", "-RL", "--parents", "--remove-destination"]
    for name in (name for name in (*_PASSED_ON, *named) if name and Path(name).exists()):
        # A directory of certificates may hold links to what is gone.
        subprocess.run([*copy, name, str(root)], capture_output=True, check=False)
    return root


# As a container: a mount namespace whose root it is. In a chroot the kernel's paths of files begin at this host's root,
# and a perf that enters the namespace of whom it records (7.2) finds none of them.
_ENTER = """
set -e
root=$1; shift
mount --bind "$root" "$root"
while [ "$1" != -- ]; do
  mkdir -p "$root$2"; mount --rbind "$1" "$root$2"; shift 2
done
shift
mkdir -p "$root/.outside"; cd "$root"; pivot_root . .outside; cd /; umount -l /.outside
exec "$@"
"""


def _inside(root: Path, command: str, log: Path, prefix: Sequence[str] = (), *, toolchain: bool = True) -> float:
    """Seconds that it took; SuiteError with the end of its log where more than a check failed (1).

    prefix: words before it; toolchain: with the Rust of this host
    """
    mounts = ["/proc", "/proc", "/sys", "/sys", "/dev", "/dev"]
    for name, place in (("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")) if toolchain else ():
        mounts += [os.environ.get(name, str(Path.home() / place)), f"/{_HOME}/{place}"]
    path = f"/{_HOME}/.cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    words = ["env", f"HOME=/{_HOME}", f"PATH={path}", "LANG=C.UTF-8", "TERM=dumb", "TMPDIR=/tmp"]
    begun = time.monotonic()
    with log.open("ab") as file:
        own = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _ENTER, "enter", str(root), *mounts, "--"]
        argv = [*prefix, *own, *words, "sh", "-c", f"cd /{_HOME}/ioflame && {command}"]
        code = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False).returncode
    if code > 1:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:]
        raise SuiteError(f"{command}: exit code {code}; {log} ends with:\n    " + "\n    ".join(lines))
    return time.monotonic() - begun


def _shares(run: Path) -> dict[str, float]:
    rows = json.loads((run / "categories.json").read_text(encoding="utf-8"))["rows"]
    return {row["name"]: row["share"] for row in rows}


def _incomplete(run: Path) -> float:
    profile = json.loads((run / "run.json").read_text(encoding="utf-8"))["profile"]
    if profile["callgraph"] != "fp":
        raise SuiteError(f"stacks were recorded by {profile['callgraph']}: frame pointers were thought to be of no use")
    return float(profile["incomplete_weight"] / profile["weight"])


def tried(suite: str) -> str:
    """What a suite showed, in a line."""
    root, log = _made(suite), _PLACE / f"{suite}.log"
    log.unlink(missing_ok=True)
    checkout = root / _HOME / "ioflame"
    shutil.rmtree(checkout, ignore_errors=True)
    subprocess.run(["git", "clone", "-q", str(ROOT), str(checkout)], check=True)
    set_up = _inside(root, "make setup", log)
    profiled = _inside(root, "make profile WORKLOAD=readrandom SCALE=smoke", log)
    run = (checkout / "runs" / "latest").resolve()
    named, incomplete = _shares(run), _incomplete(run)
    shutil.copyfile(run / "perf.data", _PLACE / f"{suite}.perf.data")
    # perf keeps a copy of what it has used.
    without = "apt-get remove -y -q libc6-dbg && rm -rf ~/.debug && .venv/bin/ioflame analyse -q runs/latest"
    _inside(root, without, log)
    nameless = _incomplete(run)
    if _shares(run) != named:
        raise SuiteError(f"without libc's names the shares are {_shares(run)}, with them {named}")
    if max(incomplete, nameless) > _MOST_INCOMPLETE:
        raise SuiteError(f"incomplete stacks: {incomplete:.1%}, without libc's names {nameless:.1%}")
    perf = subprocess.run(["chroot", str(root), "perf", "--version"], capture_output=True, text=True, check=True)
    return (
        f"set-up {set_up:.0f} s, smoke profile {profiled:.0f} s, {perf.stdout.strip()}, frame pointers; "
        f"incomplete stacks {incomplete:.2%}, without libc's names {nameless:.2%}, the same shares"
    )


def tried_archive(suite: str) -> str:
    """What the archive showed in a root without compiler, pip and network, in a line."""
    root, log, home = _made(suite), _PLACE / f"{suite}.log", _HOME / "ioflame"
    log.unlink(missing_ok=True)
    place = root / home
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    with log.open("ab") as file:
        for script in ("dist.sh", "dist_archive.sh"):
            subprocess.run(["bash", f"ioflame/{script}", str(place)], cwd=ROOT, check=True, stdout=file, stderr=file)
    (archive,) = place.glob("*.tar.xz")
    offline = ("unshare", "--net")

    def inside(command: str, prefix: Sequence[str] = ()) -> float:
        return _inside(root, command, log, prefix, toolchain=False)

    packages = "apt-get update -q && apt-get install -y -q --no-install-recommends linux-perf rocksdb-tools"
    inside(packages)
    inside("! command -v cargo clang cc pip || exit 2", offline)
    # Debian's smallest has no xz.
    unpack = f"python3 -m tarfile -e {archive.name} && mv ioflame-*/ unpacked"
    inside(f"{unpack} && unpacked/ioflame doctor", offline)
    profiled = inside("unpacked/ioflame profile --scale smoke --collect 'perf iolat pmp'", offline)
    inside("unpacked/ioflame pack runs/latest -o packed.tar.xz", offline)
    named = _shares((place / "runs" / "latest").resolve())
    with tempfile.TemporaryDirectory() as here:
        packed = shutil.copy(place / "packed.tar.xz", here)
        argv = [str(Path(sys.executable).with_name("ioflame")), "analyse", "-q", packed]
        code = subprocess.run(argv, stdout=subprocess.DEVNULL, check=False).returncode
        if code > 1:
            raise SuiteError(f"{' '.join(argv)}: exit code {code}")
        (record,) = Path(here).rglob("run.json")
        if _shares(record.parent) != named:
            raise SuiteError(f"analysed here the shares are {_shares(record.parent)}, there {named}")
    size = archive.stat().st_size / 1e6
    return f"archive of {size:.1f} MB, smoke profile {profiled:.0f} s; analysed here: the same shares"


def main() -> int:
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        print("test-hosts takes root and debootstrap: sudo apt-get install debootstrap", file=sys.stderr)
        return 3
    failed = 0
    for suite in sys.argv[1:] or SUITES:
        try:
            print(f"{suite:<18}{(tried_archive if suite.startswith(_ARCHIVE) else tried)(suite)}", flush=True)
        except (SuiteError, OSError, subprocess.CalledProcessError) as error:
            failed = 1
            print(f"{suite:<18}FAILED: {error}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
