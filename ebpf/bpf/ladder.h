/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* What is kept of a followed query: its points in time, what it turned out to be, and the rows that its stages are counted
 * into. */
#pragma once

#include "uprobe.h"

enum point {
	QUERY,       /* entry of the query */
	READER,      /* entry of the file reader */
	SYSCALL,     /* entry of the read call */
	STARTED,     /* the request begins (block_io_start) */
	ISSUED,      /* handed to the driver (block_rq_issue) */
	COMPLETED,   /* done (block_rq_complete) */
	WAKING,      /* the sleeping thread is to be woken (sched_waking) */
	RUNNING,     /* it runs again (sched_switch) */
	SYSCALL_END, /* exit of the read call */
	READER_END,  /* return of the file reader */
	QUERY_END,   /* return of the query */
	POINTS,
};

#define STAGES (POINTS - 1) /* stage N lies between the points N and N + 1 */

/* What a followed query turned out to be. ONE_READ has stages, SEVERAL and FOREIGN have parts. */
enum class {
	ONE_READ,     /* one read call, one request, slept until it was done */
	NO_READ,      /* no read call and no request: found in the engine's cache or memtable */
	SEVERAL,      /* more than one read call or request, more sleeps in a read call than for its request, or requests of page
		       * faults alone, of io_uring's workers, or that an IO limit held back */
	NO_REQUEST,   /* one read call without a request of its own, and no sleep: page cache */
	FOREIGN,      /* one read call without a request of its own that slept: another thread asked for the data */
	AWAKE,        /* the request was done before the thread slept */
	DISORDER,     /* a point is missing, or before the one it follows */
	CLASSES,
};

/* Where the thread of a followed query is: in one of these at any time, so that they add up to the query whatever it does.
 * Requests that overlap count while the thread sleeps for them, and then the one that is done last. */
enum part {
	PART_BEFORE,  /* on a CPU, before the first read call */
	PART_READER,  /* on a CPU in a file reader, outside of its read calls */
	PART_CALL,    /* on a CPU in a read call */
	PART_THROTTLE, /* asleep while an IO limit of its control group held its request back */
	PART_QUEUE,   /* asleep until its request was handed to the driver */
	PART_DEVICE,  /* then until that was done */
	PART_WAKE,    /* then until it was woken */
	PART_RUNQ,    /* woken or preempted, without a CPU */
	PART_SLEEP,   /* asleep, and no request of its own was under way: another thread's, a lock */
	PART_BETWEEN, /* on a CPU between two read calls, outside of the file reader */
	PART_AFTER,   /* on a CPU after the last */
	PARTS,
};

#define ROW_CLASS STAGES
#define ROW_OUTSIDE (ROW_CLASS + CLASSES)
#define ROW_SEVERAL (ROW_OUTSIDE + 1)
#define ROW_FOREIGN (ROW_SEVERAL + PARTS)
#define ROWS (ROW_FOREIGN + PARTS)

enum loss {
	LOST_THREAD,  /* no room for a thread's state: its query is not followed */
	LOST_REQUEST, /* the map of requests in flight was full */
	LOST_DEVICE,  /* the map of devices was full */
	NESTED,       /* a query within a followed query: part of the outer one */
	ABANDONED,    /* a followed query that never returned (an exception went through it) */
	REQUEUED,     /* a followed request issued more than once: its last issue counts */
	OVERFLOW,     /* longer than the last bucket begins */
	ASYNC_CALLS,  /* that ask for reads which no read call waits for, where the ladder starts at the read call */
	MISSED_IN,    /* no event of a switch-in came: its time is worked out from the CPU time since */
	BEYOND,       /* a request of a query that already had REQUESTS under way: not among its waits */
	LOSSES,
};

enum counter {
	QUERIES,       /* begun while the gate was open, followed or not */
	FOLLOWED,      /* of these */
	THREADS,       /* that began any */
	READER_CALLS,  /* of the file reader, by followed queries */
	OUTSIDE_READS, /* read calls from a followed query's return to the thread's next query: an iterator's Next */
	READS,         /* read calls of queries of class SEVERAL */
	REQUESTS_MADE, /* and their requests */
	NOT_WAITED,    /* of these, that no wait of the thread ended with: done while it ran, or before another one was */
	WITHOUT_CPU,   /* ns of followed queries that their thread had no CPU */
	RUN_QUEUE,     /* and of these, that it could have run */
	COUNTING,      /* queries that were begun to be counted into rows */
	COUNTED_WHOLE, /* and those that are: of the others some rows have more than others */
	COUNTERS,
};

SHOW_ENUM(point);
SHOW_ENUM(class);
SHOW_ENUM(part);
SHOW_ENUM(loss);
SHOW_ENUM(counter);

/* Where a thread is within the query that is followed. */
enum phase {
	IDLE,
	IN_QUERY,
	IN_READER,
	IN_SYSCALL,
	ASKED,       /* its request is under way */
	WOKEN_EARLY, /* and done, just as the thread goes to sleep */
	ASLEEP,
	WOKEN,
	AWAKE_AGAIN,
	READ_DONE,
	READER_DONE,
};

const volatile int with_query = 0;  /* uprobes on the query; without, the read call is the query */
const volatile int with_reader = 0; /* uprobes on the file reader */
#define REQUESTS 32
#define ASYNC_CALLS_KNOWN 2
const volatile s64 async_calls[ASYNC_CALLS_KNOWN] = { -1, -1 };

/* A request that was held back: when its turn came, when the driver had it, when it was done. */
struct ending {
	u64 begun, issued, completed;
};

struct thread {
	u64 at[POINTS];
	u64 own[STAGES]; /* ns that the programs themselves ran within each stage */
	u64 parts[PARTS];
	u64 since;        /* what it ran before is in `parts` */
	u64 without_cpu;  /* ns of the query; `without_then`: at `since` */
	u64 without_then;
	u64 off_since;    /* when it left its CPU; 0: it has one */
	u64 got;          /* when it got its CPU last, or began */
	u64 woken;        /* when it was woken last, which may be before it left its CPU */
	u64 cpu_ns;       /* by the scheduler, when it left its CPU last */
	u64 spent;        /* ns that the programs ran within the query */
	u64 flights[REQUESTS]; /* its requests by address; 0: none */
	u64 request;
	struct call call; /* the query's */
	u64 reader;      /* the outermost call of a file reader that it is in; 0: none */
	u64 left;        /* when the last followed query returned; 0 once the next one began */
	u64 own_left;    /* ns that the program at its return ran */
	u64 device;
	u32 skip;        /* queries until the next followed one */
	u32 reads;
	u32 requests;
	u32 sleeps;
	u32 unseen; /* it slept for its request, and was not seen to wake */
	u32 phase;
	u32 beyond;  /* requests that had no room in `flights` */
	u32 workers; /* requests that a worker made for it */
	u32 known;
	u32 part;    /* where it is while it has a CPU */
	u32 asleep;  /* off its CPU, and not as it was preempted */
	u32 reader_calls;
	u32 waited;  /* requests that a wait of it ended with */
	u32 other_sleeps; /* in the read call, after it slept for its request */
	u32 held_back;    /* requests of it that were */
	struct ending held; /* the one that it was woken by */
	u64 turn;         /* that this is of */
};

struct flight {
	u64 issued;
	u64 completed;
	u64 own_issued;
	u64 own_completed;
	u32 owner; /* the thread, by the kernel's own number */
	u32 over;  /* its address is another request's by now */
	u64 begun; /* of one that was held back: nobody knows whose until it ends */
};

#include "followed_reads.h"

/* The last request on this CPU that was held back, once it is done. */
MAP(endings, PERCPU_ARRAY, 1, u32, struct ending);

/* Requests of followed reads by disk: major << 32 | minor. */
MAP(devices, PERCPU_HASH, 256, u64, u64);

/* The verifier looks at it once, by itself: inlined into loops over stages and parts it took half of the instructions that
 * it looks at in a program at most. */
__noinline int count(u32 number, u64 ns, u64 own)
{
	struct row *row = bpf_map_lookup_elem(&rows, &number);
	if (row && count_into(row, ns, own))
		lose(OVERFLOW);
	return 0;
}

/* Each time that the programs are attached it is another one. */
volatile u64 turn = 0;

/* Whether it was left by a turn before: since then its thread was not seen. */
static __always_inline bool is_old(struct thread *thread)
{
	return thread->turn != turn;
}

static __always_inline bool is_active(struct thread *thread)
{
	return thread->phase != IDLE && !is_old(thread);
}

/* What this program took, from the point's time to now, is part of the stage that the point begins. */
static __always_inline void charge(struct thread *thread, enum point point, u64 since)
{
	u64 ns = bpf_ktime_get_ns() - since;
	thread->own[point] += ns;
	thread->spent += ns;
}
