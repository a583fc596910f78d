"""Whether a stack reaches the start of its thread is found without names: most C libraries ship without them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.folding.recordings import by_text, checked, direct, record, run, stacks, stats
from tests.programs import FRAMES, compiled

pytestmark = [pytest.mark.long, pytest.mark.needs("perf")]

_TWO_THREADS = """
#include <pthread.h>
#include <stdlib.h>
static volatile unsigned sink;
__attribute__((noinline)) static void turn(unsigned times) {
  for (unsigned i = 0; i < times; i++) sink = sink * 31 + i;
  sink = sink + 1;
}
static void* work(void* rounds) {
  for (unsigned long i = 0; i < (unsigned long)rounds; i++) turn(20000);
  sink = sink + 1;
  return rounds;
}
int main(int argc, char** argv) {
  void* rounds = (void*)strtoul(argv[1], 0, 10);
  pthread_t other;
  if (pthread_create(&other, 0, work, rounds)) return 1;
  work(rounds);
  return pthread_join(other, 0);
}
"""


@pytest.mark.parametrize("graph", ["fp", "dwarf"])
@pytest.mark.parametrize("linked", ["-static", "-no-pie", "-pie"])
def test_stacks_are_as_whole_without_names(tmp_path: Path, linked: str, graph: str) -> None:
    program = compiled(_TWO_THREADS, tmp_path / "threads", *FRAMES, linked, "-pthread")
    data = record(tmp_path / "perf.data", ["-e", "cpu-clock", "-F", "999", "--call-graph", graph], program, "3000")
    named = stats(data, tmp_path)
    subprocess.run(["strip", program], check=True)
    nameless = stats(data, tmp_path)
    assert nameless["unresolved_weight"] > named["unresolved_weight"]
    assert nameless["incomplete_weight"] == named["incomplete_weight"]
    # A static C library has no frame pointers: what is left in the register where main was called is cut.
    assert named["incomplete_weight"] < 0.02 * named["weight"]


# As glibc 2.43: the function that calls main keeps argv where others have the frame pointer.
_ARGV_IN_THE_FRAME_POINTER = """
__asm__(".globl _start; .type _start, @function; _start: .cfi_startproc; .cfi_undefined rip;"
        "xor %ebp, %ebp; mov %rsp, %rdi; and $-16, %rsp; call NAME; hlt; .cfi_endproc; .size _start, .-_start;"
        ".type NAME, @function; NAME: .cfi_startproc; push %rbp; .cfi_def_cfa_offset 16; .cfi_offset rbp, -16;"
        "lea 8(%rdi), %rbp; mov (%rdi), %edi; mov %rbp, %rsi; call main; mov $231, %eax; xor %edi, %edi; syscall; hlt;"
        ".cfi_endproc; .size NAME, .-NAME");
static volatile unsigned sink;
__attribute__((noinline)) static void turn(unsigned times) {
  for (unsigned i = 0; i < times; i++) sink = sink * 31 + i;
}
__attribute__((noinline)) static void work(void) {
  for (int i = 0; i < 10000; i++) turn(20000);
  sink++;
}
int main(void) {
  work();
  return 0;
}
"""


@pytest.mark.needs("x86_64")
@pytest.mark.parametrize("name", ["__libc_start_main_impl", "begin_process"])
def test_argv_in_the_frame_pointer_is_no_caller(tmp_path: Path, name: str) -> None:
    source = _ARGV_IN_THE_FRAME_POINTER.replace("NAME", name)
    program = compiled(source, tmp_path / "argv", *FRAMES, "-static", "-nostdlib", "-fno-stack-protector")
    data = record(tmp_path / "perf.data", ["-e", "cpu-clock:u", "-F", "999", "-g"], program, "first", "second")
    assert any(stack.startswith(f"argv;{name};main;".encode()) for stack in direct(data))
    assert "total equal" in checked(data)
    if name.startswith("__libc_start"):
        assert by_text(data) == direct(data)
    pprof = tmp_path / "x.pb.gz"
    assert run("-q", "-o", pprof, data).returncode == 0
    assert stacks(run("-q", pprof).stdout) == direct(data)
    subprocess.run(["strip", program], check=True)
    nameless = stats(data, tmp_path)
    assert nameless["incomplete_weight"] == 0
    assert nameless["beyond_start_weight"] == nameless["weight"] > 0
    assert direct(data).keys() == {b"argv;[argv];[argv];[argv]"}


@pytest.mark.parametrize("version", ["1", "3", "4"])
def test_tables_of_debug_frame_are_used_beside_those_that_the_program_was_linked_with(
    tmp_path: Path, version: str
) -> None:
    flags = ["-O2", "-g", "-fomit-frame-pointer", "-fno-asynchronous-unwind-tables", "-Wl,--build-id", "-pthread"]
    flags.append(f"-Wa,--gdwarf-cie-version={version}")
    program = compiled(_TWO_THREADS, tmp_path / "tables", *flags)
    sections = subprocess.run(["readelf", "-SW", program], capture_output=True, text=True, check=True).stdout
    assert " .eh_frame " in sections and " .debug_frame " in sections
    options = ["-e", "cpu-clock:u", "-F", "999", "--call-graph", "dwarf"]
    data = record(tmp_path / "perf.data", options, program, "5000")
    whole = stats(data, tmp_path)
    assert whole["incomplete_weight"] < 0.02 * whole["weight"]
    assert any(b";main;" in stack for stack in direct(data))
    # A stripped file has them in the file of its debug information.
    debug = tmp_path / "tables.debug"
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", program], check=True)
    assert stats(data, tmp_path)["incomplete_weight"] == whole["incomplete_weight"]
    # Without any it is said what is missing.
    debug.unlink()
    bare = stats(data, tmp_path)
    assert bare["incomplete_weight"] > 0.9 * bare["weight"]
    assert bare["cut_copies"]["by_code"] > 0.9 * bare["weight"]


# It goes round with an address in the frame pointer that lies behind any copy.
_CODE_MADE_AT_RUN_TIME = """
#include <string.h>
#include <sys/mman.h>
static const unsigned char turn[] = {0x55, 0x48, 0x8d, 0xac, 0x24, 0, 0, 0x10, 0, 0xb9, 0, 0x80, 0, 0,
                                     0xff, 0xc9, 0x75, 0xfc, 0x5d, 0xc3};
int main(void) {
  void* code = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(code, turn, sizeof turn);
  for (int i = 0; i < 20000; i++) ((void (*)(void))code)();
  return 0;
}
"""


@pytest.mark.needs("x86_64")
def test_stacks_that_end_in_code_without_tables_are_not_said_to_be_copied_too_short(tmp_path: Path) -> None:
    program = compiled(_CODE_MADE_AT_RUN_TIME, tmp_path / "jit", "-O1")
    data = record(tmp_path / "perf.data", ["-e", "cpu-clock:u", "-F", "999", "--call-graph", "dwarf"], program)
    cut = stats(data, tmp_path)["cut_copies"]
    assert cut["by_code"] > 0.9 * stats(data, tmp_path)["weight"]
    assert cut["by_size"] == cut["by_page"] == 0
    said = run("-o", "/dev/null", data).stderr.decode()
    assert "perf inject -j" in said and "never written to" not in said


def test_a_stack_that_ends_in_a_function_that_returns_is_incomplete_with_and_without_names(tmp_path: Path) -> None:
    program = compiled(_TWO_THREADS, tmp_path / "threads", "-O2", "-fomit-frame-pointer", "-static", "-pthread")
    # Of frame pointers that nobody keeps, nothing is seen but the leaf.
    data = record(tmp_path / "perf.data", ["-e", "cpu-clock", "-F", "999", "-g"], program, "3000")
    named = stats(data, tmp_path)
    subprocess.run(["strip", program], check=True)
    assert stats(data, tmp_path)["incomplete_weight"] == named["incomplete_weight"] > 0.9 * named["weight"]


def test_names_that_perf_has_kept_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = compiled(_TWO_THREADS, tmp_path / "threads", *FRAMES, "-pthread", "-Wl,--build-id")
    data = record(tmp_path / "perf.data", ["-N", "-e", "cpu-clock", "-F", "999", "-g"], program, "1000")
    named, full = direct(data), shutil.copy(program, tmp_path / "full")
    subprocess.run(["strip", program], check=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert not any(b";main" in stack for stack in direct(data))
    notes = subprocess.run(["readelf", "-n", program], capture_output=True, text=True, check=True).stdout
    (build_id,) = re.findall("Build ID: ([0-9a-f]+)", notes)
    kept = tmp_path / ".debug" / ".build-id" / build_id[:2] / build_id[2:] / "debug"
    kept.parent.mkdir(parents=True)
    shutil.copy(full, kept)
    assert direct(data) == named
