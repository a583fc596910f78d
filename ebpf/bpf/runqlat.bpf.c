/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* Run-queue latency of a process's threads: from sched_waking, sched_wakeup_new or preemption until switched in. */
/* A row of the histogram each. */
enum kind {
	WOKEN,
	PREEMPTED,
	STARTED,
	ROWS,
};

#include "histogram.h"
#include "threads.h"

enum loss {
	LOST_THREAD, /* the map of threads was full: a wait was not timed */
	NO_START,    /* switched in, but its waiting began before we looked */
	NEGATIVE,    /* an end before its start: clocks of two CPUs */
	OVERFLOW,    /* longer than the last bucket begins */
	LOSSES,
};

SHOW_ENUM(kind);
SHOW_ENUM(loss);

/* A thread's last steps. When it gets its CPU they show what it waited for: a wake-up may come before the switch-out
 * that it ends, as the waker has to wait until the thread has left its CPU. */
struct steps {
	u64 got;  /* when it got its CPU; 0: before we looked */
	u64 left; /* when it left its CPU, or was created; 0: before we looked */
	u64 woke; /* when it was woken last */
	u32 kind; /* what it waits for since it left */
};

MAP(threads, HASH, 16384, u32, struct steps);

u64 losses[LOSSES] = {};
u64 voluntary = 0;
u64 involuntary = 0;

static __always_inline void lose(u32 what)
{
	__sync_fetch_and_add(&losses[what], 1);
}

static __always_inline struct steps *steps_of(struct task_struct *task)
{
	struct steps fresh = {};
	u32 pid = task->pid;
	struct steps *steps = find_or_add(&threads, &pid, &fresh);
	if (!steps && gate)
		lose(LOST_THREAD);
	return steps;
}

static __always_inline void count(u32 kind, u64 from, u64 to)
{
	enum counted counted = count_row(kind < ROWS ? kind : WOKEN, from, to);
	if (counted == BACKWARDS)
		lose(NEGATIVE);
	else if (counted == TOO_LONG)
		lose(OVERFLOW);
}

static __always_inline void switched_in(struct task_struct *task, u64 now)
{
	struct steps *steps = steps_of(task);
	if (!steps)
		return;
	u64 since = steps->left;
	/* One that was woken while it still ran has not slept. */
	if (steps->kind == WOKEN)
		since = steps->woke <= steps->got ? 0 : steps->woke < since ? since : steps->woke;
	if (gate) {
		if (since)
			count(steps->kind, since, now);
		else
			lose(NO_START);
	}
	steps->got = now;
}

static __always_inline void switched_out(bool preempt, struct task_struct *task, u32 state, u64 now)
{
	bool runnable = preempt || !state;
	if (!runnable && state & TASK_DEAD) {
		u32 pid = task->pid;
		bpf_map_delete_elem(&threads, &pid);
		return;
	}
	if (gate)
		__sync_fetch_and_add(runnable ? &involuntary : &voluntary, 1);
	struct steps *steps = steps_of(task);
	if (!steps)
		return;
	steps->left = now;
	steps->kind = runnable ? PREEMPTED : WOKEN;
	if (!runnable && woken_meanwhile(task, state))
		steps->woke = now;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	int out = is_target(prev), in = is_target(next);
	if (!out && !in)
		return 0;
	u64 now = bpf_ktime_get_ns();
	if (in)
		switched_in(next, now);
	if (out)
		switched_out(preempt, prev, state_left(ctx, prev), now);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	if (!is_target(task))
		return 0;
	struct steps *steps = steps_of(task);
	if (steps)
		steps->woke = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_new, struct task_struct *task)
{
	if (!is_target(task))
		return 0;
	struct steps *steps = steps_of(task);
	if (!steps)
		return 0;
	steps->left = bpf_ktime_get_ns();
	steps->kind = STARTED;
	return 0;
}
