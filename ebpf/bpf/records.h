/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* What is kept of one followed query: its waits and its own requests of the device, in the order of their beginnings.
 *
 * A thread is in one state at any time: on a CPU, runnable, or blocked. What is kept are the last two; what is left of
 * a query is its time on a CPU, so that nothing is measured twice and the parts add up to the query to the ns. */
#pragma once

#include "futex.h"
#include "operations.h"
#include "uprobe.h"
#include "waits.h"

typedef __u8 u8;
typedef __u16 u16;

enum rows_of { ROW_PILOT, ROW_WINDOW, ROWS };

enum counter {
	PILOT_QUERIES, /* begun in the pilot, followed or not */
	QUERIES,       /* begun while the gate was open, followed or not */
	FOLLOWED,      /* of these */
	THREADS,       /* that began any */
	SLOW,          /* followed, ended, and at least as long as slow_ns */
	KEPT,          /* sent to user space */
	COUNTERS,
};

enum loss {
	LOST_THREAD,  /* no room for a thread's state: its query is not followed */
	LOST_REQUEST, /* the map of requests under way was full: when it ended is not known */
	LOST_SLOW,    /* a slow query's record found the ring full */
	LOST_OTHER,   /* a record of one drawn at random did */
	LOST_STACK,   /* the map of stacks was full */
	NO_STACK,     /* the kernel could not walk it */
	NESTED,       /* a query within a followed one: part of the outer one */
	ABANDONED,    /* a followed query that never returned (an exception went through it) */
	REQUEUED,     /* a followed request issued more than once: its last issue counts */
	OVERTAKEN,    /* a followed request whose address another one had before its end was read */
	MISSED_IN,    /* no event of a switch-in came: its time is worked out from the CPU time since */
	OVERFLOW,     /* longer than the last bucket begins */
	LOST_BESIDE,  /* a map of what devices have was full: others count one less beside them */
	LOSSES,
};

enum span_kind { WAIT, REQUEST, SAMPLE };

enum limit {
	/* A MultiGet's reads are one after the other, each with a wait. */
	WAITS = 48,
	REQUESTS = 32,
	SAMPLES = 8, /* a power of two */
	SPANS = WAITS + REQUESTS + SAMPLES,
};

enum record_flag {
	FLAG_SLOW = 1,   /* kept for its duration, not at random */
	FLAG_MISSED = 2, /* an end of a wait was worked out */
};

SHOW_ENUM(rows_of);
SHOW_ENUM(counter);
SHOW_ENUM(loss);
SHOW_ENUM(span_kind);
SHOW_ENUM(limit);
SHOW_ENUM(record_flag);
SHOW_ENUM(futex_how);
SHOW_ENUM(futex_room);

/* A wait, a request of the device by the query's own thread, or a sample of where it ran. */
struct span {
	/* A wait: left its CPU, was woken, ran again; a request: begun, issued, completed (0: not seen); a sample: its
	 * time. */
	u64 at[3];
	u64 kernel; /* stacks by number; of a request its device, major << 32 | minor */
	u64 user;
	/* Of a wait without an own request: when the last request on the waker's CPU completed; 0: none just then. Of a
	 * request: how many others the device had when it was issued (`beside`). */
	u64 other;
	struct futex futex;
	u32 who; /* a wait's waker; of a request its bytes */
	u16 kind, state; /* of a request: 1 where an IO limit held it back */
};

/* As it is sent, with as many spans as there are. */
struct record {
	u64 begun, ended;
	u64 own_ns; /* that our programs ran within it */
	u64 bytes;  /* of its requests */
	u64 beyond_ns[STATE_SLOTS]; /* of waits beyond WAITS, by state; the run queue is WOKEN's */
	u32 tid, weight, reads; /* weight 0: kept for its samples alone */
	u32 min_flt, maj_flt;
	u32 samples; /* that fell into it; SAMPLES of them are kept, drawn at random */
	u16 waits_beyond, requests_beyond;
	u16 flags, spans;
	struct span span[SPANS];
};

struct thread {
	struct call call; /* the query's */
	u64 off_since; /* when it left its CPU; 0: it has one */
	u64 got;    /* when it got its CPU last, or began */
	u64 woken;  /* when it was woken last, which may be before it left its CPU */
	u64 other;
	u64 held;   /* when the last of its requests that was held back ended */
	u64 cpu_ns; /* by the scheduler, when it left its CPU last */
	u64 kernel, user;
	struct futex futex;
	u64 flights[REQUESTS]; /* its requests by address; 0: ended, or none */
	u8 places[REQUESTS];   /* and their spans */
	u8 sampled[SAMPLES];   /* the spans of its samples */
	u32 state, waker;
	u32 requests, waits, spans; /* of `requests` and `spans` there may have been more than there is room for */
	u32 skip;  /* queries until the next followed one */
	u32 active;
	u32 known;
	struct record record;
};

struct flight {
	u64 issued, completed;
	u64 beside; /* requests of the device at its issue */
	u64 begun;  /* of one that an IO limit held back: nobody knows whose until it ends */
	u32 owner; /* the thread, by the kernel's own number */
};

/* The last request that completed on a CPU, whoever asked for it; begun: 0 where it was not held back. */
struct ending {
	u64 completed, begun, issued, beside, device;
	u32 bytes;
};

#include "followed_reads.h"

/* What a device has been handed and has not completed, whoever asked for it; by major << 32 | minor. */
struct busy {
	s64 reads, writes, others, sectors;
};

/* A request that it has, by its address. */
struct taken {
	u64 device;
	u32 operation, sectors;
};

MAP(devices, HASH, 256, u64, struct busy);
MAP(taken_requests, HASH, 65536, u64, struct taken);
MAP(endings, PERCPU_ARRAY, 1, u32, struct ending);

/* Its size is the loader's to set. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24);
} ring SEC(".maps");

const volatile int calls_are_queries = 0; /* each read call is a query of its own */

volatile u64 opened_at = 0;
volatile u64 slow_ns = 0;
volatile u32 one_in = 0; /* of those below slow_ns; 0: all */
#include "stacks.h"

static __always_inline bool is_active(struct thread *thread)
{
	return thread->active;
}

static __always_inline void charge(struct thread *thread, u64 since)
{
	thread->record.own_ns += bpf_ktime_get_ns() - since;
}

/* Room for one more; NULL where there is none. */
static __always_inline struct span *new_span(struct thread *thread, u32 *place)
{
	u64 n = ADD(thread->spans, 1); /* a worker may take one at the same time */
	/* A compiler may compare its lower half and index by all of it, which the verifier does not take for one number. */
	asm volatile("" : "+r"(n));
	if (n >= SPANS)
		return 0;
	*place = n;
	return &thread->record.span[n];
}
