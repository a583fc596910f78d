"""What a workload needs of the host: the client's build, disk space, and O_DIRECT where the database lives."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ground.results.checks import Check, Verdict
from ground.settings import Setting
from ground.text.units import format_bytes
from workloads.build import EngineBuild
from workloads.engine import Engine

_BLOCK = 4096


def build_checks(engine: Engine, build: EngineBuild) -> Iterator[Check]:
    """What follows from the way the benchmark client was built."""
    client = engine.about.client
    yield Check(client, Verdict.OK, f"{build.path}, {engine.about.title} {build.version}")
    setting = Setting.ROCKSDB if build.library else Setting.DB_BENCH
    own = setting.to(f"<your own release build: {engine.about.release_build}>")
    if build.assertions:
        yield Check(
            f"{client} assertions",
            Verdict.NOTE,
            "on",
            "CPU per query is higher than in a release build, and its shares differ; fine to learn, not to publish",
            own,
        )
    else:
        yield Check(f"{client} assertions", Verdict.OK, "off")
    for flag, why in build.left_out.items():
        yield Check(f"{client} flags", Verdict.NOTE, f"no --{flag}: left out", why)
    for warning in build.warnings:
        yield Check(f"{client} warning", Verdict.WARN, warning)
    for name, value in build.hardware.items():
        supported = value.startswith("Supported")
        means = "" if supported else "it does in software what this CPU could do: CPU per write with a WAL is higher"
        yield Check(name, Verdict.OK if supported else Verdict.NOTE, value, means, "" if supported else own)
    where = build.code.name
    if build.symbols == "exported names only":
        yield Check(
            f"{client} symbols",
            Verdict.NOTE,
            f"{build.symbols} in {where}",
            "functions that are not exported show as [file name]; the category rules rest on exported names",
            own,
        )
    else:
        yield Check(f"{client} symbols", Verdict.OK, f"{build.symbols} in {where}")
    share = build.frame_pointers
    if share is None:
        yield Check("frame pointers", Verdict.NOTE, f"unknown in {where}", "a trial of a second decides")
    elif share < 0.3:
        yield Check(
            "frame pointers",
            Verdict.WARN,
            f"set up by {share:.0%} of the functions in {where}",
            "stacks need DWARF unwinding: about 36 times the data",
            "build with -fno-omit-frame-pointer",
        )
    else:
        yield Check(
            "frame pointers",
            Verdict.OK,
            f"set up by {share:.0%} of the functions in {where}",
            "a leaf function without one hides its caller",
        )


def free_bytes(directory: Path) -> int:
    """Bytes that a user other than root may still write on the file system of `directory` (or its first parent)."""
    state = os.statvfs(existing(directory))
    return state.f_bavail * state.f_frsize


def existing(directory: Path) -> Path:
    """`directory`, or the nearest of its parents that is there."""
    path = directory.absolute()
    while not path.exists():
        path = path.parent
    return path


def disk_checks(directory: Path) -> Iterator[Check]:
    """Free space, and whether O_DIRECT reads work in the database's directory."""
    yield Check("disk space", Verdict.OK, f"{format_bytes(free_bytes(directory))} free for {directory}")
    if not os.access(existing(directory), os.W_OK):
        yield Check(
            "DB_DIR",
            Verdict.BLOCKED,
            f"{existing(directory)} cannot be written to",
            "the database and the ledger of seeds are kept there",
            Setting.DB_DIR.to("<a directory you own>"),
        )
        return
    refused = _direct_read_error(existing(directory))
    if refused is None:
        yield Check("O_DIRECT", Verdict.OK, f"works in {directory}", "the page cache is not used")
    else:
        yield Check(
            "O_DIRECT",
            Verdict.BLOCKED,
            f"refused in {directory}: {refused}",
            "reads would come from the page cache, not from the device",
            Setting.DB_DIR.to("<a directory on a disk with ext4, xfs or btrfs>"),
        )


def _direct_read_error(directory: Path) -> str | None:
    """None when a block written there is read back with O_DIRECT; otherwise the system's words."""
    try:
        # A name of its own: where others may write, a link may wait for one that can be known before.
        with tempfile.NamedTemporaryFile(dir=directory, prefix=".ioflame-direct-") as file:
            file.write(b"\xa5" * _BLOCK)
            file.flush()
            handle = os.open(file.name, os.O_RDONLY | os.O_DIRECT | os.O_NOFOLLOW)
            try:
                # An anonymous mapping is page-aligned, as O_DIRECT wants its buffer.
                with mmap.mmap(-1, _BLOCK) as buffer:
                    got = os.preadv(handle, [buffer], 0)
                    if got != _BLOCK or buffer[:] != b"\xa5" * _BLOCK:
                        return f"read {got} bytes, not those written"
            finally:
                os.close(handle)
    except OSError as error:
        return error.strerror or str(error)
    return None
