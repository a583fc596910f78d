/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* The threads of one process as the scheduler sees them: `prev` and `next` are not `current`, so that the
 * helper that translates pids into the loader's namespace does not do. */
#pragma once

#include "common.h"

/* The process's tgid in the kernel's own numbers, where the loader's namespace is not the first one: found at the first
 * of its threads that is seen. */
volatile u32 global_tgid = 0;

/* Once its last thread has ended: when the process was created, in ns after boot. Its threads leave their CPUs after
 * that; by this time they are told from those of a process that is given its number. */
volatile u64 ended_start = 0;

static __always_inline u64 start_of(struct task_struct *task)
{
	return BPF_CORE_READ(task, group_leader, start_time);
}

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
	return has_its_number(task) && (!ended_start || start_of(task) == ended_start);
}

/* The loader makes sure that the process lives when this is attached. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(process_exits, struct task_struct *task)
{
	/* 0 with the last of its threads. */
	if (is_target(task) && task->signal->live.counter == 0)
		ended_start = start_of(task);
	return 0;
}

/* The kernel's task states that count here; the first four bits have not moved since 2.6. */
#define TASK_INTERRUPTIBLE 1
#define TASK_UNINTERRUPTIBLE 2
#define TASK_STOPPED_OR_TRACED (4 | 8)
#define TASK_DEAD 0x80

/* Whether a thread that is switched out to sleep was woken (or has a signal) since it decided to: its wake-up went by
 * before its switch-out. */
static __always_inline int woken_meanwhile(struct task_struct *prev, u32 state)
{
	return BPF_CORE_READ(prev, __state) != state;
}
