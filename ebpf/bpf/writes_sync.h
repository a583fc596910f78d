/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* What is in a sync call: the device writing, the device emptying its cache, a journal committed, and the rest, which is the
 * file system's.
 *
 * Of ext4 the thread jbd2/DEVICE commits, and wakes who waits for that. */
#pragma once

#include "writes_clock.h"

/* Bios of one request that are looked at. */
#define MERGED 16

static __always_inline void begin_sync(u64 task)
{
	struct under_way none = {};
	if (bpf_map_update_elem(&syncing, &task, &none, BPF_ANY))
		lose(LOST_BIO);
}

/* The device may have done what was asked of it: since then it was `stage`. Whether it has. */
static __always_inline bool settle(struct thread *thread, struct under_way *under_way, u64 stage, u64 now)
{
	u64 done = under_way->done;
	if (thread->stage == SYNC_CALL || *(volatile s64 *)&under_way->bios > 0)
		return false;
	turn(thread, stage, done < thread->since ? thread->since : done < now ? done : now);
	return true;
}

static __always_inline void end_sync(struct thread *thread, u64 task, u64 now)
{
	struct under_way *under_way = bpf_map_lookup_elem(&syncing, &task);
	if (!under_way)
		return;
	settle(thread, under_way, SYNC_CALL, now);
	bpf_map_delete_elem(&syncing, &task);
}

SEC("tp_btf/block_bio_queue")
int WHOLE_PROG(bio_queue, struct bio *bio)
{
	if (gate != OPEN)
		return 0;
	struct thread *thread = writer();
	if (!thread || !thread->in_call || thread->stage < SYNC_CALL || thread->stage > SYNC_FLUSH)
		return 0;
	u64 now = bpf_ktime_get_ns(), task = (u64)bpf_get_current_task_btf(), key = (u64)bio;
	struct under_way *under_way = bpf_map_lookup_elem(&syncing, &task);
	if (!under_way)
		return 0;
	settle(thread, under_way, SYNC_CALL, now);
	if (bpf_map_update_elem(&bios, &key, &task, BPF_ANY)) {
		lose(LOST_BIO);
		return 0;
	}
	ADD(under_way->bios, 1);
	turn(thread, bio->bi_opf & preflush ? SYNC_FLUSH : bio->bi_opf & metadata ? SYNC_META : SYNC_DEVICE, now);
	charge(thread, now);
	return 0;
}

static __always_inline void ended(struct bio *bio)
{
	u64 key = (u64)bio;
	u64 *task = bpf_map_lookup_elem(&bios, &key);
	if (!task)
		return;
	u64 now = bpf_ktime_get_ns();
	struct under_way *under_way = bpf_map_lookup_elem(&syncing, task);
	if (under_way) {
		under_way->done = now;
		ADD(under_way->bios, -1);
	}
	bpf_map_delete_elem(&bios, &key);
}

/* The clock of those who wait for it says at once what a thread sleeps for that waited for a journal before. */
static __always_inline void falls_asleep(struct thread *thread)
{
	if (!thread || !thread->active || !thread->in_call || thread->stage != SYNC_CALL)
		return;
	u64 now = bpf_ktime_get_ns();
	thread->slept = now;
	struct clock *clock = thread->leads && thread->journaled ? bpf_map_lookup_elem(&clocks, &thread->queue) : 0;
	if (clock && clock->owner == thread->writer)
		advance(clock, thread->writer, SYNC_JOURNAL, now);
}

static __always_inline void wakes_up(struct thread *thread)
{
	u64 slept = thread->slept, committed = thread->committed;
	thread->slept = 0;
	if (thread->stage != SYNC_CALL)
		return;
	u64 now = bpf_ktime_get_ns();
	if (committed >= slept && committed <= now) {
		turn(thread, SYNC_JOURNAL, slept);
		turn(thread, SYNC_WAKE, committed);
	}
	turn(thread, SYNC_CALL, now);
}

/* A thread gets a CPU, having slept for the device or the journal as a rule. */
SEC("tp_btf/sched_switch")
int BPF_PROG(switching, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	if (gate != OPEN)
		return 0;
	if (!preempt)
		falls_asleep(bpf_task_storage_get(&threads, prev, 0, 0));
	struct thread *thread = bpf_task_storage_get(&threads, next, 0, 0);
	if (!thread || !thread->active)
		return 0;
	if (thread->slept)
		wakes_up(thread);
	if (thread->stage < SYNC_DEVICE || thread->stage > SYNC_FLUSH)
		return 0;
	u64 now = bpf_ktime_get_ns(), task = (u64)next;
	struct under_way *under_way = bpf_map_lookup_elem(&syncing, &task);
	if (under_way && settle(thread, under_way, SYNC_WAKE, now))
		turn(thread, SYNC_CALL, now);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(journal_waking, struct task_struct *task)
{
	static const char journal[] = { 'j', 'b', 'd', '2', '/' };
	if (gate != OPEN)
		return 0;
	struct task_struct *waker = bpf_get_current_task_btf();
	for (u32 i = 0; i < sizeof(journal); i++)
		if (waker->comm[i] != journal[i])
			return 0;
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	if (thread && thread->active && thread->slept) {
		thread->journaled = 1;
		thread->committed = bpf_ktime_get_ns();
	}
	return 0;
}

/* A request is its bios, and where it completes in parts the last one counts. */
SEC("tp_btf/block_rq_complete")
int WHOLE_PROG(rq_complete, struct request *rq, int error, unsigned int bytes)
{
	struct bio *bio = rq->bio;
	if (gate != OPEN || bytes < rq->__data_len)
		return 0;
	for (int i = 0; i < MERGED && bio; i++) {
		ended(bio);
		bio = bio->bi_next;
	}
	return 0;
}

/* Of a device without requests. */
SEC("tp_btf/block_bio_complete")
int WHOLE_PROG(bio_complete, struct request_queue *queue, struct bio *bio)
{
	if (gate == OPEN)
		ended(bio);
	return 0;
}
