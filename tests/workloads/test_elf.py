from __future__ import annotations

import subprocess
from pathlib import Path

from tests.programs import compiled
from workloads.elf import asserts, frame_pointer_share, symbol_kind

SOURCE = "".join(
    f"int g{i}(int*); int f{i}(int a) {{ int b[8] = {{a, a * {i}}}; return g{i}(b) + b[3] * 7 + {i}; }}\n"
    for i in range(40)
)


def library(target: Path, *flags: str) -> Path:
    return compiled(SOURCE, target, "-O1", "-shared", "-fPIC", *flags)


def test_frame_pointers_are_told_from_their_absence(tmp_path: Path) -> None:
    kept = frame_pointer_share(library(tmp_path / "kept.so", "-fno-omit-frame-pointer"))
    omitted = frame_pointer_share(library(tmp_path / "omitted.so", "-fomit-frame-pointer"))
    assert kept is not None
    assert kept > 0.9
    assert omitted == 0.0


def test_symbols_are_told_by_what_the_file_holds(tmp_path: Path) -> None:
    assert symbol_kind(library(tmp_path / "debug.so", "-g")) == "debug info"
    assert symbol_kind(library(tmp_path / "symbols.so")) == "symbol table"
    assert symbol_kind(library(tmp_path / "stripped.so", "-s")) == "exported names only"
    assert symbol_kind(Path(__file__)) == "not an ELF file"
    assert frame_pointer_share(Path(__file__)) is None


def test_assertions_are_the_engines_own_and_not_those_of_what_is_linked_in(tmp_path: Path) -> None:
    part = (
        "#include <cassert>\n#include <stdlib.h>\n"
        "namespace {0} {{ int Get(int n) {{ assert(n > abs(n)); return n; }} }}\n"
    )

    def linked(engine: str, *flags: str) -> Path:
        objects = [
            compiled(part.format(name), tmp_path / f"{name}.o", "-O2", "-fPIC", "-c", *options, compiler="g++")
            for name, options in (("rocksdb", [engine]), ("snappy", []))
        ]
        return compiled(objects[0], tmp_path / "lib.so", "-shared", *flags, objects[1], compiler="g++")

    assert asserts(linked("-O2", "-s"), "rocksdb")
    release = linked("-DNDEBUG")
    names = subprocess.run(["nm", "-D", release], capture_output=True, check=True, text=True).stdout
    assert "U __assert_fail" in names
    assert not asserts(release, "rocksdb") and asserts(release, "snappy")
    assert not asserts(Path(__file__), "rocksdb")
