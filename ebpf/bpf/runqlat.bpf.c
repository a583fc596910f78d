/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* Run-queue latency of a process's threads: from sched_waking, sched_wakeup_new or being preempted until switched in. */
#define ROWS 3

#include "histogram.h"
#include "threads.h"

/* A row of the histogram each. */
enum kind {
	WOKEN,
	PREEMPTED,
	STARTED,
};

enum loss {
	LOST_THREAD, /* the map of threads was full: a wait was not timed */
	NO_START,    /* switched in, but its waiting began before we looked */
	NEGATIVE,    /* an end before its start: clocks of two CPUs */
	OVERFLOW,    /* longer than the last bucket begins */
	LOSSES,
};

struct wait {
	u64 since; /* when it began to wait for a CPU; 0: it does not */
	u32 kind;
	u32 off; /* whether it has left its CPU */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct wait);
} waits SEC(".maps");

u64 losses[LOSSES] = {};
u64 voluntary = 0;
u64 involuntary = 0;

static __always_inline void lose(u32 what)
{
	__sync_fetch_and_add(&losses[what], 1);
}

static __always_inline void begin(u32 pid, u64 since, u32 kind)
{
	struct wait wait = { since, kind, 1 };
	if (bpf_map_update_elem(&waits, &pid, &wait, BPF_ANY) && gate)
		lose(LOST_THREAD);
}

static __always_inline void count(u32 kind, u64 from, u64 to)
{
	enum counted counted = count_row(kind < ROWS ? kind : WOKEN, from, to);
	if (counted == BACKWARDS)
		lose(NEGATIVE);
	else if (counted == TOO_LONG)
		lose(OVERFLOW);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int state)
{
	int out = is_target(prev), in = is_target(next);
	if (!out && !in)
		return 0;
	u64 now = bpf_ktime_get_ns();
	if (in) {
		u32 pid = next->pid;
		struct wait *wait = bpf_map_lookup_elem(&waits, &pid);
		if (gate) {
			if (wait && wait->since)
				count(wait->kind, wait->since, now);
			else
				lose(NO_START);
		}
		if (wait)
			wait->since = wait->off = 0;
	}
	if (out) {
		u32 pid = prev->pid;
		bool runnable = preempt || !state;
		if (!runnable && state & TASK_DEAD) {
			bpf_map_delete_elem(&waits, &pid);
			return 0;
		}
		if (gate)
			__sync_fetch_and_add(runnable ? &involuntary : &voluntary, 1);
		if (runnable)
			begin(pid, now, PREEMPTED);
		else
			begin(pid, woken_meanwhile(prev, state) ? now : 0, WOKEN);
	}
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	if (!is_target(task))
		return 0;
	u32 pid = task->pid;
	struct wait *wait = bpf_map_lookup_elem(&waits, &pid);
	/* One that runs or waits for a CPU already is not woken again. */
	if (wait && (wait->since || !wait->off))
		return 0;
	begin(pid, bpf_ktime_get_ns(), WOKEN);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_new, struct task_struct *task)
{
	if (is_target(task))
		begin(task->pid, bpf_ktime_get_ns(), STARTED);
	return 0;
}
