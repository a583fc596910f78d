/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* A function watched at its entry and where it is left: by probes of its own return instructions (`exits.rs`), or, where the
 * user insists, by a return trampoline. That stands on the stack in place of the return address, and ends a process whose
 * exceptions, coroutines or runtime read the stack. */
#pragma once

#include "common.h"

/* Stacks of goroutines move: a call is known by its goroutine. */
const volatile int is_go = 0;

/* The stack pointer at the function's entry, as an exit's cookie says it: the stack or frame pointer at the exit, plus the
 * signed number in the upper 24 bits. Below it is the place of the function. */
#define BY_FRAME (1ull << 32)
#define DISTANCE_SHIFT 40

#if defined(__TARGET_ARCH_x86)
#define GOROUTINE(context) ((context)->r14)
#define FRAME(context) ((context)->bp)
#define RETURN_SIZE 8 /* of an address on the stack */
#else
#define GOROUTINE(context) ((context)->regs[28])
#define FRAME(context) ((context)->regs[29])
#define RETURN_SIZE 0
#endif

/* What a call is known by: the stack pointer at its entry, which is the same at its exits. */
static __always_inline u64 call_of(struct pt_regs *context, u64 stack)
{
	return is_go ? GOROUTINE(context) : stack;
}

/* The address that a call at `stack` returns to: its own while it lasts. 0: not known. */
static __always_inline u64 return_address(u64 stack)
{
	u64 address = 0;
	if (RETURN_SIZE)
		bpf_probe_read_user(&address, sizeof(address), (void *)stack);
	return address;
}

/* Whether the call known as `outer`, which returns to `back`, still is under way when another one begins: if it is not, an
 * exception or a jump left it. */
static __always_inline bool is_within(u64 call, u64 outer, u64 back)
{
	return is_go ? call == outer : call < outer && return_address(outer) == back;
}

static __always_inline u64 entry_stack(struct pt_regs *context)
{
	u64 cookie = bpf_get_attach_cookie(context), stack = context->sp, frame = FRAME(context);
	/* Read both: a clang that reads the one that it needs adds an offset to the context, which the verifier refuses. */
	asm volatile("" : "+r"(stack), "+r"(frame));
	return (cookie & BY_FRAME ? frame : stack) + ((s64)cookie >> DISTANCE_SHIFT);
}

#define WATCH_ENTRY(name, enter)                                                                                       \
	SEC("?uprobe")                                                                                                 \
	int name##_entry(struct pt_regs *context)                                                                      \
	{                                                                                                              \
		enter(context);                                                                                        \
		return 0;                                                                                              \
	}

/* Programs NAME_entry, NAME_exit and NAME_return. enter: of the context; leave: and of the stack pointer at the entry. */
#define WATCH_FUNCTION(name, enter, leave)                                                                             \
	WATCH_ENTRY(name, enter)                                                                                       \
	SEC("?uprobe")                                                                                                 \
	int name##_exit(struct pt_regs *context)                                                                       \
	{                                                                                                              \
		leave(context, entry_stack(context));                                                                  \
		return 0;                                                                                              \
	}                                                                                                              \
	SEC("?uretprobe")                                                                                              \
	int name##_return(struct pt_regs *context)                                                                     \
	{                                                                                                              \
		leave(context, context->sp - RETURN_SIZE);                                                             \
		return 0;                                                                                              \
	}
