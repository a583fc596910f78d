"""Which build ran: real compilers, one source."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ioflame.analysis.what_differs import differences
from tests.programs import compiled
from tests.viz.runs import record
from workloads.artifact import artifact_facts, build_facts, loaded_libraries
from workloads.build import EngineBuild

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
    with subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdin is not None
        process.stdin.write(b"")
        # It prints its name from main, with every library mapped; a pipe is flushed at its end alone, so read the maps
        # of a process that waits for its input.
        while not (found := loaded_libraries(process.pid, build(path))).get("library libc.so"):
            assert process.poll() is None
        process.stdin.close()
    assert found["allocator"] == "libc"
    assert str(path.name) not in " ".join(found)
    assert loaded_libraries(process.pid, build(path)) == {}
