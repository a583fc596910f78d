/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* IO latency of one block device: block_io_start -> block_rq_issue (queue) -> block_rq_complete (device).
 * Requests are known by their address: a key of device and sector collides as soon as two of them read one block. */
#include "common.h"

#define OPERATIONS 4 /* read, write, flush, discard and others */
#define OWNERS 2     /* the process, everybody else */
#define STAGES 3     /* queue, device, total */
#define ROWS (OPERATIONS * OWNERS * STAGES)
#define REQ_OP_MASK 0xff

const volatile u32 device_major = 0;
const volatile u32 device_minor = 0;
const volatile u32 device_minors = 1;

enum loss {
	LOST_START,     /* the map of requests in flight was full */
	LOST_KIND,      /* the map of kinds was full */
	NO_START,       /* completed, but begun before the gate opened or not seen */
	NEGATIVE,       /* an end before its start: clocks of two CPUs */
	OVERFLOW,       /* longer than the last bucket begins */
	REQUEUED,       /* issued more than once */
	LOSSES,
};

struct flight {
	u64 started;
	u64 issued;
	u32 flags;
	u32 bytes;
	u32 own;
};

struct kind {
	u32 operation;
	u32 flags;
	u32 bytes;
	u32 own;
};

struct kind_sum {
	u64 count;
	u64 bytes;
	u64 total_ns;
};

struct sum {
	u64 count;
	u64 ns;
	u64 least;
	u64 most;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct flight);
} flights SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ROWS * BUCKETS);
	__type(key, u32);
	__type(value, u64);
} histogram SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ROWS);
	__type(key, u32);
	__type(value, struct sum);
} sums SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct kind);
	__type(value, struct kind_sum);
} kinds SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LOSSES);
	__type(key, u32);
	__type(value, u64);
} losses SEC(".maps");

static __always_inline void lose(u32 what)
{
	u64 *n = bpf_map_lookup_elem(&losses, &what);
	if (n)
		(*n)++;
}

static __always_inline int is_ours(struct request *rq)
{
	struct gendisk *disk = BPF_CORE_READ(rq, q, disk);
	return BPF_CORE_READ(disk, major) == (int)device_major &&
	       BPF_CORE_READ(disk, first_minor) == (int)device_minor;
}

static __always_inline u32 row_of(u32 operation, u32 own, u32 stage)
{
	u32 kind = operation == 0 ? 0 : operation == 1 ? 1 : operation == 2 ? 2 : 3;
	return (kind * OWNERS + own) * STAGES + stage;
}

static __always_inline void count(u32 row, u64 from, u64 to)
{
	if (to < from) {
		lose(NEGATIVE);
		return;
	}
	u64 ns = to - from;
	if (ns >> (MAX_EXPONENT + 1))
		lose(OVERFLOW);
	u32 slot = row * BUCKETS + bucket_of(ns);
	u64 *n = bpf_map_lookup_elem(&histogram, &slot);
	if (n)
		(*n)++;
	struct sum *sum = bpf_map_lookup_elem(&sums, &row);
	if (!sum)
		return;
	if (!sum->count || ns < sum->least)
		sum->least = ns;
	if (ns > sum->most)
		sum->most = ns;
	sum->count++;
	sum->ns += ns;
}

SEC("tp_btf/block_io_start")
int BPF_PROG(io_start, struct request *rq)
{
	if (!gate || !is_ours(rq))
		return 0;
	struct flight flight = {
		.started = bpf_ktime_get_ns(),
		.flags = BPF_CORE_READ(rq, cmd_flags),
		.bytes = BPF_CORE_READ(rq, __data_len),
		.own = current_ids().tgid == target_tgid,
	};
	u64 key = (u64)rq;
	if (bpf_map_update_elem(&flights, &key, &flight, BPF_ANY))
		lose(LOST_START);
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(rq_issue, struct request *rq)
{
	u64 key = (u64)rq;
	struct flight *flight = bpf_map_lookup_elem(&flights, &key);
	if (!flight)
		return 0;
	if (flight->issued)
		lose(REQUEUED);
	flight->issued = bpf_ktime_get_ns();
	/* Requests merged into this one since its start are part of it. */
	flight->bytes = BPF_CORE_READ(rq, __data_len);
	return 0;
}

SEC("tp_btf/block_io_done")
int BPF_PROG(io_done, struct request *rq)
{
	u64 now = bpf_ktime_get_ns();
	u64 key = (u64)rq;
	struct flight *flight = bpf_map_lookup_elem(&flights, &key);
	if (!flight) {
		if (gate && is_ours(rq))
			lose(NO_START);
		return 0;
	}
	u32 operation = flight->flags & REQ_OP_MASK, own = flight->own;
	if (flight->issued) {
		count(row_of(operation, own, 0), flight->started, flight->issued);
		count(row_of(operation, own, 1), flight->issued, now);
	}
	count(row_of(operation, own, 2), flight->started, now);
	struct kind kind = { operation, flight->flags & ~REQ_OP_MASK, flight->bytes, own };
	struct kind_sum *sum = bpf_map_lookup_elem(&kinds, &kind);
	if (!sum) {
		struct kind_sum none = {};
		bpf_map_update_elem(&kinds, &kind, &none, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&kinds, &kind);
	}
	if (sum) {
		sum->count++;
		sum->bytes += flight->bytes;
		sum->total_ns += now - flight->started;
	} else {
		lose(LOST_KIND);
	}
	bpf_map_delete_elem(&flights, &key);
	return 0;
}
