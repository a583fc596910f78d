/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* Bios that an IO limit of a control group holds back (io.max, blkio.throttle): no event tells of them until their turn
 * comes, and then it is a worker of the kernel's that sends them. */
#pragma once

#include "common.h"

#define PF_WQ_WORKER 0x20

struct kthread {
	void *data;
} __attribute__((preserve_access_index));

struct worker {
	const void *current_func;
} __attribute__((preserve_access_index));

/* A direct call; size: bytes that it has made bios for. */
struct iomap_dio {
	struct kiocb *iocb;
	s64 size;
	bool wait_for_completion;
	union {
		struct {
			struct task_struct *waiter;
		} submit;
	};
} __attribute__((preserve_access_index));

extern const void blk_throtl_dispatch_work_fn __ksym __weak;
extern const void bio_chain_endio __ksym __weak;
extern const void iomap_dio_bio_end_io __ksym __weak;

/* Of Linux 6.2. */
extern struct task_struct *bpf_task_from_pid(s32 pid) __ksym __weak;
extern void bpf_task_release(struct task_struct *task) __ksym __weak;

/* Whether this task sends now what was held back. Before Linux 5.17 this is not known. */
static __always_inline bool sends_held_back(struct task_struct *task)
{
	if (!bpf_core_field_exists(task->worker_private) || !(task->flags & PF_WQ_WORKER))
		return false;
	struct kthread *thread = task->worker_private;
	struct worker *worker = 0;
	if (bpf_core_field_exists(thread->data))
		worker = BPF_CORE_READ(thread, data);
	if (!bpf_core_field_exists(worker->current_func))
		return false;
	return BPF_CORE_READ(worker, current_func) == &blk_throtl_dispatch_work_fn;
}

/* A bio that was split is at the end of a chain of its parts. */
#define CHAIN 4

/* The direct call that a bio is of; NULL where it is of none, or this is not known. left: from the bio's beginning to the
 * end of the one that the call made */
static __always_inline struct iomap_dio *direct_call(struct bio *bio, u64 *left)
{
	const void *end = 0;
	*left = 0;
	for (u32 i = 0; i < CHAIN && bio; i++) {
		*left += BPF_CORE_READ(bio, bi_iter.bi_size);
		end = BPF_CORE_READ(bio, bi_end_io);
		if (end != &bio_chain_endio)
			break;
		bio = BPF_CORE_READ(bio, bi_private);
	}
	return end && end == &iomap_dio_bio_end_io ? BPF_CORE_READ(bio, bi_private) : 0;
}

/* The thread that waits in a direct call for this bio, to be released; NULL where none does, or this is not known. */
static __always_inline struct task_struct *waiter_of(struct bio *bio)
{
	u64 left;
	struct iomap_dio *call = direct_call(bio, &left);
	if (!call || !bpf_ksym_exists(bpf_task_from_pid) || !bpf_core_field_exists(call->wait_for_completion) ||
	    !bpf_core_field_exists(call->submit.waiter) || !BPF_CORE_READ(call, wait_for_completion))
		return 0;
	return bpf_task_from_pid(BPF_CORE_READ(call, submit.waiter, pid));
}
