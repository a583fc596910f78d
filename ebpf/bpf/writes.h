/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* What is kept of a write under way, and the cells that its stages are counted into.
 *
 * A thread is in one stage at a time; where one ends the next begins, so the stages of a write add up to it. */
#pragma once

#include "futex.h"
#include "uprobe.h"

typedef __u8 u8;

enum stage {
	ENTER,         /* from the write's first instruction to the queue of writers */
	JOIN,          /* in that queue, until there is something to do */
	PREPROCESS,    /* memtables switched, flushes scheduled */
	STALL,         /* held back by the engine: the lock around it */
	DELAY,         /* ... asleep for a time */
	STOP,          /* ... asleep until something was flushed or compacted */
	WAL,           /* the log's record made and buffered */
	WAL_WRITE,     /* ... its write call */
	SYNC,          /* the log synced, around the call */
	SYNC_CALL,     /* ... the call itself: what the next five are not */
	SYNC_DEVICE,   /* ... in it: the device writes data that the thread asked it to */
	SYNC_META,     /* ... in it: the same of the file system's metadata */
	SYNC_FLUSH,    /* ... in it: the device empties its cache */
	SYNC_JOURNAL,  /* ... in it: asleep until the journal's thread has committed */
	SYNC_WAKE,     /* ... in it: that is done, and the thread does not run yet */
	LAUNCH,        /* the group's writers woken, each to insert its own batch */
	MEMTABLE,      /* inserted */
	GROUP_WAIT,    /* for the others of the group to insert */
	EXIT,          /* the group dissolved, the next leader woken */
	MEMTABLE_WAIT, /* pipelined: for the groups before it to insert */
	REST,
	HAND_OVER, /* of a clock alone: there is no leader */
	STAGES,
};
/* Room for them, so that an index can be masked into it. */
#define SLOTS 32
_Static_assert(STAGES <= SLOTS, "each stage has a slot");

/* Of a wait in the queue, where a leader is never in the two stages that are meant otherwise. */
enum { WAKE_UP = ENTER, IN_QUEUE = JOIN };

enum role {
	LEADER,          /* wrote the log for its group */
	MEMTABLE_LEADER, /* pipelined: somebody else wrote the log, it inserted for its group */
	PARALLEL,        /* inserted its own batch, beside others of its group */
	DONE,            /* its leader did everything */
	ROLE_UNKNOWN,    /* its state could not be read, or it never was in the queue */
	ROLES,
};
#define ROW_PILOT ROLES
#define ROWS (ROLES + 1)

/* For each role its stages, and then the parts of its wait in the queue. */
#define CELLS (ROLES * 2 * STAGES)

enum counter {
	PILOT_WRITES,
	WRITES,   /* begun while the gate was open */
	THREADS,  /* that began any */
	SYNCED,   /* writes that ended, by their options */
	NO_LOG,
	JOINS,    /* of writes that ended */
	GROUPS,   /* dissolved while the gate was open */
	GROUPED,  /* writes in these */
	COUNTING, /* writes that were begun to be counted into rows and cells */
	COUNTED_WHOLE, /* and those that are: of the others some have more than others */
	COUNTERS,
};

enum loss {
	LOST_THREAD,   /* no room for a thread's state: its write is not followed */
	LOST_WAIT,     /* the map of waiting writers was full */
	LOST_CLOCK,    /* the map of clocks was full */
	LOST_BIO,      /* a map of bios was full: their time is in the sync call's rest */
	NESTED,        /* a write within a write: part of the outer one */
	ABANDONED,     /* a write that never returned (an exception went through it) */
	TOO_DEEP,      /* more functions within one another than there is room for */
	UNSET,         /* who ended a wait was not seen: its wake-up is in the leader's stages */
	GROUP_UNKNOWN, /* a group whose size is nothing that could be one */
	OVERFLOW,      /* longer than the last bucket begins */
	LOSSES,
};

SHOW_ENUM(stage);
SHOW_ENUM(role);
SHOW_ENUM(counter);
SHOW_ENUM(loss);

/* States of a writer in its queue, as the engine numbers them. */
enum { STATE_LEADER = 2, STATE_MEMTABLE_LEADER = 4, STATE_PARALLEL = 8, STATE_DONE = 16 };

const volatile u32 few = 0;             /* no functions but the write, its queue and stalls are watched */
const volatile u32 queue_within = 0;    /* the queue is no function: a write is in it until it prepares, or returns */
const volatile u32 state_seen = 0;      /* whoever ends a wait is seen to */
const volatile u32 state_offset = 0;    /* of the state in a writer; 0: not known */
#define FUNCTIONS 64
const volatile u32 stages[FUNCTIONS] = {}; /* of each watched function */
#define CALLS 6
const volatile s64 write_calls[CALLS] = { -1, -1, -1, -1, -1, -1 };
const volatile s64 sync_calls[CALLS] = { -1, -1, -1, -1, -1, -1 };
const volatile s64 sleep_calls[CALLS] = { -1, -1, -1, -1, -1, -1 };
const volatile u32 preflush = 0; /* the flag of a bio that empties the device's cache first */
const volatile u32 metadata = 0; /* and that of one with metadata of the file system */
/* A sleep for a condition, not for a lock (linux/futex.h). */
#define FUTEX_WAIT_BITSET 9
/* Where a group has its size in all releases: leader, last writer, sequence and status come before. */
#define GROUP_SIZE_OFFSET 48
#define LARGEST_GROUP 100000

struct cell {
	u64 count;
	u64 ns;
	u64 most;
	u64 own_ns;
};

/* A group's way through the queue: when it was formed, when it left, and the clock then. */
struct passage {
	u64 formed;
	u64 left;
	u64 ns[SLOTS];
};
#define PASSAGES 8

/* How long the leaders of one queue were in each stage, one after the other. Only the present one moves it on: the last
 * may still be leaving. */
struct clock {
	u64 version; /* odd while it is changed */
	u64 owner;   /* the leader's writer; 0: none */
	u64 since;
	u64 stage;
	u64 ns[SLOTS];
	u64 pipelined; /* writers wait for memtables after they left the queue */
	u64 led;       /* groups so far */
	struct passage passages[PASSAGES];
};

/* One writer's wait in the queue. */
struct wait {
	u64 begun;
	u64 set; /* when whoever ended it did so; 0: not yet */
	u64 state; /* that it got */
	u64 self; /* it found the queue empty */
	u64 led;  /* there was a leader when it came */
	u64 base[SLOTS];
	u64 got[SLOTS];
};

#define FRAMES 8
struct frame {
	u64 sp;
	u64 stage;
};

/* Bios under way of a thread in a sync call. They end in interrupts, while it sleeps or runs on another CPU: what it
 * does of that it does itself, later. */
struct under_way {
	s64 bios; /* below 0: one of an earlier call has ended */
	u64 done; /* when the last one ended */
};

struct thread {
	u64 begun;
	struct call call; /* the write's */
	u64 since;
	u64 stage;
	u64 depth;
	struct frame frames[FRAMES]; /* functions under way, and the stages before them */
	u64 ns[SLOTS];
	u64 own[SLOTS];
	u64 part[SLOTS];
	u64 queue;
	u64 writer;
	struct wait wait;
	u32 role;
	u32 active;
	u32 known;
	u32 leads;
	u32 joined;
	u32 in_call;
	u32 before_call; /* the stage that a system call interrupted */
	u64 slept; /* in a sync call, for nothing that it asked the device for, since then; 0: it runs */
	u64 committed; /* when the journal's thread woke it */
	u32 journaled; /* it ever did */
	u8 sync, no_log;
};

#include "followed.h"

MAP(clocks, HASH, 256, u64, struct clock);
MAP(waits, HASH, 8192, u64, struct wait);
MAP(cells, PERCPU_ARRAY, CELLS, u32, struct cell);
/* By the task's address. */
MAP(syncing, HASH, 8192, u64, struct under_way);
MAP(bios, HASH, 16384, u64, u64); /* a bio -> the task that asked */
/* Groups of 1, 2, 3 ... writes; the last are all larger ones. */
#define SIZES 65
MAP(sizes, PERCPU_ARRAY, SIZES, u32, u64);

static __always_inline bool is_active(struct thread *thread)
{
	return thread->active;
}

/* The calling thread's state within a write; NULL for all others. */
static __always_inline struct thread *writer(void)
{
	return active(bpf_get_current_task_btf());
}

/* clang must not use what it knows of a stage to leave the mask out: the verifier does not know it. */
static __always_inline u64 slot_of(u64 stage)
{
	asm volatile("" : "+r"(stage));
	return stage & (SLOTS - 1);
}
