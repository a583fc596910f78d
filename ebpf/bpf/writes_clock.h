/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* The leaders' clock of a queue, and a wait in the queue divided by it.
 *
 * It is read at both ends of the wait: what it advanced by, stage by stage, is what the wait was for. */
#pragma once

#include "writes.h"

static const struct clock fresh = { .stage = HAND_OVER };

static __always_inline struct clock *clock_of(u64 queue)
{
	struct clock *clock = bpf_map_lookup_elem(&clocks, &queue);
	if (clock)
		return clock;
	bpf_map_update_elem(&clocks, &queue, &fresh, BPF_NOEXIST);
	clock = bpf_map_lookup_elem(&clocks, &queue);
	if (!clock)
		lose(LOST_CLOCK);
	return clock;
}

static __always_inline void advance(struct clock *clock, u64 owner, u64 stage, u64 now)
{
	u64 slot = slot_of(clock->stage);
	ADD(clock->version, 1);
	if (clock->since && now > clock->since)
		clock->ns[slot] += now - clock->since;
	clock->since = now;
	clock->stage = stage;
	clock->owner = owner;
	ADD(clock->version, 1);
}

/* Its times now; whether no other CPU changed it meanwhile. */
static __always_inline bool reads_whole(struct clock *clock, u64 now, u64 *into)
{
	u64 version = *(volatile u64 *)&clock->version;
	u64 since = *(volatile u64 *)&clock->since;
	u64 slot = slot_of(*(volatile u64 *)&clock->stage);
	for (int i = 0; i < STAGES; i++)
		into[i] = *(volatile u64 *)&clock->ns[i];
	if (since && now > since)
		into[slot] += now - since;
	return !(version & 1) && version == *(volatile u64 *)&clock->version;
}

/* Its times now. Read up to four times while another CPU changes it; the last read is used even so. No loop of loops:
 * Linux 6.1 refuses one that its compiler lets begin in the middle. */
static __always_inline void read_clock(struct clock *clock, u64 now, u64 *into)
{
	if (!reads_whole(clock, now, into) && !reads_whole(clock, now, into) && !reads_whole(clock, now, into))
		reads_whole(clock, now, into);
}

/* The thread's stage is another from now on, and its queue's clock goes with it where it leads. */
static __always_inline void turn(struct thread *thread, u64 stage, u64 now)
{
	u64 slot = slot_of(thread->stage);
	thread->ns[slot] += now - thread->since;
	thread->since = now;
	thread->stage = stage;
	if (!thread->leads)
		return;
	struct clock *clock = bpf_map_lookup_elem(&clocks, &thread->queue);
	if (clock && clock->owner == thread->writer)
		advance(clock, thread->writer, stage, now);
	else
		thread->leads = 0;
}

/* What this program took, from `since` to now, is part of the stage that it began. */
static __always_inline void charge(struct thread *thread, u64 since)
{
	u64 slot = slot_of(thread->stage);
	thread->own[slot] += bpf_ktime_get_ns() - since;
}

static __always_inline void begin_wait(struct thread *thread, u64 queue, u64 writer, u64 now)
{
	thread->queue = queue;
	thread->writer = writer;
	thread->wait.begun = now;
	thread->wait.set = thread->wait.self = 0;
	struct clock *clock = clock_of(queue);
	if (!clock)
		return;
	thread->wait.led = clock->owner != 0;
	read_clock(clock, now, thread->wait.base);
	if (state_seen && bpf_map_update_elem(&waits, &writer, &thread->wait, BPF_ANY))
		lose(LOST_WAIT);
}

/* Where nobody sees the state set: the last time the scheduler is to wake the thread. One that spins is not woken. */
static __always_inline void woken(struct thread *thread, u64 now)
{
	struct clock *clock = bpf_map_lookup_elem(&clocks, &thread->queue);
	if (!clock)
		return;
	read_clock(clock, now, thread->wait.got);
	thread->wait.set = now;
}

/* A writer gets its state, by whichever thread: its wait is over, and where it is to lead, there is no leader until it
 * runs. */
static __always_inline void state_set(struct thread *setter, u64 queue, u64 writer, u8 state, u64 now)
{
	struct clock *clock = bpf_map_lookup_elem(&clocks, &queue);
	struct wait *wait = bpf_map_lookup_elem(&waits, &writer);
	if (!clock)
		return;
	if (wait && !wait->set) {
		wait->state = state;
		wait->self = setter && setter->writer == writer;
		read_clock(clock, now, wait->got);
		wait->set = now;
	}
	if (state == STATE_LEADER)
		advance(clock, 0, HAND_OVER, now);
}

/* A leader has chosen its group: who joins later is in another. */
static __always_inline void group_formed(struct thread *thread, u64 now)
{
	struct clock *clock = bpf_map_lookup_elem(&clocks, &thread->queue);
	if (!clock || !thread->leads)
		return;
	clock->led++;
	struct passage *passage = &clock->passages[clock->led & (PASSAGES - 1)];
	passage->left = 0;
	passage->formed = now;
}

static __always_inline void group_leaves(struct thread *thread, u64 now)
{
	struct clock *clock = bpf_map_lookup_elem(&clocks, &thread->queue);
	if (!clock || !thread->leads)
		return;
	struct passage *passage = &clock->passages[clock->led & (PASSAGES - 1)];
	for (int i = 0; i < STAGES; i++)
		passage->ns[i] = clock->ns[i];
	passage->left = now;
}

/* The first group that was formed after a writer came and has left until `end`: it was in that one, and waits for
 * memtables since. Where it came just as a group was formed, the last that left. NULL: none. */
static __always_inline struct passage *passed_with(struct clock *clock, u64 came, u64 end)
{
	struct passage *found = 0;
	bool sure = false;
	for (int i = 0; i < PASSAGES; i++) {
		struct passage *one = &clock->passages[i];
		if (one->left <= came || one->left > end)
			continue;
		bool after = one->formed > came;
		if (!found || (after && (!sure || one->left < found->left)) ||
		    (!after && !sure && one->left > found->left)) {
			found = one;
			sure = after;
		}
	}
	return found;
}

/* Divides the wait that ends now; role: what the writer got. Parts never are more than the whole: clocks of several
 * CPUs are a little off. */
static __always_inline void end_wait(struct thread *thread, u32 role, u64 now)
{
	struct wait *wait = state_seen ? bpf_map_lookup_elem(&waits, &thread->writer) : &thread->wait;
	struct clock *clock = bpf_map_lookup_elem(&clocks, &thread->queue);
	u64 whole = now - thread->wait.begun, left = whole, wake = 0, passed = 0;
	if (!wait || !clock || wait->self || (!state_seen && !wait->led && role == LEADER)) {
		thread->part[IN_QUEUE] += whole;
		if (state_seen)
			bpf_map_delete_elem(&waits, &thread->writer);
		return;
	}
	u64 end = now, *until = wait->got;
	if (wait->set) {
		end = wait->set < now ? wait->set : now;
		wake = now - end;
		left -= wake;
	} else {
		if (state_seen && gate == OPEN)
			lose(UNSET);
		read_clock(clock, now, wait->got);
	}
	if (clock->pipelined && role != LEADER) {
		struct passage *passage = passed_with(clock, wait->begun, end);
		if (passage) {
			until = passage->ns;
			passed = end - passage->left;
			left -= passed < left ? passed : left;
		}
	}
	thread->part[WAKE_UP] += wake;
	thread->part[MEMTABLE_WAIT] += passed;
	for (int i = PREPROCESS; i < STAGES; i++) {
		u64 ns = until[i] > wait->base[i] ? until[i] - wait->base[i] : 0;
		if (ns > left)
			ns = left;
		thread->part[i] += ns;
		left -= ns;
	}
	/* What no leader's stage accounts for. */
	thread->part[IN_QUEUE] += left;
	if (state_seen)
		bpf_map_delete_elem(&waits, &thread->writer);
}
