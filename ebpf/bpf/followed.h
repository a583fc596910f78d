/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* Where a followed query begins and ends, by uprobes, and what is counted: the same for reads (the ladder, records) and for writes.
 * Who includes this has told before what is kept of a thread (`struct thread`, with `call` and `known`), what is counted
 * (ROWS, COUNTERS, LOSSES; of these THREADS, LOST_THREAD, NESTED and ABANDONED), and defines what is declared here. */
#pragma once

#include "rows.h"
#include "threads.h"
#include "uprobe.h"

/* PILOT: what comes before the window, and is counted by itself; LINGER: no query begins any more, those that are followed may
 * end. */
enum gate_state { SHUT, OPEN, PILOT, LINGER };

SHOW_ENUM(gate_state);

TASK_MAP(threads, struct thread);
MAP(rows, PERCPU_ARRAY, ROWS, u32, struct row);
MAP(counters, PERCPU_ARRAY, COUNTERS, u32, u64);
u64 losses[LOSSES] = {};

static __always_inline void lose(u32 what)
{
	__sync_fetch_and_add(&losses[what], 1);
}

static __always_inline void add_to(u32 counter, u64 by)
{
	u64 *n = bpf_map_lookup_elem(&counters, &counter);
	if (n)
		ADD(*n, by);
}

static __always_inline void bump(u32 counter)
{
	add_to(counter, 1);
}

/* Whether a thread is within a followed query. */
static __always_inline bool is_active(struct thread *thread);

/* What is to be forgotten of a followed query that never returned: an exception went through it. */
static __always_inline void abandon(struct task_struct *task, struct thread *thread);

/* The calling thread's state where its query that begins now is followed; NULL where it is not. */
static __always_inline struct thread *followed(struct task_struct *task, int state, u64 now);

/* It is followed. */
static __always_inline void begin(struct task_struct *task, struct thread *thread, struct pt_regs *context, int state,
				  u64 now);

static __always_inline struct thread *thread_of(struct task_struct *task)
{
	return bpf_task_storage_get(&threads, task, 0, 0);
}

/* The state of a thread that is within a followed query; NULL for all others. */
static __always_inline struct thread *active(struct task_struct *task)
{
	struct thread *thread = thread_of(task);
	return thread && is_active(thread) ? thread : 0;
}

/* The calling thread's, made where it has none; NULL where there is no room. */
static __always_inline struct thread *own_thread(struct task_struct *task)
{
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		lose(LOST_THREAD);
	} else if (!thread->known) {
		thread->known = 1;
		bump(THREADS);
	}
	return thread;
}

static __always_inline void query_enter(struct pt_regs *context)
{
	int state = gate;
	if (state == SHUT)
		return;
	u64 now = bpf_ktime_get_ns();
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = active(task);
	if (thread) {
		if (is_within(&thread->call, context)) {
			lose(NESTED);
			return;
		}
		abandon(task, thread);
		lose(ABANDONED);
	}
	thread = followed(task, state, now);
	if (!thread)
		return;
	call_begins(&thread->call, context);
	begin(task, thread, context, state, now);
}

/* The state of a thread whose followed query is left now; NULL where none is. */
static __always_inline struct thread *leaves(struct task_struct *task, struct pt_regs *context, u64 stack)
{
	struct thread *thread = active(task);
	return thread && call_ends(&thread->call, context, stack) ? thread : 0;
}
