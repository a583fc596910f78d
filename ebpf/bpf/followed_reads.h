/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* Of a followed query that reads: whether it is one in N, when its thread had a CPU, and where its requests begin. Who includes
 * this has told before what is kept of a request (`struct flight`, with `owner` and `begun`) and of a thread (with `skip`,
 * and since when it is off its CPU: `off_since`, 0 where it has one, and `cpu_ns` of then). */
#pragma once

#include "first_bio.h"
#include "followed.h"
#include "held_back.h"
#include "read_calls.h"

const volatile u32 sample = 1; /* one query in so many is followed */

MAP(flights, HASH, 16384, u64, struct flight);

/* It has a CPU again, since `now`. */
static __always_inline void arrived(struct task_struct *task, struct thread *thread, u64 now);

/* A request that the thread makes itself, or that a worker of io_uring makes for it. */
static __always_inline void asked(struct task_struct *task, struct thread *thread, u64 key, struct gendisk *disk, u32 bytes);
static __always_inline void asked_by_worker(struct task_struct *task, struct thread *thread, u64 key,
					    struct gendisk *disk, u32 bytes);

/* Whether the thread's query that begins now is one of those between two that are followed. */
static __always_inline bool is_left_out(struct thread *thread)
{
	if (thread->skip > 1) {
		thread->skip--;
		return true;
	}
	/* A gap drawn evenly from 1 .. 2N - 1 is N on average, and in step with no pattern of the workload's. */
	thread->skip = sample > 1 ? 1 + bpf_get_prandom_u32() % (2 * sample - 1) : 1;
	return false;
}

/* A kernel may run no program while certain threads are the current ones, and so none when another takes over from one of
 * them (offcpu.bpf.c): a thread that we take for waiting runs. It got its CPU as long ago as it ran since. Whether it is so. */
static __always_inline bool find_missed(struct task_struct *task, struct thread *thread, u64 now)
{
	if (!thread->off_since)
		return false;
	lose(MISSED_IN);
	arrived(task, thread, missed_at(task, thread->cpu_ns, thread->off_since, now));
	return true;
}

/* --- requests ---------------------------------------------------------------------------------------------------- */

struct io_wq {
	struct task_struct *task;
} __attribute__((preserve_access_index));

struct io_worker {
	struct io_wq *wq; /* before Linux 6.4 one structure further */
} __attribute__((preserve_access_index));

#define PF_IO_WORKER 0x10

/* The thread that submitted what this one works on, to be released; NULL where it is no worker of io_uring, or this is not
 * known. Each thread that submits has workers of its own. */
static __always_inline struct task_struct *submitter_of(struct task_struct *task)
{
	struct io_worker *worker = task->worker_private;
	if (!(task->flags & PF_IO_WORKER) || !worker)
		return 0;
	if (!bpf_core_field_exists(worker->wq) || !bpf_ksym_exists(bpf_task_from_pid))
		return 0;
	return bpf_task_from_pid(BPF_CORE_READ(worker, wq, task, pid));
}

static __always_inline void request_begins(u64 key, struct gendisk *disk, u32 bytes)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = active(task);
	if (thread) {
		asked(task, thread, key, disk, bytes);
		return;
	}
	if (gate == SHUT)
		return;
	/* Whose it is that an IO limit held back is known when its end wakes the thread. */
	if (sends_held_back(task)) {
		struct flight flight = { .begun = bpf_ktime_get_ns() };
		if (bpf_map_update_elem(&flights, &key, &flight, BPF_ANY))
			lose(LOST_REQUEST);
		return;
	}
	struct task_struct *submitter = submitter_of(task);
	if (!submitter)
		return;
	thread = active(submitter);
	if (thread)
		asked_by_worker(submitter, thread, key, disk, bytes);
	bpf_task_release(submitter);
}

SEC("?tp_btf/block_io_start")
int WHOLE_PROG(io_start, struct request *rq)
{
	request_begins((u64)rq, rq->q->disk, rq->__data_len);
	return 0;
}

/* Before Linux 6.5. */
SEC("?tp_btf/block_getrq")
int WHOLE_PROG(got_request)
{
	struct bio *bio = bio_of(ctx);
	request_begins(event_key(ctx), bio->bi_bdev->bd_disk, bio->bi_iter.bi_size);
	return 0;
}

/* What is kept of a request of a followed query; NULL for all others. key: what it is kept by */
static __always_inline struct flight *flight_of(struct request *rq, u64 *key)
{
	return by_first_bio ? by_bio(&flights, rq, key) : by_request(&flights, rq, key);
}
