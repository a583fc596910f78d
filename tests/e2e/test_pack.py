"""A run that is packed here and analysed where nothing of what it mapped lies."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest

from folding.symbol_cache import keep_symbols
from ground.results.categories import read_categories
from ground.results.files import Files
from ground.results.profile import read_profile
from ground.results.run import open_run
from tests.conftest import Ioflame
from tests.e2e.conftest import Finished
from tests.programs import FRAMES, compiled

_SECRET = "what only the program is to know"
_SOURCE = f"""
#include <stdio.h>
__attribute__((noinline)) int function_of_it(int n) {{ return n * 3 + puts("{_SECRET}"); }}
int main(int argc, char** argv) {{ return function_of_it(argc); }}
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
    (kept,) = (one for one in keep_symbols([str(program)], tmp_path / "mapped", tmp_path / "cache"))
    assert kept.held == "symbols"
    (copy,) = (tmp_path / "cache").rglob("elf")

    def shown(*words: str | Path) -> str:
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    assert _SECRET.encode() in program.read_bytes() and _SECRET.encode() not in copy.read_bytes()
    for table in ("--syms", "--debug-dump=frames", "--notes", "--segments"):
        assert shown("readelf", table, "-W", copy) == shown("readelf", table, "-W", program)
    (code,) = (line for line in shown("objdump", "-d", "-j", ".text", "--no-show-raw-insn", copy).splitlines()[-1:])
    assert code.strip() == "..."


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
