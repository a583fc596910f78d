/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* What is kept of off-CPU time: threads, stacks and sums. */
#pragma once

#include "futex.h"
#include "waits.h"

enum gate_state { TRACKING, OPEN, FROZEN };

/* A state beside those of states.h: blocked since before we looked. User space knows what in. */
#define BEFORE STATES

enum loss {
	LOST_THREAD, /* the map of threads was full: a switch-out was not seen */
	LOST_SUM,    /* the map of sums was full: its time is in lost_ns */
	LOST_STACK,  /* the map of stacks was full */
	NO_STACK,    /* the kernel could not walk it */
	LOST_END,    /* the map of ended threads was full */
	NEGATIVE,    /* an end before its start: clocks of two CPUs */
	MISSED_IN,   /* no event of a switch-in came: its time is worked out from the CPU time since */
	LOSSES,
};

SHOW_ENUM(gate_state);
SHOW_ENUM(loss);
SHOW_ENUM(futex_how);
SHOW_ENUM(futex_room);

struct thread {
	u64 begun; /* when it was created within the trace; 0: before */
	u64 since; /* when it left its CPU; 0: it has one */
	u64 woken; /* when it was woken last, which may be before it left its CPU: see woken_at() */
	u64 got;   /* when it got its CPU; 0: before we looked */
	u64 ran_ns;
	u64 cpu_ns; /* by the scheduler, when it left its CPU last */
	u64 before_ns; /* in state BEFORE, where there was no room for a sum of it: user space knows the stack */
	u64 kernel, user, waker_kernel, waker_user;
	struct futex futex;
	u32 voluntary, involuntary;
	u32 tid;
	u32 own_number; /* as its own pid namespace numbers it */
	u32 state;
	u32 unused;
	char comm[16], waker[16];
};

struct end {
	u64 at;
	u64 cpu_ns; /* since its creation, as schedstat counts */
	struct thread thread;
};

struct key {
	u64 kernel, user, waker_kernel, waker_user;
	struct futex futex;
	u32 tid, state;
	char waker[16];
};

struct sum {
	u64 ns;
	u64 count;
};

/* Sizes are the loader's to set. */
MAP(threads, HASH, 16384, u32, struct thread);
MAP(ends, HASH, 16384, u64, struct end);
MAP(sums, HASH, 65536, struct key, struct sum);
MAP(blank, PERCPU_ARRAY, 1, u32, struct end);

const volatile int with_waker = 0;
volatile u64 opened_at = 0;
u64 losses[LOSSES] = {};
u64 lost_ns[STATE_SLOTS] = {};
u64 lost_count[STATE_SLOTS] = {};

static __always_inline void lose(u32 what)
{
	__sync_fetch_and_add(&losses[what], 1);
}

#include "stacks.h"

static __always_inline void add(struct thread *thread, u32 state, u64 from, u64 to)
{
	if (from < opened_at)
		from = opened_at;
	if (to < from) {
		if (to >= opened_at)
			lose(NEGATIVE);
		return;
	}
	u64 ns = to - from;
	struct key key = {
		.kernel = thread->kernel,
		.user = thread->user,
		.waker_kernel = thread->waker_kernel,
		.waker_user = thread->waker_user,
		.futex = thread->futex,
		.tid = thread->tid,
		.state = state,
	};
	__builtin_memcpy(key.waker, thread->waker, sizeof(key.waker));
	struct sum none = {}, *sum = find_or_add(&sums, &key, &none);
	if (sum) {
		__sync_fetch_and_add(&sum->ns, ns);
		__sync_fetch_and_add(&sum->count, 1);
		return;
	}
	if (state == BEFORE) {
		thread->before_ns += ns;
		return;
	}
	lose(LOST_SUM);
	u64 slot = slot_of(state);
	__sync_fetch_and_add(&lost_ns[slot], ns);
	__sync_fetch_and_add(&lost_count[slot], 1);
}
