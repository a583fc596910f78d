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

/* The outermost call of a thread that is under way. */
struct call {
	u64 at;       /* as `call_of`; 0: none */
	u64 back;     /* the address that it returns to, which lies there while it lasts; 0: not known */
	u32 function; /* by its place */
	u32 within;   /* goroutines: calls within it */
};

static __always_inline u64 return_address(u64 stack)
{
	u64 address = 0;
	if (RETURN_SIZE && !is_go)
		bpf_probe_read_user(&address, sizeof(address), (void *)stack);
	return address;
}

static __always_inline void call_begins(struct call *call, struct pt_regs *context)
{
	call->at = call_of(context, context->sp);
	call->back = return_address(context->sp);
	call->function = bpf_get_attach_cookie(context);
	call->within = 0;
}

/* Whether the call that begins now is within this one. If it is not, an exception or a jump left this one. */
static __always_inline bool is_within(struct call *call, struct pt_regs *context)
{
	u64 at = call_of(context, context->sp);
	u32 function = bpf_get_attach_cookie(context);
	/* A function that ends in a jump to another one gives it its place on the stack. */
	if (is_go ? at == call->at : at == call->at && function != call->function) {
		call->within += is_go;
		return true;
	}
	return !is_go && at < call->at && return_address(call->at) == call->back;
}

/* Whether what is left now is this call. */
static __always_inline bool call_ends(struct call *call, struct pt_regs *context, u64 stack)
{
	if (call->at != call_of(context, stack))
		return false;
	if (!call->within)
		return true;
	call->within--;
	return false;
}

static __always_inline u64 entry_stack(struct pt_regs *context)
{
	u64 cookie = bpf_get_attach_cookie(context), stack = context->sp, frame = FRAME(context);
	/* Read both: a clang that reads the one that it needs adds an offset to the context, which the verifier refuses. */
	asm volatile("" : "+r"(stack), "+r"(frame));
	return (cookie & BY_FRAME ? frame : stack) + ((s64)cookie >> DISTANCE_SHIFT);
}

/* From Linux 6.13 on a program of an uprobe that needs 64 bytes of stack has one stack on each CPU, as if it could not run
 * there twice at a time. It can: it is preempted, and another thread's run writes over what this one holds. A program with a
 * tail call keeps its values on the thread's own stack. This one is never made: the verifier takes it out. */
MAP(no_programs, PROG_ARRAY, 1, u32, u32);
const volatile int never = 0;

static __always_inline void keep_own_stack(struct pt_regs *context)
{
	if (never)
		bpf_tail_call(context, &no_programs, 0);
}

#define WATCH_ENTRY(name, enter)                                                                                       \
	SEC("?uprobe")                                                                                                 \
	int name##_entry(struct pt_regs *context)                                                                      \
	{                                                                                                              \
		keep_own_stack(context);                                                                               \
		enter(context);                                                                                        \
		return 0;                                                                                              \
	}

/* Programs NAME_entry, NAME_exit and NAME_return. enter: of the context; leave: and of the stack pointer at the entry. */
#define WATCH_FUNCTION(name, enter, leave)                                                                             \
	WATCH_ENTRY(name, enter)                                                                                       \
	SEC("?uprobe")                                                                                                 \
	int name##_exit(struct pt_regs *context)                                                                       \
	{                                                                                                              \
		keep_own_stack(context);                                                                               \
		leave(context, entry_stack(context));                                                                  \
		return 0;                                                                                              \
	}                                                                                                              \
	SEC("?uretprobe")                                                                                              \
	int name##_return(struct pt_regs *context)                                                                     \
	{                                                                                                              \
		keep_own_stack(context);                                                                               \
		leave(context, context->sp - RETURN_SIZE);                                                             \
		return 0;                                                                                              \
	}
