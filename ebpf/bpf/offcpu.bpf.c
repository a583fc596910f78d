/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* Off-CPU time of a process's threads: stacks at switch-out, time summed at switch-in by thread, state and stacks.
 *
 * A stretch has up to two parts: blocked (from switch-out to the wake-up), and waiting for a CPU (from the wake-up to
 * switch-in; a preempted thread has this part alone). The parts of a stretch add up to it exactly. */
#include "offcpu.h"

/* The thread's entry. A new one is on a CPU; off_cpu: it is off one, since before we looked. */
static __always_inline struct thread *thread_of(struct task_struct *task, bool off_cpu)
{
	u32 pid = task->pid, zero = 0;
	struct thread *thread = bpf_map_lookup_elem(&threads, &pid);
	if (thread)
		return thread;
	struct end *none = bpf_map_lookup_elem(&blank, &zero);
	if (!none)
		return 0;
	/* Another CPU that wakes the thread may have added it meanwhile. */
	bool is_new = !bpf_map_update_elem(&threads, &pid, &none->thread, BPF_NOEXIST);
	thread = bpf_map_lookup_elem(&threads, &pid);
	if (!thread) {
		lose(LOST_THREAD);
	} else if (is_new) {
		thread->tid = ids_of(task).tid;
		thread->own_number = own_number(task);
		if (off_cpu) {
			thread->state = BEFORE;
			thread->since = 1;
			thread->cpu_ns = BPF_CORE_READ(task, se.sum_exec_runtime);
		}
	}
	return thread;
}

/* What a thread ran up to now. schedstat is no substitute: where a wake-up finds its CPU idle, the scheduler counts the
 * thread as running from then on (wakeup_preempt leaves out the clock's update), before it is switched in. */
static __always_inline void ran(struct thread *thread, u64 now)
{
	u64 from = thread->got < opened_at ? opened_at : thread->got;
	if (gate == OPEN && !thread->since && from < now)
		thread->ran_ns += now - from;
}

/* When what a thread was blocked by ended; 0: not yet. A waker waits until the thread has left its CPU, so that the event
 * of the wake-up may come before that of the switch-out. One that kept the thread from sleeping is followed by another. */
static __always_inline u64 woken_at(struct thread *thread)
{
	if (thread->woken <= thread->got)
		return 0;
	return thread->woken < thread->since ? thread->since : thread->woken;
}

/* A thread has its CPU again: what it waited until then is summed. */
static __always_inline void got_cpu(struct thread *thread, u64 now)
{
	if (gate == OPEN && thread->since) {
		u64 woken = woken_at(thread);
		if (thread->state == PREEMPTED || thread->state == WOKEN) {
			add(thread, thread->state, thread->since, now);
		} else if (woken && woken < now) {
			if (woken > opened_at)
				add(thread, thread->state, thread->since, woken);
			add(thread, WOKEN, woken, now);
		} else {
			add(thread, thread->state, thread->since, now);
		}
	}
	thread->got = now;
	thread->since = 0;
	thread->kernel = thread->user = thread->waker_kernel = thread->waker_user = 0;
	__builtin_memset(&thread->futex, 0, sizeof(thread->futex));
	__builtin_memset(thread->waker, 0, sizeof(thread->waker));
}

static __always_inline void switched_in(struct task_struct *task, u64 now)
{
	struct thread *thread = thread_of(task, true);
	if (thread)
		got_cpu(thread, now);
}

/* A kernel may run no program while certain threads are the current ones (seen on 6.18 in a VM for those of its init, by
 * perf too), and so none when another takes over from one of them: a thread leaves a CPU that it never got. It got it as
 * long ago as it ran. */
static __always_inline void find_missed(struct task_struct *task, struct thread *thread, u64 now)
{
	u64 cpu_ns = BPF_CORE_READ(task, se.sum_exec_runtime);
	if (thread->since) {
		u64 ran = cpu_ns - thread->cpu_ns;
		u64 at = ran < now - thread->since ? now - ran : thread->since;
		if (gate == OPEN)
			lose(MISSED_IN);
		got_cpu(thread, at);
	}
	thread->cpu_ns = cpu_ns;
}

static __always_inline void ended(struct task_struct *task, u64 now)
{
	u32 pid = task->pid, zero = 0;
	u64 key = now ^ (u64)pid << 42;
	struct thread *thread = bpf_map_lookup_elem(&threads, &pid);
	struct end *none = bpf_map_lookup_elem(&blank, &zero);
	if (!thread || !none)
		return;
	find_missed(task, thread, now);
	ran(thread, now);
	bpf_probe_read_kernel_str(thread->comm, sizeof(thread->comm), task->comm);
	struct end *end = 0;
	if (!bpf_map_update_elem(&ends, &key, none, BPF_NOEXIST))
		end = bpf_map_lookup_elem(&ends, &key);
	if (end) {
		end->at = now;
		/* Exact: the scheduler has just taken the task off its queue. */
		end->cpu_ns = BPF_CORE_READ(task, se.sum_exec_runtime);
		__builtin_memcpy(&end->thread, thread, sizeof(*thread));
	} else {
		lose(LOST_END);
	}
	bpf_map_delete_elem(&threads, &pid);
}

static __always_inline void switched_out(void *ctx, bool preempt, struct task_struct *task, u32 state, u64 now)
{
	if (!preempt && state & TASK_DEAD) {
		ended(task, now);
		return;
	}
	struct thread *thread = thread_of(task, false);
	if (!thread)
		return;
	find_missed(task, thread, now);
	ran(thread, now);
	thread->state = state_of(task, preempt, state);
	if (gate == OPEN) {
		if (thread->state == PREEMPTED)
			thread->involuntary++;
		else
			thread->voluntary++;
	}
	bpf_probe_read_kernel_str(thread->comm, sizeof(thread->comm), task->comm);
	u32 zero = 0;
	struct stack *words = bpf_map_lookup_elem(&scratch, &zero);
	if (thread->state == SLEEP && words)
		read_futex(task, &thread->futex, words->addresses);
	thread->kernel = take_stack(ctx, 0);
	thread->user = take_stack(ctx, BPF_F_USER_STACK);
	if (thread->state != PREEMPTED && woken_meanwhile(task, state))
		thread->woken = now;
	thread->since = now;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	if (gate == FROZEN)
		return 0;
	int out = is_target(prev), in = is_target(next);
	if (!out && !in)
		return 0;
	u64 now = bpf_ktime_get_ns();
	if (in)
		switched_in(next, now);
	if (out)
		switched_out(ctx, preempt, prev, state_left(ctx, prev), now);
	return 0;
}

/* Not known of a kernel for one CPU. */
static __always_inline bool has_cpu(struct task_struct *task)
{
	if (!bpf_core_field_exists(task->on_cpu))
		return false;
	struct task_struct___byte *byte = (void *)task;
	return bpf_core_field_size(byte->on_cpu) == sizeof(byte->on_cpu) ? BPF_CORE_READ(byte, on_cpu) :
									   BPF_CORE_READ(task, on_cpu);
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	if (gate == FROZEN || !is_target(task))
		return 0;
	/* One that is about to sleep still has its CPU. */
	struct thread *thread = thread_of(task, !has_cpu(task));
	if (!thread || (thread->since && (thread->state == PREEMPTED || thread->state == WOKEN)))
		return 0;
	thread->woken = bpf_ktime_get_ns();
	if (!with_waker)
		return 0;
	bpf_get_current_comm(thread->waker, sizeof(thread->waker));
	thread->waker_kernel = take_stack(ctx, 0);
	/* Addresses of another process would be named by the wrong mappings. */
	thread->waker_user = current_ids().tgid == target_tgid ? take_stack(ctx, BPF_F_USER_STACK) : NOT_THERE;
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_new, struct task_struct *task)
{
	if (gate == FROZEN || !is_target(task))
		return 0;
	struct thread *thread = thread_of(task, false);
	if (!thread)
		return 0;
	thread->state = WOKEN;
	thread->begun = thread->since = bpf_ktime_get_ns();
	return 0;
}
