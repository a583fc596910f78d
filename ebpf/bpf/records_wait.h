/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* A followed query's waits and requests, as they end, and where it ran. */
#pragma once

#include "records.h"

/* A wait has ended at `now`. */
static __always_inline void arrived(struct task_struct *task, struct thread *thread, u64 now)
{
	u64 left = thread->off_since;
	u32 state = thread->state, place;
	u64 woken = wait_over(state == PREEMPTED, thread->woken, thread->got, left, now);
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
	thread->off_since = 0;
	thread->got = now;
	thread->woken = 0;
	thread->other = 0;
	thread->waker = 0;
}

static __always_inline void left(void *ctx, struct task_struct *task, struct thread *thread, bool preempt, u32 state)
{
	u64 now = bpf_ktime_get_ns();
	u32 zero = 0;
	if (find_missed(task, thread, now))
		thread->record.flags |= FLAG_MISSED;
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
	thread->off_since = now;
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
			thread->record.span[place].other = flight->beside;
		}
		bpf_map_delete_elem(&flights, &key);
		thread->flights[i] = 0;
	}
	return under_way;
}

static __always_inline u64 number_of_disk(struct gendisk *disk)
{
	return (u64)disk->major << 32 | (u32)disk->first_minor;
}

static __always_inline void weigh(struct busy *busy, struct taken *taken, s64 by)
{
	u32 group = group_of(taken->operation);
	ADD(*(group == READ ? &busy->reads : group == WRITE ? &busy->writes : &busy->others), by);
	ADD(busy->sectors, by * taken->sectors);
}

static __always_inline u64 up_to_u16(s64 n)
{
	return n < 0 ? 0 : n > 0xffff ? 0xffff : n;
}

/* The device has it now. What it had besides: reads, writes, others and KiB, 16 bits each. */
static __always_inline u64 take(struct request *rq)
{
	u64 key = (u64)rq;
	struct taken taken = { number_of_disk(rq->q->disk), rq->cmd_flags & REQ_OP_MASK, rq->__data_len >> 9 };
	struct busy none = {}, *busy = find_or_add(&devices, &taken.device, &none);
	if (!busy) {
		lose(LOST_BESIDE);
		return 0;
	}
	u64 beside = up_to_u16(busy->reads) | up_to_u16(busy->writes) << 16 | up_to_u16(busy->others) << 32 |
		     up_to_u16(busy->sectors >> 1) << 48;
	/* Issued once more, it is there. */
	if (bpf_map_lookup_elem(&taken_requests, &key))
		return beside;
	if (bpf_map_update_elem(&taken_requests, &key, &taken, BPF_NOEXIST))
		lose(LOST_BESIDE);
	else
		weigh(busy, &taken, 1);
	return beside;
}

/* bytes: that have completed now */
static __always_inline void give_back(struct request *rq, u32 bytes)
{
	u64 key = (u64)rq;
	struct taken *taken = bytes < rq->__data_len ? 0 : bpf_map_lookup_elem(&taken_requests, &key);
	if (!taken)
		return;
	struct taken gone = *taken;
	if (bpf_map_delete_elem(&taken_requests, &key))
		return;
	struct busy *busy = bpf_map_lookup_elem(&devices, &gone.device);
	if (busy)
		weigh(busy, &gone, -1);
}

/* A worker does so at the same time as the thread does other things. */
static __always_inline void asked_by_worker(struct task_struct *task, struct thread *thread, u64 key,
					    struct gendisk *disk, u32 bytes)
{
	u64 now = bpf_ktime_get_ns();
	u64 n = ADD(thread->requests, 1);
	asm volatile("" : "+r"(n)); /* as in new_span */
	u32 place;
	ADD(thread->record.bytes, bytes);
	struct span *span = n < REQUESTS ? new_span(thread, &place) : 0;
	if (!span) {
		thread->record.requests_beyond++;
		return;
	}
	__builtin_memset(span, 0, sizeof(*span));
	span->at[0] = now;
	span->kernel = number_of_disk(disk);
	span->who = bytes;
	span->kind = REQUEST;
	thread->places[n] = place;
	struct flight flight = { .owner = task->pid };
	if (bpf_map_update_elem(&flights, &key, &flight, BPF_ANY))
		lose(LOST_REQUEST);
	else
		thread->flights[n] = key;
}

static __always_inline void asked(struct task_struct *task, struct thread *thread, u64 key, struct gendisk *disk, u32 bytes)
{
	u64 now = bpf_ktime_get_ns();
	asked_by_worker(task, thread, key, disk, bytes);
	charge(thread, now);
}

/* A request that was held back, and whose end wakes the thread, is the one that it waits for. */
static __always_inline void waited_for(struct thread *thread, struct ending *ending)
{
	u32 place;
	if (thread->held == ending->completed)
		return;
	thread->held = ending->completed;
	ADD(thread->record.bytes, ending->bytes);
	struct span *span = new_span(thread, &place);
	if (!span) {
		thread->record.requests_beyond++;
		return;
	}
	__builtin_memset(span, 0, sizeof(*span));
	span->at[0] = ending->begun;
	span->at[1] = ending->issued;
	span->at[2] = ending->completed;
	span->kernel = ending->device;
	span->other = ending->beside;
	span->who = ending->bytes;
	span->kind = REQUEST;
	span->state = 1;
}

static __always_inline void woken(struct task_struct *task, struct thread *thread)
{
	u64 now = bpf_ktime_get_ns();
	u32 zero = 0;
	thread->woken = now;
	thread->waker = current_ids().tid;
	/* Woken while requests of its own are or may be under way, it may be for another reason. */
	u32 own = collect(thread, task->pid, false) + thread->record.requests_beyond;
	struct ending *ending = own ? 0 : bpf_map_lookup_elem(&endings, &zero);
	thread->other = ending && now - ending->completed < AT_ONCE ? ending->completed : 0;
	if (thread->other && ending->begun && thread->off_since && thread->state == IO)
		waited_for(thread, ending);
	charge(thread, now);
}

/* A sample of the thread while it runs: of more than SAMPLES each is kept with the same probability (reservoir sampling;
 * Vitter 1985). */
static __always_inline void sampled(void *ctx, struct thread *thread)
{
	u64 now = bpf_ktime_get_ns();
	u32 place, n = thread->record.samples++;
	u64 slot = n < SAMPLES ? n : bpf_get_prandom_u32() % (n + 1);
	if (slot >= SAMPLES)
		return;
	/* Whatever a compiler makes of what it knows of the slot, the verifier must see its bound. */
	asm volatile("" : "+r"(slot));
	slot &= SAMPLES - 1;
	struct span *span;
	if (n < SAMPLES) {
		span = new_span(thread, &place);
		thread->sampled[slot] = place;
	} else {
		u64 there = thread->sampled[slot];
		if (there >= SPANS)
			return;
		/* The place is worked out after that, not before. */
		asm volatile("" : "+r"(there));
		span = &thread->record.span[there];
	}
	if (!span)
		return;
	__builtin_memset(span, 0, sizeof(*span));
	span->at[0] = span->at[1] = span->at[2] = now;
	span->kernel = take_stack_into(1, ctx, 0);
	span->user = take_stack_into(1, ctx, BPF_F_USER_STACK);
	span->kind = SAMPLE;
	charge(thread, now);
}
