"""Which build ran, and what its file says of frame pointers, symbols and assertions: real compilers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ioflame.analysis.what_differs import differences
from tests.programs import compiled
from tests.until import until
from tests.viz.runs import record
from workloads.artifact import artifact_facts, build_facts, loaded_libraries
from workloads.build import EngineBuild
from workloads.elf import asserts, frame_pointer_share, symbol_kind

SOURCE = """
#include <stdio.h>
__attribute__((noinline)) static int twice(int n) { return n * 2; }
int main(int argc, char** argv) { puts(argv[0]); getchar(); return twice(argc); }
"""


def build(path: Path) -> EngineBuild:
    return EngineBuild(path, "1.0", False, "symbol table", 1.0, path, (), None, {})


@pytest.mark.needs("clang")
def test_compiler_flags_and_lto_are_named(tmp_path: Path) -> None:
    gcc = build_facts(compiled(SOURCE, tmp_path / "gcc", "-O1", "-g"))
    assert gcc["compiler"].startswith("GCC:") and "-O1" in gcc["flags"]
    assert (gcc["lto"], gcc["debug"]) == ("not detected", "there")
    assert len(gcc["build_id"]) == 40
    assert build_facts(compiled(SOURCE, tmp_path / "gcc-lto", "-O1", "-g", "-flto"))["lto"] == "yes"
    recorded = ("-grecord-gcc-switches", "-g", "-Wl,--build-id")
    clang = build_facts(compiled(SOURCE, tmp_path / "clang", "-O1", *recorded, compiler="clang"))
    assert "clang version" in clang["compiler"] and "-O1" in clang["flags"]
    stripped = build_facts(compiled(SOURCE, tmp_path / "stripped", "-O1", "-s"))
    assert (stripped["flags"], stripped["lto"], stripped["debug"]) == ("not recorded", "not recorded", "none")
    assert build_facts(Path("/etc/passwd"))["compiler"] == "not recorded"


def test_a_rebuild_in_place_is_another_artifact_and_the_same_bits_elsewhere_are_not(tmp_path: Path) -> None:
    first, again = compiled(SOURCE, tmp_path / "a", "-O1"), compiled(SOURCE, tmp_path / "b", "-O1")
    one, other = (record(tools={"engine_binary": str(path), **artifact_facts(build(path))}) for path in (first, again))
    assert differences([one, other]) == []
    compiled(SOURCE, tmp_path / "b", "-O1", "-O2")
    rebuilt = record(tools={"engine_binary": str(again), **artifact_facts(build(again))})
    assert {"tool engine_sha256", "tool engine_binary"} <= {name for name, _ in differences([one, rebuilt])}


def test_what_is_loaded_is_read_from_the_process(tmp_path: Path) -> None:
    path = compiled(SOURCE, tmp_path / "waits", "-O1")
    with subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        # It waits for its input, with every library mapped.
        until(lambda: "library libc.so" in loaded_libraries(process.pid, build(path)), process)
        found = loaded_libraries(process.pid, build(path))
    assert found["allocator"] == "libc"
    assert str(path.name) not in " ".join(found)
    assert loaded_libraries(process.pid, build(path)) == {}


# ---- frame pointers, symbols and assertions
MANY = "".join(
    f"int g{i}(int*); int f{i}(int a) {{ int b[8] = {{a, a * {i}}}; return g{i}(b) + b[3] * 7 + {i}; }}\n"
    for i in range(40)
)


def library(target: Path, *flags: str) -> Path:
    return compiled(MANY, target, "-O1", "-shared", "-fPIC", *flags)


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
