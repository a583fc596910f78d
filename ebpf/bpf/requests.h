/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* The life of a request, or of a bio where the device has no requests, from its start to its end: the same for whoever
 * follows it. Who includes this has told before what is kept (`struct flight`, with `issued`), in which map (`flights`),
 * what is counted (LOST_START, NO_START, NO_END, REQUEUED, MERGED) and by what (lose()). */
#pragma once

#include "device.h"
#include "first_bio.h"

/* RQF_FLUSH_SEQ of this kernel, as a mask. */
const volatile u32 flush_sequence = 0;

/* What is done of a request that has ended; takes it out of the map. */
static __always_inline void end(u64 key, struct flight *flight);

/* From now on, until its end. */
static __always_inline void follow(u64 key, struct flight *flight)
{
	if (bpf_map_update_elem(&flights, &key, flight, BPF_NOEXIST) == 0)
		return;
	lose(bpf_map_update_elem(&flights, &key, flight, BPF_EXIST) == 0 ? NO_END : LOST_START);
}

/* A write with a flush before or after it ends in steps; only the last is its end. */
static __always_inline bool is_a_step(struct request *rq)
{
	return rq->rq_flags & flush_sequence && (rq->cmd_flags & REQ_OP_MASK) != REQ_OP_FLUSH;
}

SEC("?tp_btf/block_io_done")
int WHOLE_PROG(io_done, struct request *rq)
{
	if (is_a_step(rq))
		return 0;
	u64 key = (u64)rq;
	struct flight *flight = bpf_map_lookup_elem(&flights, &key);
	if (flight)
		end(key, flight);
	else if (was_ours(rq))
		lose(NO_START);
	return 0;
}

/* The flight of a request that is issued now. By its request from now on: parts of it may be done before others. */
static __always_inline struct flight *issued_now(struct request *rq)
{
	u64 key, bio_key;
	struct flight *begun = by_first_bio ? by_bio(&flights, rq, &bio_key) : 0;
	if (begun) {
		key = (u64)rq;
		if (bpf_map_update_elem(&flights, &key, begun, BPF_NOEXIST))
			lose(bpf_map_update_elem(&flights, &key, begun, BPF_EXIST) == 0 ? NO_END : LOST_START);
		bpf_map_delete_elem(&flights, &bio_key);
	}
	return by_request(&flights, rq, &key);
}

/* Where there is no block_io_done: with block_getrq. */
SEC("?tp_btf/block_rq_complete")
int WHOLE_PROG(rq_complete, struct request *rq, int error, unsigned int bytes)
{
	/* Fires for each part as well; what is left is counted down after it. */
	if (is_a_step(rq) || bytes < rq->__data_len)
		return 0;
	u64 key;
	struct flight *flight = by_request(&flights, rq, &key);
	/* A write without data is only a flush, and is not issued. */
	if (!flight)
		flight = by_bio(&flights, rq, &key);
	if (flight)
		end(key, flight);
	else if (was_ours(rq))
		lose(NO_START);
	return 0;
}

SEC("?tp_btf/block_rq_requeue")
int WHOLE_PROG(rq_requeue, struct request *rq)
{
	u64 key = (u64)rq;
	struct flight *flight = bpf_map_lookup_elem(&flights, &key);
	if (flight) {
		/* Back in the queue: until it is issued again the time is the queue's. */
		flight->issued = 0;
		lose(REQUEUED);
	}
	return 0;
}

SEC("?tp_btf/block_rq_merge")
int WHOLE_PROG(rq_merge, struct request *rq)
{
	u64 key = (u64)rq;
	if (by_first_bio && !by_bio(&flights, rq, &key))
		key = (u64)rq;
	/* Freed now, without ever being done. */
	if (bpf_map_delete_elem(&flights, &key) == 0)
		lose(MERGED);
	return 0;
}

SEC("?tp_btf/block_bio_complete")
int WHOLE_PROG(bio_complete, struct request_queue *q, struct bio *bio)
{
	u64 key = (u64)bio;
	struct flight *flight = bpf_map_lookup_elem(&flights, &key);
	if (flight)
		end(key, flight);
	else if (is_our_bio(bio))
		lose(NO_START);
	return 0;
}

/* --- once more: from Linux 7.0 on ---------------------------------------------------------------------------------
 *
 * A program whose thread has lost its CPU within it is left out there until that thread continues. Each has a second one on
 * the same event, which runs after it and does what it has left out: it finds it not done. */

SEC("?tp_btf/block_io_done")
int WHOLE_PROG(io_done_again, struct request *rq)
{
	u64 key = (u64)rq;
	struct flight *flight = is_a_step(rq) ? 0 : bpf_map_lookup_elem(&flights, &key);
	if (flight)
		end(key, flight);
	return 0;
}

SEC("?tp_btf/block_bio_complete")
int WHOLE_PROG(bio_complete_again, struct request_queue *q, struct bio *bio)
{
	u64 key = (u64)bio;
	struct flight *flight = bpf_map_lookup_elem(&flights, &key);
	if (flight)
		end(key, flight);
	return 0;
}
