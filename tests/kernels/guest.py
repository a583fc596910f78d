"""A guest of qemu without KVM: its root with db_bench, its database, and a boot that brings back what a job left."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ground.errors import MeasurementError
from tests.kernels.debian import Suite, mirrors, output, unpack
from tests.places import ROOT

_HERE = ROOT / "tests" / "kernels" / "guest"
_MIB = 1 << 20
# A kernel without initramfs knows a partition by the number of its disk: NVMe disks have another name in each boot.
_DISK = 0x10F1A3E0
_FIRST = 2048  # sector of the root's partition
_SECTOR = 512
_KEYS = 200_000
_LIBRARIES = "lib/x86_64-linux-gnu"


@dataclass(frozen=True)
class Machine:
    """What every boot needs. emulator: words of its command; root, database: images of disks, which no boot changes"""

    emulator: list[str]
    modules: Path
    root: Path
    database: Path


def _image(
    path: Path, label: str, mib: int, content: Path | None = None, *, begin: int = 0, journal: bool = True
) -> None:
    """A file system with what a directory holds; begin: its first byte in the file."""
    path.unlink(missing_ok=True)
    with path.open("wb") as file:
        file.truncate(mib * _MIB + begin)
    argv = ["/sbin/mke2fs", "-q", "-t", "ext4", "-L", label, "-E", f"offset={begin}"]
    argv += ["-d", str(content)] if content is not None else []
    argv += [] if journal else ["-O", "^has_journal"]
    output([*argv, str(path), f"{mib}M"])


def _partitioned(path: Path) -> None:
    """One partition, and the disk's number, in the first sector."""
    sectors = path.stat().st_size // _SECTOR - _FIRST
    entry = struct.pack("<B3sB3sII", 0, b"\0\2\0", 0x83, b"\xff\xff\xff", _FIRST, sectors)
    with path.open("r+b") as file:
        file.seek(440)
        file.write(struct.pack("<IH", _DISK, 0) + entry + bytes(48) + b"\x55\xaa")


def _root(suite: Suite, packages: list[str], work: Path) -> tuple[Path, Path]:
    """Images of the root and of the database, made anew where what they are made of has changed."""
    root, images = work / "root", (work / "root.img", work / "db.img")
    debs = suite.fetched_with_needs(packages, work / "guest.debs")
    init = (_HERE / "init").read_bytes()
    stamp = hashlib.sha256(f"{[deb.name for deb in debs]}".encode() + init + Path(__file__).read_bytes()).hexdigest()
    made = work / "root.made"
    if made.exists() and made.read_text(encoding="ascii") == stamp:
        return images
    made.unlink(missing_ok=True)
    shutil.rmtree(root, ignore_errors=True)
    unpack(debs, root)
    (root / "bin/sh").symlink_to("bash")
    for name in ("db", "job", "out", "proc", "sys", "dev", "run", "tmp"):
        (root / name).mkdir(exist_ok=True)
    (root / "sbin/guest-init").write_bytes(init)
    (root / "sbin/guest-init").chmod(0o755)
    # By the guest's own db_bench, here: it takes seconds instead of minutes.
    fill = ["db_bench", "--benchmarks=fillseq,compact", f"--num={_KEYS}", "--value_size=400"]
    output(["chroot", str(root), *fill, "--compression_type=none", "--db=/db/rocks"])
    (root / "db").rename(work / "db")
    (root / "db").mkdir()
    _image(images[1], "db", 1024, work / "db")
    shutil.rmtree(work / "db")
    _image(images[0], "root", 1024, root, begin=_FIRST * _SECTOR)
    _partitioned(images[0])
    made.write_text(stamp, encoding="ascii")
    return images


def machine(told: Mapping[str, Any], suites: Mapping[str, Suite], work: Path) -> Machine:
    """Fetches and makes what is not there yet. told: as kernels.toml holds it"""
    qemu = work / "qemu"
    if not (qemu / "made").exists():
        shutil.rmtree(qemu, ignore_errors=True)
        unpack(suites[told["qemu"]["suite"]].fetched_with_needs(told["qemu"]["packages"], work / "qemu.debs"), qemu)
        (qemu / "made").touch()
    _, _, own = mirrors()
    root, database = _root(suites[own], told["guest"]["packages"], work)
    # By its own loader and libraries: nothing of it is installed here.
    loader = [str(qemu / "lib64/ld-linux-x86-64.so.2"), "--library-path", str(qemu / "usr" / _LIBRARIES)]
    firmware = [word for name in ("qemu", "seabios") for word in ("-L", str(qemu / "usr/share" / name))]
    emulator = [*loader, str(qemu / "usr/bin/qemu-system-x86_64"), *firmware]
    return Machine(emulator, qemu / "usr" / _LIBRARIES / "qemu", root, database)


def boot(machine: Machine, image: Path, job: Path, out: Path, limit_s: float) -> float:
    """Runs job/job.sh in a guest of a kernel's image, and leaves its files in `out`, `console` among them; seconds.

    MeasurementError where the guest did not come to its end; what its windows left is there all the same.
    """
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    disks = {"job": out.with_suffix(".job.img"), "out": out.with_suffix(".out.img")}
    _image(disks["job"], "job", 128, job)
    # Without a journal what the guest has synced is in its place, however it ends.
    _image(disks["out"], "out", 512, journal=False)
    drives = [(machine.root, "snapshot=on"), (machine.database, "snapshot=on")]
    drives += [(disks["job"], "snapshot=on"), (disks["out"], "cache=unsafe")]
    argv = [*machine.emulator, "-M", "q35", "-cpu", "max", "-smp", "2", "-m", "3072", "-nic", "none", "-nographic"]
    # One thread of this host for both CPUs: with one each, a CPU of the guest was twice in 16 boots given a breakpoint
    # that the other had just taken out of the kernel's code (Oops: int3 while a tracer attached).
    argv += ["-accel", "tcg,thread=single,tb-size=512", "-no-reboot", "-kernel", str(image)]
    # It stops at an oops, with what was synced until then.
    words = f"console=ttyS0 quiet panic=-1 oops=panic root=PARTUUID={_DISK:08x}-01 rootwait rw init=/sbin/guest-init"
    argv += ["-append", words, "-device", "nvme,id=nvme,serial=guest"]
    for number, (path, options) in enumerate(drives, 1):
        argv += ["-drive", f"if=none,id=d{number},format=raw,file={path},{options}"]
        argv += ["-device", f"nvme-ns,drive=d{number},bus=nvme,nsid={number}"]
    environment = {**os.environ, "QEMU_MODULE_DIR": str(machine.modules), "TMPDIR": str(out.parent)}
    begun, console = time.monotonic(), out / "console"
    try:
        with console.open("wb") as file:
            subprocess.run(
                argv, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment, timeout=limit_s, check=True
            )
    except subprocess.TimeoutExpired:
        raise MeasurementError(f"the guest did not end within {limit_s:.0f} s", mend=f"less {console}") from None
    except subprocess.CalledProcessError as error:
        raise MeasurementError(f"qemu: exit code {error.returncode}", mend=f"less {console}") from None
    finally:
        output(["/sbin/debugfs", "-R", f"rdump / {out}", str(disks["out"])])
        for path in disks.values():
            path.unlink()
    text = console.read_text(encoding="utf-8", errors="replace")
    if "guest: done" not in text:
        told = [line for line in text.splitlines() if "Oops" in line or "panic" in line or "BUG" in line]
        raise MeasurementError(f"the guest died: {(told or ['without a word'])[0].strip()}", mend=f"less {console}")
    return time.monotonic() - begun
