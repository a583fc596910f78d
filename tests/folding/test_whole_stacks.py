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
