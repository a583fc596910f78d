/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* Records of single queries: of each followed one its waits and its own requests, in task storage; sent where it was slow,
 * and of the others where it is one of a few drawn at random. All of them are counted.
 *
 * records.h: what is kept; records_wait.h: waits and requests; here: where a query begins and ends (a function of the
 * process, or a read call), and the kernel's events. */
#include "records_wait.h"

struct task_struct___faults {
	unsigned long min_flt, maj_flt;
} __attribute__((preserve_access_index));

/* The faults of a thread so far: BPF_CORE_READ of the two of them, less what is given. */
static __always_inline void faults_since(struct task_struct *task, u32 *min_flt, u32 *maj_flt)
{
	struct task_struct___faults *of = (void *)task;
	*min_flt = (u32)BPF_CORE_READ(of, min_flt) - *min_flt;
	*maj_flt = (u32)BPF_CORE_READ(of, maj_flt) - *maj_flt;
}

static __always_inline void begin(struct task_struct *task, struct thread *thread, struct pt_regs *context, int state,
				  u64 now)
{
	struct record *record = &thread->record;
	thread->off_since = thread->woken = thread->other = thread->held = 0;
	thread->got = now;
	thread->requests = thread->waits = thread->spans = thread->waker = 0;
	__builtin_memset(thread->flights, 0, sizeof(thread->flights));
	__builtin_memset(record->beyond_ns, 0, sizeof(record->beyond_ns));
	record->begun = now;
	record->own_ns = record->bytes = 0;
	record->reads = 0;
	record->min_flt = record->maj_flt = 0;
	faults_since(task, &record->min_flt, &record->maj_flt);
	record->waits_beyond = record->requests_beyond = 0;
	record->flags = 0;
	record->samples = 0;
	thread->active = 1;
	charge(thread, now);
}

/* Sends the record, where it is to be kept. */
static __always_inline void keep(struct thread *thread, u64 ns)
{
	struct record *record = &thread->record;
	bool slow = ns >= slow_ns;
	u32 drawn = one_in;
	bool chosen = slow || drawn <= 1 || bpf_get_prandom_u32() % drawn == 0;
	if (slow)
		bump(SLOW);
	if (!chosen && !record->samples)
		return;
	record->weight = !chosen ? 0 : slow || !drawn ? 1 : drawn;
	record->flags |= slow ? FLAG_SLOW : 0;
	u64 spans = thread->spans;
	asm volatile("" : "+r"(spans));
	if (spans > SPANS)
		spans = SPANS;
	record->spans = spans;
	u64 size = __builtin_offsetof(struct record, span) + spans * sizeof(struct span);
	if (bpf_ringbuf_output(&ring, record, size, BPF_RB_NO_WAKEUP))
		lose(slow ? LOST_SLOW : LOST_OTHER);
	else
		bump(KEPT);
}

static __always_inline void finish(struct task_struct *task, struct thread *thread, u64 now)
{
	struct record *record = &thread->record;
	thread->active = 0;
	if (find_missed(task, thread, now))
		record->flags |= FLAG_MISSED;
	collect(thread, task->pid, true);
	u32 number = record->begun >= opened_at && opened_at ? ROW_WINDOW : ROW_PILOT;
	struct row *row = bpf_map_lookup_elem(&rows, &number);
	if (!row || gate == SHUT || (number == ROW_PILOT && gate != PILOT))
		return;
	u64 ns = now - record->begun;
	faults_since(task, &record->min_flt, &record->maj_flt);
	record->ended = now;
	record->own_ns += bpf_ktime_get_ns() - now;
	if (number == ROW_WINDOW)
		keep(thread, ns);
	/* After it is kept: who sees that all have been counted has all records. */
	if (count_into(row, ns, record->own_ns))
		lose(OVERFLOW);
}

static __always_inline void abandon(struct task_struct *task, struct thread *thread)
{
	thread->active = 0;
}

static __always_inline struct thread *followed(struct task_struct *task, int state, u64 now)
{
	if (state == LINGER)
		return 0;
	bump(state == PILOT ? PILOT_QUERIES : QUERIES);
	struct thread *thread = own_thread(task);
	if (!thread || is_left_out(thread))
		return 0;
	if (!thread->record.tid)
		thread->record.tid = current_ids().tid;
	if (state == OPEN)
		bump(FOLLOWED);
	return thread;
}

static __always_inline void query_leave(struct pt_regs *context, u64 stack)
{
	u64 now = bpf_ktime_get_ns();
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = leaves(task, context, stack);
	if (thread)
		finish(task, thread, now);
}

WATCH_FUNCTION(query, query_enter, query_leave)

SEC("tp_btf/sys_enter")
int WHOLE_PROG(syscall_enter, struct pt_regs *regs, long id)
{
	int state = gate;
	if (state == SHUT || !is_read(id))
		return 0;
	u64 now = bpf_ktime_get_ns();
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = active(task);
	if (calls_are_queries && !thread && is_target(task)) {
		thread = followed(task, state, now);
		if (thread)
			begin(task, thread, 0, state, now);
	}
	if (thread)
		thread->record.reads++;
	return 0;
}

/* Loaded where each read call is a query. */
SEC("tp_btf/sys_exit")
int WHOLE_PROG(syscall_exit, struct pt_regs *regs, long result)
{
	u64 now = bpf_ktime_get_ns();
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = active(task);
	if (thread)
		finish(task, thread, now);
	return 0;
}

SEC("tp_btf/block_rq_issue")
int WHOLE_PROG(rq_issue, struct request *rq)
{
	if (gate == SHUT)
		return 0;
	u64 key, beside = take(rq);
	struct flight *flight = flight_of(rq, &key);
	if (!flight)
		return 0;
	if (flight->issued)
		lose(REQUEUED);
	flight->beside = beside;
	flight->issued = bpf_ktime_get_ns();
	return 0;
}

/* Before the thread is woken (block_io_done comes after it). A request may complete in parts: the last one counts. */
SEC("tp_btf/block_rq_complete")
int WHOLE_PROG(rq_complete, struct request *rq, int error, unsigned int bytes)
{
	if (gate == SHUT)
		return 0;
	u64 now = bpf_ktime_get_ns(), key;
	u32 zero = 0;
	give_back(rq, bytes);
	struct ending *ending = bpf_map_lookup_elem(&endings, &zero);
	struct flight *flight = flight_of(rq, &key);
	if (ending) {
		ending->completed = now;
		ending->begun = flight ? flight->begun : 0;
	}
	if (!flight)
		return 0;
	flight->completed = now;
	if (ending && flight->begun) {
		ending->issued = flight->issued;
		ending->beside = flight->beside;
		ending->device = number_of_disk(rq->q->disk);
		ending->bytes = rq->__data_len;
		if (bytes >= rq->__data_len)
			bpf_map_delete_elem(&flights, &key);
	}
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(waking, struct task_struct *task)
{
	struct thread *thread = active(task);
	if (thread)
		woken(task, thread);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switching, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	u32 state = state_left(ctx, prev);
	struct thread *thread = active(next);
	if (thread && thread->off_since) {
		u64 now = bpf_ktime_get_ns();
		arrived(next, thread, now);
		charge(thread, now);
	}
	thread = active(prev);
	if (thread)
		left(ctx, prev, thread, preempt, state);
	return 0;
}

/* At so many Hz of each CPU, whatever it runs. */
SEC("perf_event")
int sample_running(struct bpf_perf_event_data *ctx)
{
	if (gate == SHUT)
		return 0;
	struct thread *thread = active(bpf_get_current_task_btf());
	if (thread && !thread->off_since)
		sampled(ctx, thread);
	return 0;
}
