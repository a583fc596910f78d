"""Where symbols and inlined functions are, besides in the binary itself: packed in it, or beside it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import DEV_TOOLS
from tests.folding.recordings import CHAINS, SOURCE, direct, record, run, stacks, stats
from tests.programs import FRAMES, compiled

pytestmark = [pytest.mark.long, pytest.mark.needs("perf")]

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


def section(binary: Path, name: str) -> bytes:
    out, copy = binary.with_suffix(".section"), binary.with_suffix(".copy")
    command("objcopy", "--dump-section", f"{name}={out}", binary, copy)
    return out.read_bytes()


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
    library, full, bare = (tmp_path / name for name in ("libwork.so", "full.so", "bare.so"))
    compiled(LIBRARY, library, *FRAMES, "-shared", "-fPIC", compiler="g++")
    shutil.copy(library, full)
    shutil.copy(library, bare)
    command("strip", "--strip-all", bare)
    pack_symbols(library, *options)
    packed = library.read_bytes()
    # Of user space alone: BPF programs of others are frames of the kernel's stacks, and come and go.
    data = record(tmp_path / "perf.data", ["-e", "cpu-clock:u", *CHAINS[2:]], build("fp"), "300", library)

    def of(content: bytes) -> Any:
        library.write_bytes(content)  # the program has removed it
        return direct(data)

    ours = of(packed)
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


GO_PROGRAM = """package main

// static volatile unsigned sink;
// static void in_c(void) { for (unsigned i = 0; i < 100000; i++) sink += i; }
import "C"

//go:noinline
func turnTheCrank(n int) (sum int) {
	for i := 0; i < n; i++ { sum += i ^ (sum >> 3) }
	return
}

type crank struct{ turns int }

//go:noinline
func (c *crank) turn() {
	for i := 0; i < 100000; i++ { c.turns += i ^ (c.turns >> 3) }
	c.turns += turnTheCrank(100000); C.in_c()
}

func main() { c := &crank{}; for n := 0; n < 2000; n++ { c.turn() } }
"""


@pytest.mark.needs("go")
@pytest.mark.parametrize("with_c", [True, False], ids=["cgo", "pure"])
@pytest.mark.parametrize("mode", ["exe", "pie"])
def test_a_stripped_program_of_go_has_the_names_of_its_own_table(tmp_path: Path, mode: str, with_c: bool) -> None:
    source = GO_PROGRAM
    if not with_c:
        source = "\n".join(line for line in source.splitlines() if line != 'import "C"').replace("; C.in_c()", "")
    (tmp_path / "main.go").write_text(source)
    program, full = tmp_path / "crank", tmp_path / "full"
    go = ["env", f"CGO_ENABLED={int(with_c)}", "go", "build", f"-buildmode={mode}"]
    command(*go, "-o", full, tmp_path / "main.go")
    command("strip", "--strip-all", "-o", program, full)
    data = record(tmp_path / "perf.data", CHAINS, program)

    def of_go() -> dict[tuple[bytes, ...], int]:
        """Weight by the program's own frames: of the run time's, symbol tables know aliases."""
        found: dict[tuple[bytes, ...], int] = {}
        for stack, weight in direct(data).items():
            frames = [frame.removesuffix(b".abi0") for frame in stack.split(b";")]
            named = tuple(frame for frame in frames if frame.startswith((b"main.", b"runtime.main")))
            found[named] = found.get(named, 0) + weight
        return found

    ours = of_go()
    # A leaf has no frame, so its caller is hidden.
    for name in (b"main.turnTheCrank", b"main.(*crank).turn"):
        assert any(stack[-2:] == (b"main.main", name) for stack in ours), ours
    shutil.copy(full, program)
    assert ours == of_go()


# A unit that runs before main, with an inlined function whose unlikely part lies elsewhere: it has ranges, not a range.
OTHER_UNIT = """
static volatile unsigned sink;
static __attribute__((cold, noinline)) void seldom() { sink = 1; }
static inline __attribute__((always_inline)) void other_turn(unsigned times) {
  for (unsigned i = 0; i < times; i++) {
    sink = sink * 31 + i;
    if (__builtin_expect(sink == 7, 0)) { seldom(); sink = sink + i; }
  }
}
__attribute__((constructor, noinline)) void other_unit() {
  for (int i = 0; i < 2000; i++) { other_turn(20000); sink = sink + 1; }
}
"""
# In version 5 binutils' dwp 2.40 crashes, and llvm-dwp (14, 19) does not end on gcc's. Thorin is the packer of rustc.
PACKERS = [
    pytest.param("g++", 4, "dwp", id="binutils-dwarf4"),
    pytest.param("g++", 4, "llvm-dwp", marks=pytest.mark.needs("llvm-dwp"), id="llvm-dwarf4"),
    pytest.param("clang++", 5, "llvm-dwp", marks=pytest.mark.needs("llvm-dwp", "clang"), id="llvm-dwarf5"),
    pytest.param("g++", 5, str(DEV_TOOLS / "thorin"), marks=pytest.mark.needs("thorin"), id="thorin-dwarf5"),
]


@pytest.mark.parametrize(("compiler", "version", "packer"), PACKERS)
def test_split_debug_information_in_one_package_is_that_of_the_single_files(
    tmp_path: Path, compiler: str, version: int, packer: str
) -> None:
    program = tmp_path / "busy"
    # Two units with split information, so that what belongs to the second does not lie at the start of the package.
    (tmp_path / "other.cc").write_text(OTHER_UNIT)
    flags = ["-std=c++17", "-g", f"-gdwarf-{version}", "-fno-omit-frame-pointer"]
    for split in (["-gsplit-dwarf"], []):
        for source, level in ((SOURCE, "-O1"), (tmp_path / "other.cc", "-O2")):
            compiled(source, tmp_path / f"{source.stem}.o", *flags, *split, level, "-c", compiler=compiler)
        # One build id for both; the linker's own depends on the debug information.
        linked = (f"-Wl,--build-id=0x{'5a' * 20}", tmp_path / "other.o", "-ldl")
        compiled(tmp_path / "busy.o", program if split else tmp_path / "whole", *linked, compiler=compiler)
    single = sorted(tmp_path.glob("*.dwo"))
    assert len(single) == 2
    data = record(tmp_path / "perf.data", CHAINS, program, "300")

    def of_program() -> dict[bytes, int]:
        return stacks(run("-q", "--inlines", data).stdout)

    marked = of_program()
    inlined = (b"(anonymous namespace)::hidden;turn_[i]", b"other_unit;other_turn_[i]")
    for end in inlined:
        assert any(stack.endswith(end) for stack in marked), end
    command(packer, "-e", program, "-o", f"{program}.dwp")
    assert int.from_bytes(section(Path(f"{program}.dwp"), ".debug_cu_index")[:2], "little") == {4: 2}.get(version, 5)
    for unit in single:
        unit.unlink()
    assert of_program() == marked
    Path(f"{program}.dwp").unlink()
    assert not any(stack.endswith(inlined) for stack in of_program())
    # The same code with the debug information in it.
    code = section(program, ".text")
    shutil.copy(tmp_path / "whole", program)
    assert section(program, ".text") == code
    assert of_program() == marked


@pytest.mark.parametrize("how", ["zlib", "zlib-gnu", "zstd"])
def test_compressed_debug_sections_have_the_inlined_functions(build: Any, tmp_path: Path, how: str) -> None:
    program = tmp_path / "busy"
    command("objcopy", f"--compress-debug-sections={how}", build("debug"), program)
    data = record(tmp_path / "perf.data", CHAINS, program, "300")
    marked = stacks(run("-q", "--inlines", data).stdout)
    assert any(stack.endswith(b"(anonymous namespace)::hidden;turn_[i]") for stack in marked)
    shutil.copy(build("debug"), program)
    assert stacks(run("-q", "--inlines", data).stdout) == marked
    assert stats(data, tmp_path)["notes"] == []
