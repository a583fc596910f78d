"""Files that somebody else has chosen: stackfold neither waits for them, nor grows with them, nor believes them."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import zlib
from pathlib import Path
from typing import Any

import pytest

from folding.stackfold import stackfold_binary
from tests.folding.recordings import record, record_while_it_runs, stacks
from tests.folding.test_symbol_files import command

pytestmark = [pytest.mark.long, pytest.mark.needs("perf")]

NOBODY = 65534
# What would wait for a pipe's writer waits for ever.
FOR_EVER = 60
OPTIONS = ["-e", "cpu-clock", "-g", "-F", "999"]


def fold(*arguments: str | Path, memory: int | None = None) -> tuple[int, bytes, str]:
    """Exit code, stacks and what was said, within `memory` bytes of address space."""

    def limit() -> None:
        if memory is not None:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    argv = [stackfold_binary(), *map(str, arguments)]
    done = subprocess.run(argv, capture_output=True, timeout=FOR_EVER, check=False, preexec_fn=limit)
    return done.returncode, done.stdout, done.stderr.decode()


def test_pipes_under_the_names_of_debug_files_are_not_waited_for(build: Any, tmp_path: Path) -> None:
    program = tmp_path / "busy"
    shutil.copy(build("split"), program)
    data = record(tmp_path / "perf.data", OPTIONS, program, "200")
    code, without, _ = fold("--no-inlines", data)
    assert code == 0
    os.mkfifo(tmp_path / "busy.dwp")
    assert fold(data)[0] == 0
    # The unit's own file, by the name that the skeleton has for it.
    (unit,) = build("split").parent.glob("*.dwo")
    kept = unit.rename(unit.with_suffix(".kept"))
    os.mkfifo(unit)
    try:
        code, ours, _ = fold(data)
    finally:
        kept.rename(unit)
    assert code == 0 and b";turn" not in ours and sum(stacks(ours).values()) == sum(stacks(without).values())
    # A stripped binary names the file that its symbols went to.
    command("objcopy", "--only-keep-debug", program, tmp_path / "busy.debug")
    command("objcopy", "--strip-all", f"--add-gnu-debuglink={tmp_path / 'busy.debug'}", program)
    (tmp_path / "busy.debug").unlink()
    os.mkfifo(tmp_path / "busy.debug")
    code, ours, _ = fold(data)
    assert code == 0 and sum(stacks(ours).values()) == sum(stacks(without).values())


@pytest.mark.needs("x86_64")
def test_maps_that_are_no_files_or_too_large_are_not_read(map_of_jit: tuple[Path, Path]) -> None:
    data, path = map_of_jit
    assert b";a->b " in fold(data)[1]
    path.unlink()
    os.mkfifo(path)
    code, without, said = fold(data)
    assert code == 0 and b"a->b" not in without
    assert f"{path}: not used, not a regular file" in said
    path.unlink()
    with path.open("wb") as file:
        file.truncate(3 << 30)
    code, ours, said = fold(data, memory=2 << 30)
    assert code == 0 and ours == without
    assert re.search(rf"{path}: not used, larger than \d+ bytes", said), said


@pytest.mark.skipif(os.geteuid() != 0, reason="it gives files away")
@pytest.mark.needs("x86_64")
def test_maps_of_others_are_not_believed(map_of_jit: tuple[Path, Path], tmp_path: Path) -> None:
    data, path = map_of_jit
    os.chown(path, NOBODY, NOBODY)
    code, ours, said = fold(data)
    assert code == 0 and b"a->b" not in ours
    assert f"{path}: not used, it belongs to user {NOBODY}" in said
    (mend,) = re.findall(r"chown -h root \S+ && chown root \S+", said)
    subprocess.run(["sh", "-c", mend], check=True)
    assert b";a->b " in fold(data)[1]
    # A link of theirs to a file of root's is theirs.
    kept = tmp_path / "kept.map"
    shutil.move(path, kept)
    path.symlink_to(kept)
    assert b";a->b " in fold(data)[1]
    os.lchown(path, NOBODY, NOBODY)
    assert b"a->b" not in fold(data)[1]


@pytest.mark.skipif(os.geteuid() != 0, reason="it gives files away")
@pytest.mark.needs("x86_64")
def test_a_map_of_the_process_own_user_is_believed_while_the_process_is_there(build: Any, tmp_path: Path) -> None:
    data = tmp_path / "perf.data"
    program = os.open(build("fp"), os.O_RDONLY)
    # Where the program lies nobody else may look.
    argv = [f"/proc/self/fd/{program}", "600000", "jit"]
    with subprocess.Popen(argv, user=NOBODY, group=NOBODY, extra_groups=[], pass_fds=[program]) as process:
        path = Path(f"/tmp/perf-{process.pid}.map")
        try:
            record_while_it_runs(data, [*OPTIONS, "-p", str(process.pid)], process.pid)
            assert path.stat().st_uid == NOBODY
            assert b";a->b " in fold(data)[1]
        finally:
            process.kill()
            process.wait()
        try:
            code, ours, said = fold(data)
            assert code == 0 and b"a->b" not in ours and "it belongs to user" in said
        finally:
            path.unlink()
    os.close(program)


def zeros_of_zlib(size: int) -> bytes:
    """So many zeros as zlib packs them, without packing all of them."""
    assert size % (64 << 20) == 0
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = packer.compress(bytes(64 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    # The sum of zeros: one of its halves counts them.
    checksum = (size % 65521) << 16 | 1
    return b"\x78\xda" + piece * (size // (64 << 20)) + b"\x03\x00" + checksum.to_bytes(4, "big")


def test_debug_information_that_unpacks_to_more_than_there_is_stays_packed(build: Any, tmp_path: Path) -> None:
    program, section = tmp_path / "busy", tmp_path / "section"
    shutil.copy(build("debug"), program)
    data = record(tmp_path / "perf.data", OPTIONS, program, "200")
    code, without, _ = fold("--no-inlines", data)
    assert code == 0 and b"(anonymous namespace)::hidden;turn " in fold(data)[1]
    # Elf64_Chdr: zlib. What does not fit into the budget, half of the memory that there is, is not even looked at, nor
    # what a file of that size cannot need.
    zeros = zeros_of_zlib(3 << 30)
    for size, packed, padded, why in (
        (3 << 30, zeros, 64 << 20, "bytes unpacked, more than is left of"),
        (3 << 30, zeros, 0, "bytes unpacked, more than files of"),
        (8 << 30, bytes(9 << 20), 0, "bytes unpacked, more than files of"),
        (8 << 30, bytes(9 << 20), 160 << 20, "bytes unpacked, more than is left of"),
    ):
        header = (1).to_bytes(4, "little") + bytes(4) + size.to_bytes(8, "little") + (1).to_bytes(8, "little")
        section.write_bytes(header + packed)
        for name in (".debug_info", ".debug_str"):
            shutil.copy(build("debug"), program)
            command("objcopy", f"--update-section={name}={section}", program)
            compressed(program, name)
            os.truncate(program, program.stat().st_size + padded)
            code, ours, said = fold(data, memory=2 << 30)
            assert code == 0, said
            # The names of functions are in other sections. Other files may have debug information of their own.
            assert sum(stacks(ours).values()) == sum(stacks(without).values())
            assert b"(anonymous namespace)::hidden " in ours and b";turn" not in ours
            assert f"{program}: functions inlined in it are no frames: " in said and why in said, said


def compressed(program: Path, name: str) -> None:
    """Marks a section as a compressed one."""
    found = command("readelf", "--section-headers", "--wide", program).decode()
    (number,) = re.findall(rf"\[ *(\d+)\] {re.escape(name)} ", found)
    with program.open("r+b") as file:
        file.seek(40)
        headers = int.from_bytes(file.read(8), "little")
        flags = headers + 64 * int(number) + 8
        file.seek(flags)
        bits = int.from_bytes(file.read(8), "little") | 0x800
        file.seek(flags)
        file.write(bits.to_bytes(8, "little"))
