/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* What a thread that sleeps in a futex call shows of it: the operation, the value that the word was to have, and which
 * function of the C library is on its stack. User space makes a lock, a condition or a join of that
 * (src/offcpu/futex.rs). */
#pragma once

#include "common.h"

#if defined(__TARGET_ARCH_x86)
#define CALL_NUMBER(regs) BPF_CORE_READ(regs, orig_ax)
#define CALL_OPERATION(regs) BPF_CORE_READ(regs, si)
#define CALL_VALUE(regs) BPF_CORE_READ(regs, dx)
#define CALL_PLACE(regs) BPF_CORE_READ(regs, ip)
#define NR_FUTEX 202
#elif defined(__TARGET_ARCH_arm64)
#define CALL_NUMBER(regs) BPF_CORE_READ(regs, syscallno)
#define CALL_OPERATION(regs) BPF_CORE_READ(regs, regs[1])
#define CALL_VALUE(regs) BPF_CORE_READ(regs, regs[2])
#define CALL_PLACE(regs) BPF_CORE_READ(regs, pc)
#define NR_FUTEX 98
#else
#error "which registers hold a system call's arguments on this architecture?"
#endif

enum futex_how {
	FUTEX_COMMAND = 0x7f, /* of the operation, without its flag */
	FUTEX_PRIVATE = 0x80,
	FUTEX_OPERATION = FUTEX_COMMAND | FUTEX_PRIVATE,
	FUTEX_SEEN = 0x100,    /* by the system call's number */
	FUTEX_LIBRARY = 0x200, /* the call was made in the C library's own code */
};
#define FUTEX_WAITERS 0x80000000u

struct futex {
	u64 caller; /* in the innermost of `callers`: return address - 1, or the call's own; 0: none on the stack */
	u32 how;
	u32 value;
};

struct range {
	u64 low, high;
};

enum futex_room {
	CALLERS = 64,
	/* Words of the stack that are looked through: what lies between the call and the function that is on the list is the
	 * C library's own, 7 words in glibc 2.36, and the first hit counts. */
	STACK_WORDS = 32,
};

/* Functions of the C library that wait, as the process has them mapped, by address; code of the library itself. */
const volatile struct range callers[CALLERS] = {};
const volatile u32 callers_known = 0;
const volatile struct range library = {};

/* A function of its own to the verifier, which looks through it once: inlined into the loop below, it took as long as
 * all other programs together. */
__noinline int is_caller(u64 address)
{
	for (u32 i = 0; i < CALLERS; i++) {
		if (i >= callers_known)
			break;
		if (address >= callers[i].low && address < callers[i].high)
			return 1;
	}
	return 0;
}

/* words: room for STACK_WORDS */
static __always_inline void read_futex(struct task_struct *task, struct futex *futex, u64 *words)
{
	/* Before Linux 5.15 the kernel's stack alone tells. */
	if (!HAS_HELPER(task_pt_regs))
		return;
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	if (CALL_NUMBER(regs) != NR_FUTEX)
		return;
	u64 place = CALL_PLACE(regs);
	u32 value = CALL_VALUE(regs);
	futex->how = FUTEX_SEEN | (CALL_OPERATION(regs) & FUTEX_OPERATION);
	if (place >= library.low && place < library.high)
		futex->how |= FUTEX_LIBRARY;
	/* Of a word that only this process knows, what matters is whether it is 0, 2 or has the bit of waiters: all else would
	 * only make keys of one place different. A shared one may hold the number of a thread. */
	if (futex->how & FUTEX_PRIVATE && value != 0 && value != 2)
		value = value & FUTEX_WAITERS ? FUTEX_WAITERS : 1;
	futex->value = value;
	if (is_caller(place)) {
		futex->caller = place;
		return;
	}
	if (bpf_probe_read_user(words, STACK_WORDS * sizeof(*words), (void *)BPF_CORE_READ(regs, sp)))
		return;
	for (u32 i = 0; i < STACK_WORDS; i++) {
		/* Where a call returns to is behind it, and so may be behind the function that made it. */
		if (is_caller(words[i] - 1)) {
			futex->caller = words[i] - 1;
			return;
		}
	}
}
