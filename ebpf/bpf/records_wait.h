/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* A followed query's waits and requests, as they end. */
#pragma once

#include "records.h"

/* A wait has ended at `now`. */
static __always_inline void arrived(struct thread *thread, u64 now)
{
	u64 left = thread->since, woken = now;
	u32 state = thread->state, place;
	if (state == PREEMPTED)
		woken = left;
	else if (thread->woken > thread->got)
		woken = thread->woken < left ? left : thread->woken;
	if (woken > now)
		woken = now;
	struct span *span = thread->waits < WAITS ? new_span(thread, &place) : 0;
	if (span) {
		thread->waits++;
		span->at[0] = left;
		span->at[1] = woken;
		span->at[2] = now;
		span->kernel = thread->kernel;
		span->user = thread->user;
		span->other = thread->other;
		span->futex = thread->futex;
		span->who = thread->waker;
		span->kind = WAIT;
		span->state = state;
	} else {
		thread->record.waits_beyond++;
		thread->record.beyond_ns[slot_of(state)] += woken - left;
		thread->record.beyond_ns[WOKEN] += now - woken;
	}
	thread->since = 0;
	thread->got = now;
	thread->woken = 0;
	thread->other = 0;
	thread->waker = 0;
}

/* A kernel may run no program while certain threads are the current ones, and so none when another takes over from one of
 * them (offcpu.bpf.c): a thread that we take for waiting runs. It got its CPU as long ago as it ran since. */
static __always_inline void find_missed(struct task_struct *task, struct thread *thread, u64 now)
{
	if (!thread->since)
		return;
	u64 ran = BPF_CORE_READ(task, se.sum_exec_runtime) - thread->cpu_ns;
	lose(MISSED_IN);
	thread->record.flags |= FLAG_MISSED;
	arrived(thread, ran < now - thread->since ? now - ran : thread->since);
}

static __always_inline void left(void *ctx, struct task_struct *task, struct thread *thread, bool preempt, u32 state)
{
	u64 now = bpf_ktime_get_ns();
	u32 zero = 0;
	find_missed(task, thread, now);
	thread->cpu_ns = BPF_CORE_READ(task, se.sum_exec_runtime);
	thread->state = state_of(task, preempt, state);
	thread->kernel = thread->user = NOT_THERE;
	__builtin_memset(&thread->futex, 0, sizeof(thread->futex));
	if (thread->state != PREEMPTED) {
		struct stack *words = bpf_map_lookup_elem(&scratch, &zero);
		if (thread->state == SLEEP && words)
			read_futex(task, &thread->futex, words->addresses);
		thread->kernel = take_stack(ctx, 0);
		thread->user = take_stack(ctx, BPF_F_USER_STACK);
		if (woken_meanwhile(task, state))
			thread->woken = now;
	}
	thread->since = now;
	charge(thread, now);
}

/* What is known of its requests, into their spans: before they are freed, and so before another can take their address.
 * all: those that have not ended as well, which are not waited for any more. How many have not ended. */
static __always_inline u32 collect(struct thread *thread, u32 owner, bool all)
{
	u32 under_way = 0;
	for (u32 i = 0; i < REQUESTS; i++) {
		if (i >= thread->requests)
			break;
		u64 key = thread->flights[i];
		if (!key)
			continue;
		struct flight *flight = bpf_map_lookup_elem(&flights, &key);
		if (!flight || flight->owner != owner) {
			lose(OVERTAKEN);
			thread->flights[i] = 0;
			continue;
		}
		if (!flight->completed && !all) {
			under_way++;
			continue;
		}
		u64 place = thread->places[i];
		asm volatile("" : "+r"(place));
		if (place < SPANS) {
			thread->record.span[place].at[1] = flight->issued;
			thread->record.span[place].at[2] = flight->completed;
		}
		bpf_map_delete_elem(&flights, &key);
		thread->flights[i] = 0;
	}
	return under_way;
}

static __always_inline void asked(struct task_struct *task, struct thread *thread, struct request *rq)
{
	u64 now = bpf_ktime_get_ns(), key = (u64)rq, n = thread->requests;
	u32 place, bytes = rq->__data_len;
	thread->record.bytes += bytes;
	asm volatile("" : "+r"(n));
	struct span *span = n < REQUESTS ? new_span(thread, &place) : 0;
	if (!span) {
		thread->record.requests_beyond++;
		return;
	}
	__builtin_memset(span, 0, sizeof(*span));
	struct gendisk *disk = rq->q->disk;
	span->at[0] = now;
	span->kernel = (u64)disk->major << 32 | (u32)disk->first_minor;
	span->who = bytes;
	span->kind = REQUEST;
	thread->places[n] = place;
	thread->requests = n + 1;
	struct flight flight = { .owner = task->pid };
	if (bpf_map_update_elem(&flights, &key, &flight, BPF_ANY))
		lose(LOST_REQUEST);
	else
		thread->flights[n] = key;
	charge(thread, now);
}

static __always_inline void woken(struct task_struct *task, struct thread *thread)
{
	u64 now = bpf_ktime_get_ns();
	u32 zero = 0;
	thread->woken = now;
	thread->waker = current_ids().tid;
	/* Woken while requests of its own are or may be under way, it may be for another reason. */
	u32 own = collect(thread, task->pid, false) + thread->record.requests_beyond;
	u64 *completed = own ? 0 : bpf_map_lookup_elem(&completions, &zero);
	thread->other = completed && *completed && now - *completed < AT_ONCE ? *completed : 0;
	charge(thread, now);
}
