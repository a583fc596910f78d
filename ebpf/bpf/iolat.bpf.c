/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* IO latency of one block device. One of three ways, the first that the kernel and the device allow:
 *   request  block_io_start -> block_rq_issue (queue) -> block_io_done (device); Linux 6.5 and newer
 *   getrq    block_getrq -> block_rq_issue -> last block_rq_complete; older ones. Before 5.11 their events hand over the
 *            queue first: the loader asks the kernel's BTF and refuses
 *   bio      block_bio_queue -> block_bio_complete; devices that have no requests (device mapper, md, zram)
 * Requests and bios are known by their address: a key of device and sector collides as soon as two read one block.
 * They are followed from the moment the program is attached; what completes while the gate is open is counted, as
 * /proc/diskstats does. */
#include "device.h"

enum owner { OTHERS, PROCESS, OWNERS };
enum stage { QUEUE, DEVICE, TOTAL, STAGES };
#define ROWS (OPERATIONS * OWNERS * STAGES)

#include "histogram.h"
#include "targets.h"

enum tally {
	LOST_START, /* the map of requests in flight was full */
	LOST_KIND,  /* the map of kinds was full */
	NO_START,   /* completed; its start was before the programs were attached, or not seen */
	NO_END,     /* its address began another request, and its end was not seen */
	NEGATIVE,   /* an end before its start: clocks of two CPUs */
	OVERFLOW,   /* longer than the last bucket begins */
	REQUEUED,   /* handed back by the driver, and issued again later */
	MERGED,     /* merged into another request, which counts for both */
	HELD_BACK,  /* by an IO limit of the process's control group, before it began here */
	TALLIES,
};

SHOW_ENUM(owner);
SHOW_ENUM(stage);
SHOW_ENUM(tally);

struct flight {
	u64 started;
	u64 issued;
	u32 flags;
	u32 bytes;
	u32 own;
};

struct kind {
	u32 operation; /* its group */
	u32 flags;
	u32 bytes;
	u32 own;
};

struct kind_sum {
	u64 count;
	u64 bytes;
	u64 total_ns;
};

MAP(flights, HASH, 65536, u64, struct flight);
MAP(kinds, PERCPU_HASH, 8192, struct kind, struct kind_sum);
MAP(tallies, PERCPU_ARRAY, TALLIES, u32, u64);

static __always_inline void lose(u32 what)
{
	if (!gate)
		return;
	u64 *n = bpf_map_lookup_elem(&tallies, &what);
	/* Two programs may tally the same, one of which interrupts the other. */
	if (n)
		__sync_fetch_and_add(n, 1);
}

#include "requests.h"

static __always_inline void count(u32 operation, u32 own, u32 stage, u64 from, u64 to)
{
	enum counted counted = count_row((operation * OWNERS + (own & 1)) * STAGES + stage, from, to);
	if (counted == BACKWARDS)
		lose(NEGATIVE);
	else if (counted == TOO_LONG)
		lose(OVERFLOW);
}

static __always_inline u32 is_own(struct bio *bio)
{
	struct task_struct *task = current_task();
	if (!sends_held_back(task))
		return is_target(task, current_ids().tgid);
	if (!is_of_target_group(bio))
		return 0;
	lose(HELD_BACK);
	return 1;
}

static __always_inline void begin(u64 key, struct bio *bio, u32 flags, u32 bytes, u64 issued)
{
	struct flight flight = {
		.flags = flags,
		.bytes = bytes,
		.own = is_own(bio),
	};
	/* The kernel takes its own time after us: the later ours, the closer. */
	flight.started = bpf_ktime_get_ns();
	if (issued)
		flight.issued = flight.started;
	follow(key, &flight);
}

static __always_inline void end(u64 key, struct flight *flight)
{
	u64 now = bpf_ktime_get_ns();
	u32 operation = group_of(flight->flags & REQ_OP_MASK), own = flight->own;
	if (!gate)
		goto done;
	if (flight->issued) {
		/* A flush was first seen when it was issued. */
		if (operation != FLUSH)
			count(operation, own, QUEUE, flight->started, flight->issued);
		count(operation, own, DEVICE, flight->issued, now);
	}
	count(operation, own, TOTAL, flight->started, now);
	struct kind kind = { operation, flight->flags & ~REQ_OP_MASK, flight->bytes, own };
	struct kind_sum none = {}, *sum = find_or_add(&kinds, &kind, &none);
	if (sum) {
		sum->count++;
		sum->bytes += flight->bytes;
		sum->total_ns += now - flight->started;
	} else {
		lose(LOST_KIND);
	}
done:
	bpf_map_delete_elem(&flights, &key);
}

/* --- request: Linux 6.5 and newer ------------------------------------------------------------------------------- */

SEC("?tp_btf/block_io_start")
int WHOLE_PROG(io_start, struct request *rq)
{
	if (is_ours(rq))
		begin((u64)rq, rq->bio, rq->cmd_flags, rq->__data_len, 0);
	return 0;
}

/* --- getrq: before Linux 6.5, and of devices without requests --------------------------------------------------- */

static __always_inline void bio_begins(struct bio *bio, u64 key)
{
	if (is_our_bio(bio))
		begin(key, bio, bio->bi_opf, bio->bi_iter.bi_size, 0);
}

SEC("?tp_btf/block_getrq")
int WHOLE_PROG(got_request)
{
	struct bio *bio = bio_of(ctx);
	bio_begins(bio, event_key(ctx));
	return 0;
}

SEC("?tp_btf/block_bio_queue")
int WHOLE_PROG(bio_queue)
{
	struct bio *bio = bio_of(ctx);
	bio_begins(bio, (u64)bio);
	return 0;
}

/* --- requests --------------------------------------------------------------------------------------------------- */

/* Nonzero: a request that was never seen before begins here (one that another driver made). */
const volatile u32 issue_begins = 0;

SEC("?tp_btf/block_rq_issue")
int WHOLE_PROG(rq_issue, struct request *rq)
{
	struct flight *flight = issued_now(rq);
	if (!flight) {
		/* The command that flushes the drive's cache is made by the block layer itself, without block_io_start. */
		if ((issue_begins || (rq->cmd_flags & REQ_OP_MASK) == REQ_OP_FLUSH) && is_ours(rq))
			begin((u64)rq, rq->bio, rq->cmd_flags, rq->__data_len, 1);
		return 0;
	}
	flight->issued = bpf_ktime_get_ns();
	/* Bios merged into this request since its start are part of it. */
	flight->bytes = rq->__data_len;
	return 0;
}

/* --- once more, as in requests.h --------------------------------------------------------------------------------- */

SEC("?tp_btf/block_io_start")
int WHOLE_PROG(io_start_again, struct request *rq)
{
	u64 key = (u64)rq;
	if (is_ours(rq) && !bpf_map_lookup_elem(&flights, &key))
		begin(key, rq->bio, rq->cmd_flags, rq->__data_len, 0);
	return 0;
}

SEC("?tp_btf/block_bio_queue")
int WHOLE_PROG(bio_queue_again, struct bio *bio)
{
	u64 key = (u64)bio;
	if (!bpf_map_lookup_elem(&flights, &key))
		bio_begins(bio, key);
	return 0;
}

SEC("?tp_btf/block_rq_issue")
int WHOLE_PROG(rq_issue_again, struct request *rq)
{
	u64 key = (u64)rq;
	struct flight *flight = bpf_map_lookup_elem(&flights, &key);
	if (!flight && (rq->cmd_flags & REQ_OP_MASK) == REQ_OP_FLUSH && is_ours(rq))
		begin(key, rq->bio, rq->cmd_flags, rq->__data_len, 1);
	if (!flight || flight->issued)
		return 0;
	flight->issued = bpf_ktime_get_ns();
	flight->bytes = rq->__data_len;
	return 0;
}
