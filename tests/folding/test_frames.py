"""Copied stacks of code that keeps its frame neither at the stack pointer nor at the frame pointer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.folding.recordings import by_text, direct, record, share_of_differences
from tests.programs import compiled

pytestmark = [pytest.mark.long, pytest.mark.needs("perf", "x86_64")]

# What glibc's _dl_runtime_resolve_xsavec and OpenSSL's ciphers do: the stack is aligned, and where it was is kept in a
# register that others give back (rbx), in one that nobody does (rax), or on the aligned stack itself.
PROGRAM = r"""
#include <time.h>
static volatile unsigned sink;

__attribute__((noinline)) void work(void) { for (unsigned i = 0; i < 20000; i++) sink = sink * 31 + i; }

// Saves rbx and uses it, so that whoever asks what was in it has to look where it was saved.
__attribute__((noinline)) void uses_rbx(void) {
  register unsigned kept __asm__("rbx") = sink;
  __asm__ volatile("" : "+r"(kept));
  work();
  __asm__ volatile("" : "+r"(kept));
  sink = kept;
}

void by_rbx(void (*)(void));
void by_stack(void (*)(void));
void by_rax(void);

#define TURNS "  mov $60000, %ecx\n1:\n  dec %ecx\n  jnz 1b\n"
#define BEGIN(name) ".globl " #name "\n.type " #name ", @function\n" #name ":\n.cfi_startproc\n"
#define END(name) ".cfi_endproc\n.size " #name ", .-" #name "\n"
__asm__(
  ".text\n" BEGIN(by_rbx)
  "  push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset %rbx, 0\n"
  "  mov %rsp, %rbx\n.cfi_def_cfa_register %rbx\n"
  "  and $-256, %rsp\n  sub $512, %rsp\n  call *%rdi\n"
  "  mov %rbx, %rsp\n.cfi_def_cfa_register %rsp\n"
  "  pop %rbx\n.cfi_adjust_cfa_offset -8\n.cfi_restore %rbx\n  ret\n" END(by_rbx)
  BEGIN(by_rax)
  "  mov %rsp, %rax\n.cfi_def_cfa_register %rax\n  and $-256, %rsp\n  sub $512, %rsp\n"
  TURNS
  "  mov %rax, %rsp\n.cfi_def_cfa_register %rsp\n  ret\n" END(by_rax)
  BEGIN(by_stack)
  "  mov %rsp, %rax\n.cfi_def_cfa_register %rax\n  and $-256, %rsp\n  sub $512, %rsp\n  mov %rax, 16(%rsp)\n"
  // DW_CFA_def_cfa_expression: DW_OP_breg7 (rsp) 16, DW_OP_deref, DW_OP_plus_uconst 8
  ".cfi_escape 0x0f, 5, 0x77, 16, 0x06, 0x23, 8\n"
  "  call *%rdi\n"
  "  mov 16(%rsp), %rsp\n.cfi_def_cfa %rsp, 8\n  ret\n" END(by_stack)
  ".section .note.GNU-stack,\"\",@progbits\n.text\n");

// The frame pointer is of use here: to go by it would leave this function out.
__attribute__((noinline, optimize("no-omit-frame-pointer"))) void around(int way) {
  switch (way) {
    case 0: by_rbx(uses_rbx); break;
    case 1: by_stack(uses_rbx); break;
    default: by_rax();
  }
  sink++;
}

int main(void) {
  // Its own time on the CPU.
  while (clock() < CLOCKS_PER_SEC * 3 / 10)
    for (int way = 0; way < 3; way++) around(way);
}
"""


def test_callers_are_found_where_the_frame_is_kept_in_another_register_or_in_memory(tmp_path: Path) -> None:
    program = compiled(PROGRAM, tmp_path / "frames", "-O1", "-fomit-frame-pointer")
    data = record(tmp_path / "perf.data", ["-e", "cpu-clock", "-F", "2000", "--call-graph", "dwarf,8192"], program)
    ours = direct(data)
    for inner in (b"by_rbx;uses_rbx;work", b"by_stack;uses_rbx;work", b"by_rax"):
        ends = [stack for stack in ours if stack.endswith(b";" + inner)]
        assert ends, inner
        assert all(stack.endswith(b";main;around;" + inner) for stack in ends), ends
    assert share_of_differences(ours, by_text(data)) < 0.01
