/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* What a thread is about when it leaves its CPU, by `enum state`: IO where the kernel counts it as waiting for IO
 * (in_iowait), SLEEP for any sleep that a signal ends: user space finds out what for. */
#pragma once

#include "states.h"
#include "threads.h"

#define STATE_SLOTS 16 /* a power of two, so that an index can be masked into it */
_Static_assert(STATES < STATE_SLOTS, "each state has a slot");

static __always_inline u32 state_of(struct task_struct *task, bool preempt, u32 state)
{
	if (preempt || !state)
		return PREEMPTED;
	if (BPF_CORE_READ_BITFIELD(task, in_iowait))
		return IO;
	if (state & TASK_UNINTERRUPTIBLE)
		return UNINTERRUPTIBLE;
	return state & TASK_STOPPED_OR_TRACED ? STOPPED : SLEEP;
}

/* clang must not use what it knows of a state to leave the mask out: the verifier does not know it. */
static __always_inline u64 slot_of(u32 state)
{
	u64 slot = state;
	asm volatile("" : "+r"(slot));
	return slot & (STATE_SLOTS - 1);
}
