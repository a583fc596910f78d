/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* Rows of log-linear histograms, and the exact count, sum, least and most of each. A program says how many
 * (ROWS) before it includes this. */
#pragma once

#include "common.h"

struct sum {
	u64 count;
	u64 ns;
	u64 least;
	u64 most;
};

MAP(histogram, PERCPU_ARRAY, ROWS * BUCKETS, u32, u64);
MAP(sums, PERCPU_ARRAY, ROWS, u32, struct sum);

enum counted {
	COUNTED,
	TOO_LONG, /* counted, in the last bucket */
	BACKWARDS, /* an end before its start, by the clocks of two CPUs: not counted */
};

/* Plain additions are whole: one program of a set counts, it is not preempted (WHOLE_PROG), and where it would interrupt itself the
 * kernel leaves the inner one out and counts it as missed (Linux 6.2). */
static __always_inline enum counted count_row(u32 row, u64 from, u64 to)
{
	if (to < from)
		return BACKWARDS;
	u64 ns = to - from;
	u32 slot = row * BUCKETS + bucket_of(ns);
	u64 *n = bpf_map_lookup_elem(&histogram, &slot);
	if (n)
		(*n)++;
	struct sum *sum = bpf_map_lookup_elem(&sums, &row);
	if (sum) {
		if (!sum->count || ns < sum->least)
			sum->least = ns;
		if (ns > sum->most)
			sum->most = ns;
		sum->count++;
		sum->ns += ns;
	}
	return ns >> (MAX_EXPONENT + 1) ? TOO_LONG : COUNTED;
}
