/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* The threads of one process as the scheduler sees them: `prev` and `next` are not `current`, so that the
 * helper that translates pids into the loader's namespace does not do. */
#pragma once

#include "common.h"

/* The process's tgid in the kernel's own numbers, where the loader's namespace is not the first one: found at the first
 * of its threads that is seen. */
volatile u32 global_tgid = 0;

/* When the process was created (task_struct's start_time), found in the same way: it distinguishes a later process with
 * the same number. The loader makes sure that the process is alive once the programs are attached. */
volatile u64 process_start = 0;

static __always_inline int has_its_number(struct task_struct *task)
{
	u32 tgid = task->tgid;
	if ((u32)pidns_ino == FIRST_PID_NAMESPACE)
		return tgid == target_tgid;
	if (global_tgid)
		return tgid == global_tgid;
	if (!tgid || ids_of(task).tgid != target_tgid)
		return 0;
	global_tgid = tgid;
	return 1;
}

static __always_inline int is_target(struct task_struct *task)
{
	if (!has_its_number(task))
		return 0;
	u64 start = start_of(task);
	if (!process_start)
		process_start = start;
	return start == process_start;
}

/* The kernel's task states that count here; the first four bits have not moved since 2.6. */
#define TASK_UNINTERRUPTIBLE 2
#define TASK_STOPPED_OR_TRACED (4 | 8)
#define TASK_DEAD 0x80
#define TASK_WAKING 0x200

/* A completion wakes its waiter in the same interrupt: within so many ns. */
#define AT_ONCE 100000

static __always_inline u32 state_now(struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return BPF_CORE_READ(task, __state);
	struct task_struct___before_5_14 *old = (void *)task;
	return BPF_CORE_READ(old, state);
}

/* The state in which a thread leaves its CPU; ctx: of sched_switch */
static __always_inline u32 state_left(unsigned long long *ctx, struct task_struct *prev)
{
	if (!switch_has_state)
		return state_now(prev);
	u64 state = ctx[3];
	/* Read here alone: there may be no such argument. */
	asm volatile("" : "+r"(state));
	return state;
}

/* Whether a thread switched out to sleep need not any more: it was woken (or has a signal) since it decided to. */
static __always_inline int woken_meanwhile(struct task_struct *prev, u32 state)
{
	return state_now(prev) != state || (!switch_has_state && state & TASK_WAKING);
}

/* When the wait was over of a thread that left its CPU at `left` and has one again `now`. woken: when it was woken
 * last; got: when it got its CPU before, after which that counts */
static __always_inline u64 wait_over(bool preempted, u64 woken, u64 got, u64 left, u64 now)
{
	u64 over = now;
	if (preempted)
		over = left;
	else if (woken > got)
		over = woken < left ? left : woken;
	return over > now ? now : over;
}

/* When a thread got its CPU of which no program saw it: as long ago as it ran since. cpu_ns: by the scheduler, when it
 * left at `left` */
static __always_inline u64 missed_at(struct task_struct *task, u64 cpu_ns, u64 left, u64 now)
{
	u64 ran = BPF_CORE_READ(task, se.sum_exec_runtime) - cpu_ns;
	return ran < now - left ? now - ran : left;
}
