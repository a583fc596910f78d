/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* Stacks, each kept once. Who includes this has told before what is lost: LOST_STACK (the map was full), NO_STACK (the
 * kernel could not walk it), and lose().
 *
 * They are kept by a 64-bit hash of their addresses in a hash map of our own: a BPF stack map has one place for each
 * hash, so of 500 different stacks in 16,384 places it loses about 8 to collisions. */
#pragma once

#include "common.h"

#define DEPTH 127 /* the kernel's default of perf_event_max_stack */

/* Stack numbers that mean no stack. */
enum no_stack { NOT_THERE, NOT_KEPT };

SHOW_ENUM(no_stack);

struct stack {
	u64 depth;
	u64 addresses[DEPTH];
};

MAP(stacks, HASH, 16384, u64, struct stack);
/* The second one is for programs that may interrupt the others. */
MAP(scratch, PERCPU_ARRAY, 2, u32, struct stack);

/* The stack of the current task as the number it is kept under. */
static __always_inline u64 take_stack_into(u32 room, void *ctx, u64 flags)
{
	struct stack *stack = bpf_map_lookup_elem(&scratch, &room);
	if (!stack)
		return NOT_KEPT;
	long size = bpf_get_stack(ctx, stack->addresses, sizeof(stack->addresses), flags);
	if (size <= 0) {
		if (size < 0)
			lose(NO_STACK);
		return NOT_THERE;
	}
	stack->depth = (u64)size / sizeof(u64);
	u64 hash = 0x9e3779b97f4a7c15ULL ^ flags;
	for (u32 i = 0; i < DEPTH; i++) {
		if (i >= stack->depth)
			break;
		hash = (hash ^ stack->addresses[i]) * 0xff51afd7ed558ccdULL;
		hash ^= hash >> 32;
	}
	if (hash <= NOT_KEPT)
		hash = 2;
	if (!find_or_add(&stacks, &hash, stack)) {
		lose(LOST_STACK);
		return NOT_KEPT;
	}
	return hash;
}

static __always_inline u64 take_stack(void *ctx, u64 flags)
{
	return take_stack_into(0, ctx, flags);
}
