"""Where symbols and inlined functions are, besides in the binary itself: packed in it, or beside it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.folding.recordings import SOURCE, direct, record, run, stacks, stats

pytestmark = pytest.mark.needs("perf")

# A function that others may call, and one that only the full symbol table knows.
LIBRARY = """
static volatile unsigned sink;
static __attribute__((noinline)) void only_here() { for (unsigned i = 0; i < 300000; i++) sink = sink + i; }
extern "C" __attribute__((visibility("default"))) void library_work() {
  only_here();
  for (unsigned i = 0; i < 300000; i++) sink = sink + i;
}
"""


def command(*argv: str | Path) -> bytes:
    return subprocess.run(list(map(str, argv)), check=True, capture_output=True).stdout


def functions(binary: Path, *options: str) -> set[str]:
    rows = [row.split() for row in command("nm", "--format=posix", "--defined-only", *options, binary).splitlines()]
    return {name.decode() for name, kind, *_ in rows if kind in (b"T", b"t")}


def pack_symbols(binary: Path, *options: str) -> None:
    """Strips a binary as Fedora's packages do: what the dynamic table lacks stays, packed, in `.gnu_debugdata`."""
    keep, small = binary.with_suffix(".keep"), binary.with_suffix(".small")
    keep.write_text("\n".join(sorted(functions(binary) - functions(binary, "-D"))) + "\n")
    command("objcopy", "--only-keep-debug", binary, small)
    command("objcopy", "--strip-all", "--remove-section=.comment", f"--keep-symbols={keep}", small)
    command("xz", "--force", *options, small)
    command("strip", "--strip-all", binary)
    command("objcopy", f"--add-section=.gnu_debugdata={small}.xz", binary)


@pytest.mark.parametrize("options", [[], ["--check=sha256", "-9e"], ["--x86", "--lzma2"]], ids=["", "9e", "x86"])
def test_symbols_packed_in_a_stripped_library_complete_its_dynamic_ones(
    build: Any, tmp_path: Path, options: list[str]
) -> None:
    (tmp_path / "library.cc").write_text(LIBRARY)
    library, full, bare = (tmp_path / name for name in ("libwork.so", "full.so", "bare.so"))
    command("g++", "-O1", "-fno-omit-frame-pointer", "-shared", "-fPIC", "-o", library, tmp_path / "library.cc")
    shutil.copy(library, full)
    shutil.copy(library, bare)
    command("strip", "--strip-all", bare)
    pack_symbols(library, *options)
    packed = library.read_bytes()
    data = record(
        tmp_path / "perf.data",
        ["-e", "cpu-clock", "-g", "-F", "2000", "--buildid-mmap"],
        build("fp"),
        "300",
        library,
    )

    def of(content: bytes) -> Any:
        library.write_bytes(content)  # the program has removed it
        return direct(data)

    ours = of(packed)
    # The kernel has its names where its build id is in the record of its mapping.
    assert not any(b"[unknown]_[k]" in stack for stack in ours)
    # A leaf function has no frame here, so its caller is hidden.
    assert any(stack.endswith(b";main;only_here") for stack in ours), list(ours)[:3]
    assert any(stack.endswith(b";main;library_work") for stack in ours), list(ours)[:3]
    assert ours == of(full.read_bytes())
    stripped = of(bare.read_bytes())
    assert any(stack.endswith(b";main;[libwork.so]") for stack in stripped)
    assert any(stack.endswith(b";main;library_work") for stack in stripped)
    # A section that is damaged leaves what the dynamic table has.
    at = packed.index(b"\xfd7zXZ\0") + 64
    assert of(packed[:at] + bytes(64) + packed[at + 64 :]) == stripped


def test_symbols_packed_in_a_program_are_found(build: Any, tmp_path: Path) -> None:
    program, full = tmp_path / "busy", build("fp")
    shutil.copy(full, program)
    pack_symbols(program)
    data = record(tmp_path / "perf.data", ["-e", "cpu-clock", "-g", "-F", "2000"], program, "300")
    ours = direct(data)
    names = {frame for stack in ours for frame in stack.split(b";")}
    assert {b"main", b"engine::deep", b"(anonymous namespace)::hidden"} <= names
    shutil.copy(full, program)
    theirs = direct(data)
    # Weak functions are left out of the packed symbols, by their makers' choice.
    assert all(b"[busy]" in stack for stack in ours - theirs)
    assert sum((ours & theirs).values()) > 0.5 * sum(ours.values()) > 0


# On DWARF 5 of gcc 12, dwp of binutils 2.40 crashes and llvm-dwp 14 does not end.
PACKERS = {"binutils": "dwp", "llvm": "llvm-dwp"}


@pytest.mark.parametrize(
    "packer", [pytest.param("binutils"), pytest.param("llvm", marks=pytest.mark.needs("llvm-dwp"))]
)
def test_split_debug_information_in_one_package_is_that_of_the_single_files(tmp_path: Path, packer: str) -> None:
    program = tmp_path / "busy"
    # Two units with split information, so that the package has something to index.
    (tmp_path / "other.cc").write_text("int other_unit(int x) { return x + 1; }\n")
    flags = ["-std=c++17", "-O1", "-g", "-gdwarf-4", "-gsplit-dwarf", "-fno-omit-frame-pointer"]
    for source in (SOURCE, tmp_path / "other.cc"):
        command("g++", *flags, "-c", source, "-o", tmp_path / f"{source.stem}.o")
    command("g++", "-o", program, *sorted(tmp_path.glob("*.o")), "-ldl")
    single = sorted(tmp_path.glob("*.dwo"))
    assert len(single) == 2
    data = record(tmp_path / "perf.data", ["-e", "cpu-clock", "-g", "-F", "2000"], program, "300")
    marked = stacks(run("-q", "--inlines", data).stdout)
    inlined = b"(anonymous namespace)::hidden;turn_[i]"
    assert any(stack.endswith(inlined) for stack in marked)
    command(PACKERS[packer], "-e", program, "-o", f"{program}.dwp")
    for unit in single:
        unit.unlink()
    assert stacks(run("-q", "--inlines", data).stdout) == marked
    Path(f"{program}.dwp").unlink()
    assert not any(stack.endswith(inlined) for stack in stacks(run("-q", "--inlines", data).stdout))


@pytest.mark.parametrize("how", ["zlib", "zlib-gnu", "zstd"])
def test_compressed_debug_sections_have_the_inlined_functions(build: Any, tmp_path: Path, how: str) -> None:
    program = tmp_path / "busy"
    command("objcopy", f"--compress-debug-sections={how}", build("debug"), program)
    data = record(tmp_path / "perf.data", ["-e", "cpu-clock", "-g", "-F", "2000"], program, "300")
    marked = stacks(run("-q", "--inlines", data).stdout)
    assert any(stack.endswith(b"(anonymous namespace)::hidden;turn_[i]") for stack in marked)
    shutil.copy(build("debug"), program)
    assert stacks(run("-q", "--inlines", data).stdout) == marked
    assert stats(data, tmp_path)["notes"] == []
