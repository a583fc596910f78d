"""A run that is packed here and analysed where nothing of what it mapped lies."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from folding.symbol_cache import CACHE, keep_symbols
from ground.results.categories import read_categories
from ground.results.files import Files
from ground.results.files_at_paths import COPIED
from ground.results.profile import read_profile
from ground.results.run import open_run
from ground.system.elf import build_id
from tests.conftest import Ioflame
from tests.e2e.conftest import Finished
from tests.programs import FRAMES, compiled
from tests.until import until

_SECRET = "what only the program is to know"
_SOURCE = f"""
#include <stdio.h>
__attribute__((noinline)) int function_of_it(int n) {{ return n * 3 + puts("{_SECRET}"); }}
int main(int argc, char** argv) {{ return function_of_it(argc); }}
"""
_TURN = """
static volatile unsigned sink;
__attribute__((noinline)) void WORK(void) { for (int i = 0; i < 1 << 16; i++) sink = sink * 31 + i; }
int main(void) { for (;;) { WORK(); sink = sink + 1; } }
"""


@pytest.mark.alone  # `finished` is a run of those that have the machine for themselves
@pytest.mark.needs("unshare")
def test_it_comes_to_the_same_on_a_machine_without_its_files(
    ioflame: Ioflame, finished: Finished, tmp_path: Path
) -> None:
    here = open_run(finished.directory)
    packed, elsewhere = tmp_path / "run.tar.xz", tmp_path / "elsewhere"
    code, said, errors = ioflame.run("pack", finished.directory, "-o", packed)
    assert code == 0 and "librocksdb.so" in said, said + errors
    again, _, errors = ioflame.run("pack", finished.directory, "-o", packed)
    assert again == 2 and "--force" in errors
    elsewhere.mkdir()
    (elsewhere / packed.name).write_bytes(packed.read_bytes())
    engine = [one for one in read_profile(here.path(Files.PROFILE)).objects if "db_bench" in one or "rocksdb" in one]
    assert len(engine) > 1
    hidden = "; ".join(f"mount --bind /dev/null {name}" for name in engine)
    script = f'mount -t tmpfs none /usr/lib/debug; {hidden}; export HOME=/nonexistent; exec "$@"'
    there = ("unshare", "--mount", "sh", "-c", script, "sh")
    code, _, errors = ioflame.run("analyse", elsewhere / packed.name, "-q", prefix=there)
    assert code in (0, 1), errors
    run = elsewhere / finished.directory.name
    assert (run / Files.FOLDED).read_bytes() == here.path(Files.FOLDED).read_bytes()
    assert read_categories(run).rows == read_categories(finished.directory).rows
    code, _, errors = ioflame.run("analyse", elsewhere / packed.name)
    assert code == 2 and "is there already" in errors


def test_what_is_kept_of_a_program_has_its_tables_and_not_what_it_computes_with(tmp_path: Path) -> None:
    program = compiled(_SOURCE, tmp_path / "program", *FRAMES, "-Wl,--build-id")
    (kept,) = keep_symbols([str(program)], tmp_path / "mapped", tmp_path / "kept")
    assert kept.held == "symbols"
    (copy,) = (tmp_path / "kept").rglob("elf")

    def shown(*words: str | Path) -> str:
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    assert _SECRET.encode() in program.read_bytes() and _SECRET.encode() not in copy.read_bytes()
    for table in ("--syms", "--debug-dump=frames", "--notes", "--segments"):
        assert shown("readelf", table, "-W", copy) == shown("readelf", table, "-W", program)
    (code,) = (line for line in shown("objdump", "-d", "-j", ".text", "--no-show-raw-insn", copy).splitlines()[-1:])
    assert code.strip() == "..."


def test_device_inode_and_build_id_of_each_path_are_kept_and_files_without_one_by_their_paths(tmp_path: Path) -> None:
    numbered = compiled(_SOURCE, tmp_path / "a program", *FRAMES, "-Wl,--build-id")
    bare = compiled(_SOURCE, tmp_path / "bare", *FRAMES, "-Wl,--build-id=none")
    text = tmp_path / "text"
    text.write_text(_SECRET)
    mapped, kept = tmp_path / "mapped", tmp_path / "kept"
    gone = str(tmp_path / "gone (deleted)")
    held = {one.path: one.held for one in keep_symbols([*map(str, (numbered, bare, text)), gone], mapped, kept)}
    assert [held[str(path)] for path in (numbered, bare)] == ["symbols", "symbols"]
    assert "no ELF file" in held[str(text)] and "No such file" in held[gone]

    def line(path: Path, number: str) -> str:
        file = path.stat()
        return f"{os.major(file.st_dev)}:{os.minor(file.st_dev)} {file.st_ino} {number} {path}"

    first, *lines = (kept / CACHE / "packed-files").read_text(encoding="utf-8").splitlines()
    assert first == "ioflame-files 1"
    assert lines == [line(numbered, build_id(numbered.read_bytes())), line(bare, "-"), line(text, "-")]
    copy = kept / str(bare).lstrip("/")
    assert _SECRET.encode() not in copy.read_bytes() and b"function_of_it" in copy.read_bytes()
    assert not (kept / str(text).lstrip("/")).exists()
    # A packed run is packed again: what lies at its paths here is another machine's.
    assert keep_symbols([str(numbered)], kept, tmp_path / "again") == []
    assert not (tmp_path / "again").exists()


# perf distinguishes files of one path by their inodes, which are other files' or nobody's on another machine.
@pytest.mark.slow
@pytest.mark.needs("perf", "unshare")
@pytest.mark.parametrize(("ids", "first"), [("sha1", "at path"), ("sha1", "contained"), ("none", "at path")])
def test_of_files_of_one_path_the_same_one_has_names_elsewhere(
    ioflame: Ioflame, tmp_path: Path, ids: str, first: str
) -> None:
    place, other = tmp_path / "turn", tmp_path / "other"
    for name, program in (("work_here", place), ("work_there", other)):
        compiled(_TURN, program, *FRAMES, f"-DWORK={name}", f"-Wl,--build-id={ids}")
    bound = f"mount --bind {other} {place}; exec {place}"
    with (
        subprocess.Popen([place]) as at_path,
        subprocess.Popen(["unshare", "--mount", "sh", "-c", bound]) as contained,
    ):
        try:
            until(lambda: Path(f"/proc/{contained.pid}/exe").readlink().name == place.name, contained)
            pids = [at_path.pid, contained.pid] if first == "at path" else [contained.pid, at_path.pid]
            words = ("--seconds=6", "--freq=199", "--collect=perf", "--out", tmp_path / "runs")
            code, said, errors = ioflame.run("attach", *(f"--pid={pid}" for pid in pids), *words)
        finally:
            at_path.kill()
            contained.kill()
    assert code in (0, 1), said + errors
    here = open_run((tmp_path / "runs" / "latest").resolve())
    stacks = list(read_profile(here.path(Files.PROFILE)).each_stack())
    leaves = {pid: {stack.frames[-1] for stack in stacks if stack.tid == pid} for pid in pids}
    # A copy was made of the other one where that was seen first.
    names, copied = {"work_here", "work_there", "[turn]"}, (here.path(Files.MAPPED) / COPIED).exists()
    expected = {at_path.pid: {"[turn]"}, contained.pid: {"work_there"}} if copied else {}
    expected = expected or {at_path.pid: {"work_here"}, contained.pid: {"[turn]"}}
    assert {pid: found & names for pid, found in leaves.items()} == expected, (leaves, copied)
    packed = tmp_path / "run.tar.xz"
    code, _, errors = ioflame.run("pack", here.directory, "-o", packed)
    assert code == 0, errors
    # At the path there: nothing that is a program, or the very file that has no names here.
    for lies_there in (Path("/dev/null"), other):
        elsewhere = tmp_path / f"beside-{lies_there.name}"
        elsewhere.mkdir()
        shutil.copy(packed, elsewhere)
        there = ("unshare", "--mount", "sh", "-c", f'mount --bind {lies_there} {place}; exec "$@"', "sh")
        code, _, errors = ioflame.run("analyse", elsewhere / packed.name, "-q", prefix=there)
        run = elsewhere / here.directory.name
        assert code in (0, 1), errors
        assert (run / Files.FOLDED).read_bytes() == here.path(Files.FOLDED).read_bytes(), lies_there
        assert read_categories(run).rows == read_categories(here.directory).rows


def test_what_is_no_packed_run_is_refused(ioflame: Ioflame, tmp_path: Path) -> None:
    out = tmp_path / "out.tar.xz"
    inside = tmp_path / "file"
    inside.write_text("no run")
    with tarfile.open(out, "w:xz") as archive:
        archive.add(inside, "../file")
    for content in (out.read_bytes(), out.read_bytes()[:-20], b"nothing"):
        out.write_bytes(content)
        code, _, errors = ioflame.run("analyse", out)
        assert code == 2 and str(out) in errors, errors
    assert {path.name for path in tmp_path.iterdir()} == {"out.tar.xz", "file"}
