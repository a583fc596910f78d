/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* The threads of one process as the scheduler sees them: `prev` and `next` are not `current`, so that the
 * helper that translates pids into the loader's namespace does not do. */
#pragma once

#include "common.h"

/* The process's tgid in the kernel's own numbers: given by the loader where its namespace is the first one, else found
 * at the first of its threads that is seen. */
volatile u32 global_tgid = 0;

static __always_inline int is_target(struct task_struct *task)
{
	u32 tgid = task->tgid;
	if (global_tgid)
		return tgid == global_tgid;
	if (!tgid || ids_of(task).tgid != target_tgid)
		return 0;
	global_tgid = tgid;
	return 1;
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
