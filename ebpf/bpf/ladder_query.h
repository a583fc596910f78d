/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* Where a followed query begins and ends, and the file reader within it: uprobes, where there are any. */
#pragma once

#include "ladder_path.h"

static __always_inline struct thread *followed(struct task_struct *task, int state, u64 now)
{
	bump(QUERIES);
	struct thread *thread = own_thread(task);
	if (!thread)
		return 0;
	if (is_old(thread)) {
		thread->phase = IDLE;
		thread->left = thread->off_since = 0;
		thread->turn = turn;
	}
	if (thread->left) {
		count(ROW_OUTSIDE, now - thread->left, thread->own_left);
		thread->left = 0;
	}
	if (is_left_out(thread))
		return 0;
	__builtin_memset(thread->at, 0, sizeof(thread->at));
	__builtin_memset(thread->own, 0, sizeof(thread->own));
	thread->request = 0;
	thread->reads = 0;
	thread->requests = 0;
	thread->sleeps = 0;
	thread->unseen = 0;
	thread->beyond = 0;
	thread->workers = 0;
	begin_parts(thread, now);
	bump(FOLLOWED);
	return thread;
}

static __always_inline enum class class_of(struct thread *thread)
{
	if (!thread->reads)
		return thread->requests ? SEVERAL : NO_READ;
	if (thread->reads > 1 || thread->requests > 1 || thread->workers || thread->held_back ||
	    thread->other_sleeps)
		return SEVERAL;
	if (!thread->requests)
		return thread->sleeps ? FOREIGN : NO_REQUEST;
	/* Its request was lost: nobody knows whether the thread slept for it. */
	if (!thread->at[STARTED])
		return DISORDER;
	if (!thread->at[RUNNING])
		return thread->unseen ? DISORDER : AWAKE;
	for (int point = 1; point < POINTS; point++)
		if (thread->at[point] < thread->at[point - 1])
			return DISORDER;
	return ONE_READ;
}

static __always_inline void finish(struct task_struct *task, struct thread *thread)
{
	/* Before its last moment: what comes after that is none of it. */
	thread->phase = IDLE;
	u64 now = step(task, thread);
	if (thread->requests)
		forget_requests(thread, task->pid);
	if (!gate)
		return;
	bump(COUNTING);
	thread->at[QUERY_END] = now;
	if (!with_query)
		thread->at[SYSCALL_END] = now;
	if (!with_reader) {
		thread->at[READER] = thread->at[SYSCALL];
		thread->at[READER_END] = thread->at[SYSCALL_END];
	}
	enum class class = class_of(thread);
	u64 own = 0;
	if (class == ONE_READ) {
		for (int stage = 0; stage < STAGES; stage++) {
			int there = stage == READER || stage == SYSCALL_END ? with_reader :
				    stage == QUERY || stage == READER_END ? with_query : 1;
			own += thread->own[stage];
			if (there)
				count(stage, thread->at[stage + 1] - thread->at[stage], thread->own[stage]);
		}
		u64 none = 0, *n = find_or_add(&devices, &thread->device, &none);
		if (n)
			ADD(*n, 1);
		else
			lose(LOST_DEVICE);
	}
	count(ROW_CLASS + class, now - thread->at[QUERY], class == ONE_READ ? own : thread->spent);
	count_parts(thread, class);
	add_to(READER_CALLS, thread->reader_calls);
	if (thread->without_cpu) {
		add_to(WITHOUT_CPU, thread->without_cpu);
		add_to(RUN_QUEUE, thread->parts[PART_RUNQ]);
	}
	bump(COUNTED_WHOLE);
	thread->left = with_query ? now : 0;
	thread->own_left = bpf_ktime_get_ns() - now;
}

static __always_inline void abandon(struct task_struct *task, struct thread *thread)
{
	thread->phase = IDLE;
	forget_requests(thread, task->pid);
}

static __always_inline void begin(struct task_struct *task, struct thread *thread, struct pt_regs *context, int state,
				  u64 now)
{
	thread->phase = IN_QUERY;
	thread->at[QUERY] = now;
	charge(thread, QUERY, now);
}

static __always_inline void query_leave(struct pt_regs *context, u64 stack)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = leaves(task, context, stack);
	if (thread)
		finish(task, thread);
}

static __always_inline void reader_enter(struct pt_regs *context)
{
	if (!gate)
		return;
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = active(task);
	if (!thread)
		return;
	thread->reader_calls++;
	u64 call = call_of(context, context->sp);
	/* An exception that leaves the outermost one may leave it open: the next one closes it. */
	if (thread->reader && call < thread->reader)
		return;
	thread->reader = call;
	u64 now = bpf_ktime_get_ns();
	enter_part(task, thread, PART_READER);
	if (thread->phase == IN_QUERY) {
		thread->at[READER] = now;
		thread->phase = IN_READER;
	}
	charge(thread, READER, now);
}

static __always_inline void reader_leave(struct pt_regs *context, u64 stack)
{
	u64 now = bpf_ktime_get_ns();
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = active(task);
	/* One that began before the query is none of it. */
	if (!thread || !thread->reader || thread->reader != call_of(context, stack))
		return;
	thread->reader = 0;
	enter_part(task, thread, outside(thread));
	/* Without a read call of its own (a prefetch buffer, memory-mapped files) the query may still read later on. */
	if (thread->phase == IN_READER) {
		thread->phase = IN_QUERY;
	} else if (thread->phase == READ_DONE) {
		thread->at[READER_END] = now;
		thread->phase = READER_DONE;
	}
	charge(thread, READER_END, now);
}

WATCH_FUNCTION(query, query_enter, query_leave)
WATCH_FUNCTION(reader, reader_enter, reader_leave)
