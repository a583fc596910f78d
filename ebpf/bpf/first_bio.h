/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* Where a request begins: at block_io_start, or before Linux 6.5 at block_getrq, which comes just before the same place and
 * hands over the bio that the request is made for. Until it is issued the request is known by that bio then. */
#pragma once

#include "common.h"

/* Nonzero: at block_getrq. */
const volatile u32 by_first_bio = 0;
/* Nonzero: events of bios hand over the queue first (before Linux 5.12). */
const volatile u32 queue_comes_first = 0;

/* Bios that were merged in front of the first one since. */
#define IN_FRONT 8

/* The bio of an event of bios. */
static __always_inline struct bio *bio_of(unsigned long long *ctx)
{
	struct bio *bio;
	/* Each read where it is alone: a compiler that makes one read of the two adds to the context, which the verifier
	 * refuses. */
	if (queue_comes_first) {
		bio = (void *)ctx[1];
		asm volatile("" : "+r"(bio));
	} else {
		bio = (void *)ctx[0];
		asm volatile("" : "+r"(bio));
	}
	return bio;
}

/* A bio until it is done: its address alone is another one's at once, as a rule of another place. bio: as a number, since
 * the verifier lets nobody calculate with a pointer */
static __always_inline u64 key_of_bio(u64 bio)
{
	return bio ^ BPF_CORE_READ((struct bio *)bio, bi_iter.bi_sector) * 0x9e3779b97f4a7c15ULL;
}

/* The same of the bio of an event of bios. */
static __always_inline u64 event_key(unsigned long long *ctx)
{
	u64 bio = 0;
	bpf_probe_read_kernel(&bio, sizeof(bio), ctx + (queue_comes_first ? 1 : 0));
	return key_of_bio(bio);
}

/* What a map that requests are kept in, by themselves or by a bio, has of one; NULL for none. key: what that is kept by */
static __always_inline void *by_bio(void *flights, struct request *rq, u64 *key)
{
	u64 bio = (u64)BPF_CORE_READ(rq, bio);
	for (u32 i = 0; i < IN_FRONT && bio; i++) {
		*key = key_of_bio(bio);
		void *flight = bpf_map_lookup_elem(flights, key);
		if (flight)
			return flight;
		bio = (u64)BPF_CORE_READ((struct bio *)bio, bi_next);
	}
	return 0;
}

static __always_inline void *by_request(void *flights, struct request *rq, u64 *key)
{
	*key = (u64)rq;
	return bpf_map_lookup_elem(flights, key);
}
