/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* The latency ladder: one query in N of a process, followed through
 *   query -> file reader -> read call -> block queue -> device -> wake-up -> run queue -> back.
 * Each followed query leaves eleven points in time on one clock, so its ten stages add up to it exactly. A thread keeps
 * its points in task storage. A request is known by its address, and its points reach the thread at its wake-up: before
 * the request is freed, and so before another read can take its address. Queries of several reads are divided by where
 * their thread was instead, which adds up to them as well.
 *
 * ladder.h: what is kept; ladder_query.h: the query and the file reader; ladder_path.h: queries of several reads; here:
 * the kernel's events, in a read's order. */
#include "ladder_query.h"

static __always_inline int is_async(long id)
{
	for (int i = 0; i < ASYNC_CALLS_KNOWN; i++)
		if (id == async_calls[i])
			return 1;
	return 0;
}

SEC("tp_btf/sys_enter")
int WHOLE_PROG(syscall_enter, struct pt_regs *regs, long id)
{
	if (!gate)
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread;
	if (with_query) {
		thread = thread_of(task);
		if (!thread || is_old(thread))
			return 0;
		if (thread->phase == IDLE) {
			if (thread->left && is_read(id))
				bump(OUTSIDE_READS);
			return 0;
		}
	}
	u64 now = bpf_ktime_get_ns();
	if (!with_query && is_async(id) && is_target(task))
		lose(ASYNC_CALLS);
	if (!is_read(id))
		return 0;
	if (!with_query) {
		if (!is_target(task))
			return 0;
		thread = followed(task, OPEN, now);
		if (!thread)
			return 0;
		thread->at[QUERY] = now;
	}
	thread->reads++;
	enter_part(task, thread, PART_CALL);
	if (thread->reads > 1) {
		thread->spent += bpf_ktime_get_ns() - now;
		return 0;
	}
	thread->at[SYSCALL] = now;
	thread->phase = IN_SYSCALL;
	charge(thread, SYSCALL, now);
	return 0;
}

/* Whether there was room to follow it. */
static __always_inline bool has_request(struct thread *thread, u32 owner, u64 key)
{
	struct flight flight = { .owner = owner };
	ADD(thread->requests, 1);
	if (bpf_map_update_elem(&flights, &key, &flight, BPF_ANY)) {
		lose(LOST_REQUEST);
		return false;
	}
	if (remember(thread, key))
		return true;
	bpf_map_delete_elem(&flights, &key);
	thread->beyond = 1;
	lose(BEYOND);
	return false;
}

static __always_inline void asked_by_worker(struct task_struct *task, struct thread *thread, u64 key,
					    struct gendisk *disk, u32 bytes)
{
	thread->workers = 1;
	has_request(thread, task->pid, key);
}

static __always_inline void asked(struct task_struct *task, struct thread *thread, u64 key, struct gendisk *disk, u32 bytes)
{
	u64 now = bpf_ktime_get_ns();
	if (!has_request(thread, task->pid, key))
		return;
	/* The stages are of the first one, in the first read call. */
	if (thread->requests > 1 || thread->phase < IN_SYSCALL || thread->phase > AWAKE_AGAIN) {
		thread->spent += bpf_ktime_get_ns() - now;
		return;
	}
	thread->request = key;
	thread->device = (u64)disk->major << 32 | (u32)disk->first_minor;
	thread->at[STARTED] = now;
	thread->phase = ASKED;
	charge(thread, STARTED, now);
}

SEC("tp_btf/block_rq_issue")
int WHOLE_PROG(rq_issue, struct request *rq)
{
	u64 now = bpf_ktime_get_ns(), key;
	struct flight *flight = flight_of(rq, &key);
	if (!flight)
		return 0;
	if (flight->completed) {
		flight->over = 1;
		return 0;
	}
	if (flight->issued)
		lose(REQUEUED);
	flight->issued = now;
	flight->own_issued = bpf_ktime_get_ns() - now;
	return 0;
}

/* Before the thread is woken (block_io_done comes after it). A request may complete in parts: the last one counts. */
SEC("tp_btf/block_rq_complete")
int WHOLE_PROG(rq_complete, struct request *rq, int error, unsigned int bytes)
{
	u64 now = bpf_ktime_get_ns(), key;
	struct flight *flight = flight_of(rq, &key);
	if (!flight || flight->over)
		return 0;
	u32 zero = 0;
	struct ending *ending = flight->begun ? bpf_map_lookup_elem(&endings, &zero) : 0;
	if (ending) {
		ending->begun = flight->begun;
		ending->issued = flight->issued;
		ending->completed = now;
		if (bytes >= rq->__data_len)
			bpf_map_delete_elem(&flights, &key);
		return 0;
	}
	flight->completed = now;
	flight->own_completed = bpf_ktime_get_ns() - now;
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(waking, struct task_struct *task)
{
	struct thread *thread = active(task);
	if (!thread)
		return 0;
	u64 now = bpf_ktime_get_ns(), key = thread->request;
	thread->woken = now;
	u32 zero = 0;
	struct ending *ending = bpf_map_lookup_elem(&endings, &zero);
	if (ending && now - ending->completed < AT_ONCE && thread->asleep && BPF_CORE_READ_BITFIELD(task, in_iowait))
		thread->held = *ending;
	if (thread->phase != ASLEEP && thread->phase != ASKED)
		return 0;
	struct flight *flight = bpf_map_lookup_elem(&flights, &key);
	/* Woken for another reason: it will find its read undone and sleep again. */
	if (!flight || flight->owner != (u32)task->pid || !flight->completed)
		return 0;
	thread->at[ISSUED] = flight->issued;
	thread->at[COMPLETED] = flight->completed;
	thread->own[ISSUED] = flight->own_issued;
	thread->own[COMPLETED] = flight->own_completed;
	thread->request = 0;
	thread->at[WAKING] = now;
	thread->phase = thread->phase == ASLEEP ? WOKEN : WOKEN_EARLY;
	charge(thread, WAKING, now);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switching, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	u32 state = state_left(ctx, prev);
	struct thread *thread = thread_of(prev);
	if (thread && is_old(thread))
		thread = 0;
	if (thread && thread->phase != IDLE)
		left(prev, thread, preempt, state);
	if (thread && !preempt && state) {
		if (thread->phase == ASKED)
			thread->phase = ASLEEP;
		else if (thread->phase == WOKEN_EARLY)
			thread->phase = WOKEN;
		if (thread->phase == IN_SYSCALL || thread->phase == ASLEEP)
			thread->sleeps++;
		else if (thread->phase == AWAKE_AGAIN)
			thread->other_sleeps++;
	}
	thread = active(next);
	if (!thread || !thread->off_since)
		return 0;
	u64 now = bpf_ktime_get_ns();
	arrived(next, thread, now);
	if (thread->phase == WOKEN) {
		thread->at[RUNNING] = now;
		thread->phase = AWAKE_AGAIN;
		charge(thread, RUNNING, now);
	} else {
		thread->spent += bpf_ktime_get_ns() - now;
	}
	return 0;
}

SEC("tp_btf/sys_exit")
int WHOLE_PROG(syscall_exit, struct pt_regs *regs, long result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = active(task);
	if (!thread || thread->part != PART_CALL)
		return 0;
	u64 now = bpf_ktime_get_ns();
	if (with_query)
		enter_part(task, thread, thread->reader ? PART_READER : PART_AFTER);
	if (thread->phase < IN_SYSCALL || thread->phase > AWAKE_AGAIN) {
		thread->spent += bpf_ktime_get_ns() - now;
		return 0;
	}
	/* It runs, and no program ran when its request ended or it was switched to: a kernel may run none in interrupts
	 * above one task or another. */
	if (thread->phase == ASLEEP || thread->phase == WOKEN)
		thread->unseen = 1;
	thread->at[SYSCALL_END] = now;
	thread->phase = READ_DONE;
	if (with_query)
		charge(thread, SYSCALL_END, now);
	else
		finish(task, thread);
	return 0;
}
