/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* What every program shares: the gate, the process it looks at, log-linear histograms, declared losses. */
#pragma once

#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

/* Set by user space once every program is attached, and cleared before the first is detached: probes attach one by one. */
volatile int gate = 0;

/* The process, by its pid in the pid namespace of the loader (device and inode of /proc/self/ns/pid). */
const volatile u64 pidns_dev = 0;
const volatile u64 pidns_ino = 0;
const volatile u32 target_tgid = 0;

/* Buckets: exact below 32 ns, then each power of two in 32 parts, so a bucket is at most 1/32 (3.1 %) wide. */
#define SUB_BITS 5
#define SUB (1 << SUB_BITS)
#define MAX_EXPONENT 36 /* 2^37 ns = 137 s; longer ones count in the last bucket and in `overflow` */
#define BUCKETS ((MAX_EXPONENT - SUB_BITS + 2) * SUB)

static __always_inline u32 log2_u64(u64 v)
{
	u32 r = 0;
#pragma unroll
	for (int shift = 32; shift > 0; shift >>= 1)
		if (v >> shift) {
			v >>= shift;
			r += shift;
		}
	return r;
}

static __always_inline u32 bucket_of(u64 ns)
{
	if (ns < SUB)
		return ns;
	u32 exponent = log2_u64(ns);
	if (exponent > MAX_EXPONENT)
		return BUCKETS - 1;
	return (exponent - SUB_BITS + 1) * SUB + ((ns >> (exponent - SUB_BITS)) & (SUB - 1));
}

struct ids {
	u32 tgid;
	u32 tid;
};

/* Process and thread as the loader's pid namespace numbers them; zeros for a task outside of it. */
static __always_inline struct ids current_ids(void)
{
	struct bpf_pidns_info info = {};
	struct ids ids = {};
	if (bpf_get_ns_current_pid_tgid(pidns_dev, pidns_ino, &info, sizeof(info)) == 0) {
		ids.tgid = info.tgid;
		ids.tid = info.pid;
	}
	return ids;
}
