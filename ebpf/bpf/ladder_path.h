/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* The parts of a followed query: where its thread was, by its own steps and by the scheduler. */
#pragma once

#include "ladder.h"

/* The wait from `left` to `woken`, by the request that was done last in it; the others of its time were not waited for. */
static __always_inline void add_wait(struct thread *thread, u32 owner, u64 left, u64 woken)
{
	u64 issued = 0, completed = 0, under_way = 0, under_way_issued = 0;
	for (u32 i = 0; i < REQUESTS; i++) {
		u64 key = thread->flights[i];
		if (!key)
			continue;
		struct flight *flight = bpf_map_lookup_elem(&flights, &key);
		if (!flight || flight->owner != owner) {
			thread->flights[i] = 0;
			continue;
		}
		if (!flight->completed || flight->completed > woken) {
			under_way = 1;
			under_way_issued = flight->issued;
			continue;
		}
		if (flight->completed > completed) {
			issued = flight->issued;
			completed = flight->completed;
		}
		bpf_map_delete_elem(&flights, &key);
		thread->flights[i] = 0;
	}
	if (completed > left) {
		thread->waited++;
		/* What it waited for may be one of those that are not known. */
		if (thread->beyond)
			completed = woken;
	} else if (under_way) {
		/* Woken for another reason: it will find its read undone and sleep again. */
		issued = under_way_issued ? under_way_issued : woken;
		completed = woken;
	} else if (thread->held.completed > left && thread->held.completed <= woken) {
		u64 begun = thread->held.begun < left ? left : thread->held.begun;
		thread->parts[PART_THROTTLE] += begun - left;
		left = begun;
		issued = thread->held.issued;
		completed = thread->held.completed;
		thread->held_back++;
		thread->waited++;
		ADD(thread->requests, 1);
	} else {
		thread->parts[PART_SLEEP] += woken - left;
		return;
	}
	issued = issued < left ? left : issued > completed ? completed : issued;
	thread->parts[PART_QUEUE] += issued - left;
	thread->parts[PART_DEVICE] += completed - issued;
	thread->parts[PART_WAKE] += woken - completed;
}

/* It has a CPU again. */
static __always_inline void arrived(struct task_struct *task, struct thread *thread, u64 now)
{
	u64 left = thread->off_since;
	u64 woken = wait_over(!thread->asleep, thread->woken, thread->got, left, now);
	if (woken > left)
		add_wait(thread, task->pid, left, woken);
	thread->parts[PART_RUNQ] += now - woken;
	thread->without_cpu += now - left;
	thread->got = now;
	thread->woken = 0;
	thread->held.completed = 0;
	thread->off_since = thread->asleep = 0;
}

/* Counts its time on a CPU up to now, which is returned, as of the part that it is in. It may lose the CPU in here: time and
 * what the scheduler's events counted must be of one moment. */
static __always_inline u64 step(struct task_struct *task, struct thread *thread)
{
	u64 now = bpf_ktime_get_ns(), part = thread->part, without = 0;
	find_missed(task, thread, now);
	for (int i = 0; i < ATTEMPTS; i++) {
		without = *(volatile u64 *)&thread->without_cpu;
		now = bpf_ktime_get_ns();
		if (*(volatile u64 *)&thread->without_cpu == without)
			break;
	}
	asm volatile("" : "+r"(part));
	if (part < PARTS)
		thread->parts[part] += now - thread->since - (without - thread->without_then);
	thread->since = now;
	thread->without_then = without;
	return now;
}

static __always_inline void enter_part(struct task_struct *task, struct thread *thread, enum part part)
{
	step(task, thread);
	/* What looked like the time after the last read was between two. */
	if (part == PART_CALL) {
		thread->parts[PART_BETWEEN] += thread->parts[PART_AFTER];
		thread->parts[PART_AFTER] = 0;
	}
	thread->part = part;
}

/* Outside of file readers and read calls. */
static __always_inline enum part outside(struct thread *thread)
{
	return thread->reads ? PART_AFTER : PART_BEFORE;
}

static __always_inline void left(struct task_struct *task, struct thread *thread, bool preempt, u32 state)
{
	u64 now = bpf_ktime_get_ns();
	find_missed(task, thread, now);
	thread->cpu_ns = BPF_CORE_READ(task, se.sum_exec_runtime);
	thread->asleep = !preempt && state;
	thread->off_since = now;
	if (thread->asleep && woken_meanwhile(task, state))
		thread->woken = now;
}

/* Room for one more request; false where there is none. */
static __always_inline bool remember(struct thread *thread, u64 request)
{
	for (u32 i = 0; i < REQUESTS; i++) {
		if (thread->flights[i] == request)
			return true;
		/* A worker may look for room at the same time. */
		if (!thread->flights[i] && !__sync_val_compare_and_swap(&thread->flights[i], 0, request))
			return true;
	}
	/* Done while the thread ran: nothing waits for it. */
	for (u32 i = 0; i < REQUESTS; i++) {
		u64 key = thread->flights[i];
		struct flight *flight = bpf_map_lookup_elem(&flights, &key);
		if (flight && !flight->completed)
			continue;
		if (__sync_val_compare_and_swap(&thread->flights[i], key, request) != key)
			continue;
		bpf_map_delete_elem(&flights, &key);
		return true;
	}
	return false;
}

/* Nothing waits for its requests any more. */
static __always_inline void forget_requests(struct thread *thread, u32 owner)
{
	for (u32 i = 0; i < REQUESTS; i++) {
		u64 key = thread->flights[i];
		if (!key)
			continue;
		struct flight *flight = bpf_map_lookup_elem(&flights, &key);
		if (flight && flight->owner == owner)
			bpf_map_delete_elem(&flights, &key);
		thread->flights[i] = 0;
	}
}

static __always_inline void begin_parts(struct thread *thread, u64 now)
{
	__builtin_memset(thread->parts, 0, sizeof(thread->parts));
	thread->since = thread->got = now;
	thread->woken = thread->spent = thread->without_cpu = thread->without_then = 0;
	thread->off_since = thread->asleep = 0;
	thread->part = PART_BEFORE;
	thread->reader = 0;
	thread->reader_calls = thread->waited = thread->other_sleeps = thread->held_back = 0;
	thread->held.completed = 0;
}

static __always_inline void count_parts(struct thread *thread, enum class class)
{
	if (class != SEVERAL && class != FOREIGN)
		return;
	u32 row = class == SEVERAL ? ROW_SEVERAL : ROW_FOREIGN;
	for (u32 part = 0; part < PARTS; part++)
		count(row + part, thread->parts[part], 0);
	if (class == FOREIGN)
		return;
	add_to(READS, thread->reads);
	add_to(REQUESTS_MADE, thread->requests);
	add_to(NOT_WAITED, thread->requests - thread->waited);
}
