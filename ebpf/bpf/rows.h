/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* Rows that programs of uprobes count durations into. They can be preempted by another thread's on the same CPU, in the
 * middle of an addition: histogram.h will not do for them. */
#pragma once

#include "common.h"

/* `histogram.rs` reads them in this order. */
struct row {
	u64 count;
	u64 ns;
	u64 least_flipped; /* ~least: the greatest of the flipped ones, so that nothing yet is 0 here, too */
	u64 most;
	u64 own_ns;
	u64 buckets[BUCKETS];
};

#define ADD(place, n) __sync_fetch_and_add(&(place), n)

/* They can be preempted between a comparison and what is stored for it, too. Each new attempt is another preemption within
 * nanoseconds. */
#define ATTEMPTS 8
static __always_inline void raise_to(u64 *place, u64 value)
{
	for (int i = 0; i < ATTEMPTS; i++) {
		u64 seen = *(volatile u64 *)place;
		if (value <= seen || __sync_val_compare_and_swap(place, seen, value) == seen)
			return;
	}
}

/* Whether it is longer than the last bucket begins, where it counts then. The count comes last: who sees it sees all. */
static __always_inline bool count_into(struct row *row, u64 ns, u64 own)
{
	u64 bucket = bucket_of(ns);
	/* The register that is compared must be the one that indexes: Linux 6.1 does not take a copy's bound for its. */
	asm volatile("" : "+r"(bucket));
	if (bucket < BUCKETS) {
		asm volatile("" : "+r"(bucket));
		ADD(row->buckets[bucket], 1);
	}
	raise_to(&row->least_flipped, ~ns);
	raise_to(&row->most, ns);
	ADD(row->ns, ns);
	ADD(row->own_ns, own);
	ADD(row->count, 1);
	return ns >> (MAX_EXPONENT + 1);
}
