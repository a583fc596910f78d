/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* What the requests of a block device belong to: each is assigned to a file where it is sent, and reported at its end.
 *   request  block_io_start -> block_rq_issue (queue) -> block_io_done (device); Linux 6.5 and newer
 *   getrq    block_getrq -> block_rq_issue -> last block_rq_complete; older ones
 *   bio      block_bio_queue -> block_bio_complete; devices that have no requests (device mapper, md, zram)
 * Requests and bios are known by their address. They are followed from the moment the programs are attached; what
 * completes while the gate is open is reported, as /proc/diskstats counts.
 *
 * request_files.h: what is kept, and how the file is found. */
#include "request_files.h"
#include "requests.h"

static __always_inline u32 submitter_of(struct task_struct *task, u32 tgid)
{
	if (task->flags & PF_KTHREAD)
		return KERNEL;
	return is_target(task, tgid) ? PROCESS : OTHERS;
}

/* Of a request that was held back the thread that waits for it is known, or its group alone. Whom to release. */
static __always_inline struct task_struct *find_waiter(struct flight *flight, struct bio *bio)
{
	struct task_struct *task = waiter_of(bio);
	lose(HELD_BACK);
	if (!task) {
		flight->submitter = is_of_target_group(bio) ? PROCESS : OTHERS;
		return 0;
	}
	struct ids ids = ids_of(task);
	flight->tid = ids.tid;
	flight->tgid = ids.tgid;
	flight->submitter = submitter_of(task, ids.tgid);
	bpf_probe_read_kernel(flight->comm, sizeof(flight->comm), task->comm);
	return task;
}

/* issued: it waits in no queue */
static __always_inline void begin(void *ctx, u64 key, struct bio *bio, struct gendisk *disk, u32 flags, u32 bytes,
				  bool issued)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct ids ids = current_ids();
	struct flight flight = {
		.started = bpf_ktime_get_ns(),
		.flags = flags,
		.bytes = bytes,
		.tid = ids.tid,
		.tgid = ids.tgid,
	};
	if (issued)
		flight.issued = flight.started;
	bpf_get_current_comm(flight.comm, sizeof(flight.comm));
	struct task_struct *waiter = 0;
	if (sends_held_back(task))
		waiter = find_waiter(&flight, bio);
	else
		flight.submitter = submitter_of(task, ids.tgid);
	if (waiter) {
		find_file(&flight, bio, disk, waiter);
		bpf_task_release(waiter);
	} else {
		find_file(&flight, bio, disk, task);
	}
	u32 each = (flags & REQ_OP_MASK) == REQ_OP_READ ? stack_each_read : stack_each_other;
	/* Stacks are named by the mappings of one process. */
	if (each && gate && ids.tgid == target_tgid && flight.submitter == PROCESS && bpf_get_prandom_u32() % each == 0)
		flight.stack = take_stack(ctx, BPF_F_USER_STACK);
	follow(key, &flight);
}

static __always_inline void end(u64 key, struct flight *flight)
{
	flight->ended = bpf_ktime_get_ns();
	if (gate) {
		if (flight->ended < flight->started)
			lose(NEGATIVE);
		if (bpf_ringbuf_output(&records, flight, sizeof(*flight), BPF_RB_NO_WAKEUP))
			lose(LOST_RECORD);
	}
	bpf_map_delete_elem(&flights, &key);
}

/* --- direct IO --------------------------------------------------------------------------------------------------- */

static __always_inline void call_begins(struct kiocb *iocb, struct iov_iter *iter)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct direct *direct = bpf_task_storage_get(&directs, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!direct) {
		lose(LOST_DIRECT);
		return;
	}
	struct inode *inode = iocb->ki_filp->f_inode;
	direct->file.inode = inode->i_ino;
	direct->file.device = inode->i_sb->s_dev;
	direct->file.generation = inode->i_generation;
	direct->inode = (u64)inode;
	direct->offset = iocb->ki_pos;
	direct->left = iter->count;
}

SEC("?tp_btf/iomap_dio_rw_begin")
int WHOLE_PROG(direct_begins, struct kiocb *iocb, struct iov_iter *iter)
{
	call_begins(iocb, iter);
	return 0;
}

/* --- requests ---------------------------------------------------------------------------------------------------- */

SEC("?tp_btf/block_io_start")
int WHOLE_PROG(io_start, struct request *rq)
{
	if (is_ours(rq))
		begin(ctx, (u64)rq, rq->bio, rq->q->disk, rq->cmd_flags, rq->__data_len, false);
	return 0;
}

/* Of a chain of bios, how many are looked at. */
#define MERGES 64

/* Whether all that was merged into a request is of the file that its first page is of. */
static __always_inline u32 has_several(struct request *rq, u64 mapping)
{
	struct bio *bio = rq->bio;
	for (u32 i = 0; i < MERGES; i++) {
		u64 index;
		bio = BPF_CORE_READ(bio, bi_next);
		if (!bio)
			break;
		if (mapping_of((u64)BPF_CORE_READ(first_vector(bio), bv_page), &index) != mapping)
			return 1;
	}
	return 0;
}

static __always_inline void issue(struct flight *flight, struct request *rq)
{
	flight->issued = bpf_ktime_get_ns();
	/* Bios merged into this request since its start are part of it. */
	if (flight->mapping && rq->__data_len != flight->bytes)
		flight->several = has_several(rq, flight->mapping);
	flight->bytes = rq->__data_len;
}

SEC("?tp_btf/block_rq_issue")
int WHOLE_PROG(rq_issue, struct request *rq)
{
	struct flight *flight = issued_now(rq);
	if (!flight) {
		/* The command that flushes the drive's cache is made by the block layer itself, without block_io_start. */
		if ((rq->cmd_flags & REQ_OP_MASK) == REQ_OP_FLUSH && is_ours(rq))
			begin(ctx, (u64)rq, 0, 0, rq->cmd_flags, 0, true);
		return 0;
	}
	issue(flight, rq);
	return 0;
}

/* --- bios -------------------------------------------------------------------------------------------------------- */

static __always_inline void bio_begins(void *ctx, struct bio *bio, u64 key, bool issued)
{
	if (is_our_bio(bio))
		begin(ctx, key, bio, disk_of(bio), bio->bi_opf, bio->bi_iter.bi_size, issued);
}

/* Before Linux 6.5. */
SEC("?tp_btf/block_getrq")
int WHOLE_PROG(got_request)
{
	struct bio *bio = bio_of(ctx);
	bio_begins(ctx, bio, event_key(ctx), false);
	return 0;
}

/* Of devices without requests. */
SEC("?tp_btf/block_bio_queue")
int WHOLE_PROG(bio_queue)
{
	struct bio *bio = bio_of(ctx);
	bio_begins(ctx, bio, (u64)bio, true);
	return 0;
}

/* --- once more, as in requests.h --------------------------------------------------------------------------------- */

SEC("?tp_btf/block_io_start")
int WHOLE_PROG(io_start_again, struct request *rq)
{
	u64 key = (u64)rq;
	if (is_ours(rq) && !bpf_map_lookup_elem(&flights, &key))
		begin(ctx, key, rq->bio, rq->q->disk, rq->cmd_flags, rq->__data_len, false);
	return 0;
}

SEC("?tp_btf/block_bio_queue")
int WHOLE_PROG(bio_queue_again, struct bio *bio)
{
	u64 key = (u64)bio;
	if (!bpf_map_lookup_elem(&flights, &key))
		bio_begins(ctx, bio, key, true);
	return 0;
}

SEC("?tp_btf/block_rq_issue")
int WHOLE_PROG(rq_issue_again, struct request *rq)
{
	u64 key = (u64)rq;
	struct flight *flight = bpf_map_lookup_elem(&flights, &key);
	if (!flight && (rq->cmd_flags & REQ_OP_MASK) == REQ_OP_FLUSH && is_ours(rq))
		begin(ctx, key, 0, 0, rq->cmd_flags, 0, true);
	if (flight && !flight->issued)
		issue(flight, rq);
	return 0;
}

SEC("?tp_btf/iomap_dio_rw_begin")
int WHOLE_PROG(direct_begins_again, struct kiocb *iocb, struct iov_iter *iter)
{
	call_begins(iocb, iter);
	return 0;
}
