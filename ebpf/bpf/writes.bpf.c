/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* The write path: each write of a process, stage by stage, and what it waited for in the queue of writers.
 *
 * writes.h: what is kept; writes_clock.h: a wait divided by what its leaders did; writes_sync.h: what is in a
 * sync call; here: where stages begin and end. */
#include "writes_sync.h"

#if defined(__TARGET_ARCH_x86)
#define ARGUMENT_1(context) ((context)->di)
#define ARGUMENT_2(context) ((context)->si)
#define ARGUMENT_3(context) ((context)->dx)
/* A status is returned through a pointer that comes before the arguments. */
#define ARGUMENT_AFTER_STATUS_1(context) ((context)->si)
#define ARGUMENT_AFTER_STATUS_2(context) ((context)->dx)
#else
#define ARGUMENT_1(context) ((context)->regs[0])
#define ARGUMENT_2(context) ((context)->regs[1])
#define ARGUMENT_3(context) ((context)->regs[2])
#define ARGUMENT_AFTER_STATUS_1(context) ((context)->regs[0])
#define ARGUMENT_AFTER_STATUS_2(context) ((context)->regs[1])
#endif

static __always_inline void add_cell(u32 number, u64 ns, u64 own)
{
	struct cell *cell = bpf_map_lookup_elem(&cells, &number);
	if (!cell)
		return;
	ADD(cell->count, 1);
	ADD(cell->ns, ns);
	ADD(cell->own_ns, own);
	raise_to(&cell->most, ns);
}

/* A function that begins a stage. Whether there was room. */
static __always_inline bool push(struct thread *thread, u64 stage, u64 sp, u64 now)
{
	u64 depth = thread->depth;
	asm volatile("" : "+r"(depth));
	if (depth >= FRAMES) {
		lose(TOO_DEEP);
		return false;
	}
	thread->frames[depth].sp = sp;
	thread->frames[depth].stage = thread->stage;
	thread->depth = depth + 1;
	turn(thread, stage, now);
	return true;
}

/* The function that was entered at `sp` has returned, and with it those within it that an exception went through. */
static __always_inline bool pop(struct thread *thread, u64 sp, u64 now)
{
	u64 stage = STAGES;
	for (int i = 0; i < FRAMES; i++) {
		u64 depth = thread->depth - 1;
		asm volatile("" : "+r"(depth));
		if (depth >= FRAMES || thread->frames[depth].sp > sp)
			break;
		stage = thread->frames[depth].stage;
		thread->depth = depth;
	}
	if (stage == STAGES)
		return false;
	turn(thread, stage, now);
	return true;
}

/* A write leaves the queue for what its role is. */
static __always_inline void leave_queue(struct thread *thread, u32 role, u64 now)
{
	thread->role = role;
	end_wait(thread, role, now);
	thread->joined++;
	turn(thread, REST, now);
	struct clock *clock = bpf_map_lookup_elem(&clocks, &thread->queue);
	if (role == LEADER && clock) {
		advance(clock, thread->writer, REST, now);
		thread->leads = 1;
	}
}

static __always_inline void finish(struct thread *thread, u64 now)
{
	if (queue_within && thread->stage == JOIN)
		leave_queue(thread, DONE, now);
	turn(thread, REST, now);
	thread->active = 0;
	if (thread->leads) {
		struct clock *clock = bpf_map_lookup_elem(&clocks, &thread->queue);
		if (clock && clock->owner == thread->writer)
			advance(clock, 0, HAND_OVER, now);
		thread->leads = 0;
	}
	u32 role = thread->role;
	if (gate != OPEN || role >= ROLES)
		return;
	struct row *row = bpf_map_lookup_elem(&rows, &role);
	if (!row)
		return;
	bump(COUNTING);
	u64 own = 0;
	for (u32 i = 0; i < STAGES; i++) {
		own += thread->own[i];
		if (thread->ns[i])
			add_cell(role * 2 * STAGES + i, thread->ns[i], thread->own[i]);
		if (thread->part[i])
			add_cell((role * 2 + 1) * STAGES + i, thread->part[i], 0);
	}
	add_to(JOINS, thread->joined);
	if (queue_within) {
		add_to(GROUPS, role == LEADER);
		bump(GROUPED);
	}
	add_to(SYNCED, thread->sync && !thread->no_log);
	add_to(NO_LOG, thread->no_log);
	if (count_into(row, now - thread->begun, own))
		lose(OVERFLOW);
	bump(COUNTED_WHOLE);
}

static __always_inline void abandon(struct task_struct *task, struct thread *thread)
{
	thread->active = 0;
}

static __always_inline struct thread *followed(struct task_struct *task, int state, u64 now)
{
	bump(state == PILOT ? PILOT_WRITES : WRITES);
	return own_thread(task);
}

static __always_inline void begin(struct task_struct *task, struct thread *thread, struct pt_regs *context, int state,
				  u64 now)
{
	__builtin_memset(thread->ns, 0, sizeof(thread->ns));
	__builtin_memset(thread->own, 0, sizeof(thread->own));
	__builtin_memset(thread->part, 0, sizeof(thread->part));
	thread->begun = thread->since = now;
	thread->stage = queue_within ? JOIN : ENTER;
	thread->depth = 0;
	thread->leads = thread->joined = thread->in_call = 0;
	thread->slept = 0;
	thread->role = ROLE_UNKNOWN;
	u8 options[2] = {};
	bpf_probe_read_user(options, sizeof(options), (void *)ARGUMENT_AFTER_STATUS_2(context));
	thread->sync = options[0] != 0;
	thread->no_log = !queue_within && options[1] != 0;
	thread->active = state;
	if (queue_within && state == OPEN)
		begin_wait(thread, ARGUMENT_AFTER_STATUS_1(context), (u64)thread, now);
	charge(thread, now);
}

static __always_inline void write_leave(struct pt_regs *context, u64 stack)
{
	u64 now = bpf_ktime_get_ns();
	struct thread *thread = leaves(bpf_get_current_task_btf(), context, stack);
	if (!thread)
		return;
	if (thread->active == PILOT) {
		u32 pilot = ROW_PILOT;
		struct row *row = bpf_map_lookup_elem(&rows, &pilot);
		thread->active = 0;
		if (row && gate == PILOT)
			count_into(row, now - thread->begun, 0);
	} else {
		finish(thread, now);
	}
}

static __always_inline void join_enter(struct pt_regs *context)
{
	if (gate != OPEN)
		return;
	u64 now = bpf_ktime_get_ns();
	struct thread *thread = writer();
	if (!thread || !push(thread, JOIN, context->sp, now))
		return;
	begin_wait(thread, ARGUMENT_1(context), ARGUMENT_2(context), now);
	charge(thread, now);
}

static __always_inline void join_leave(struct pt_regs *context, u64 stack)
{
	u64 now = bpf_ktime_get_ns();
	struct thread *thread = writer();
	if (!thread || thread->stage != JOIN || !pop(thread, stack, now))
		return;
	u8 state = 0;
	struct wait *wait = state_seen ? bpf_map_lookup_elem(&waits, &thread->writer) : 0;
	if (wait && wait->set)
		state = wait->state;
	else if (state_offset)
		bpf_probe_read_user(&state, sizeof(state), (void *)(thread->writer + state_offset));
	u32 role = state == STATE_LEADER	  ? LEADER :
		   state == STATE_MEMTABLE_LEADER ? MEMTABLE_LEADER :
		   state == STATE_PARALLEL	  ? PARALLEL :
		   state == STATE_DONE		  ? DONE :
						    ROLE_UNKNOWN;
	leave_queue(thread, role, now);
	charge(thread, now);
}

/* Whether a stage may begin within another: the same functions serve others, too. */
static __always_inline bool fits(u64 stage, u64 within)
{
	switch (stage) {
	case STALL:
		return within == PREPROCESS || within == ENTER || within == REST;
	case SYNC:
		/* With two queues or unordered writes it follows the log. */
		return within == WAL || within == REST;
	case MEMTABLE_WAIT:
		return within == EXIT;
	default:
		return within == REST;
	}
}

static __always_inline void count_group(u64 group)
{
	u64 size = 0;
	bpf_probe_read_user(&size, sizeof(size), (void *)(group + GROUP_SIZE_OFFSET));
	bump(GROUPS);
	if (!size || size > LARGEST_GROUP) {
		lose(GROUP_UNKNOWN);
		return;
	}
	add_to(GROUPED, size);
	u32 slot = size < SIZES ? size - 1 : SIZES - 1;
	u64 *n = bpf_map_lookup_elem(&sizes, &slot);
	if (n)
		ADD(*n, 1);
}

static __always_inline void stage_enter(struct pt_regs *context)
{
	if (gate != OPEN)
		return;
	u64 now = bpf_ktime_get_ns();
	struct thread *thread = writer();
	u64 function = bpf_get_attach_cookie(context);
	if (!thread || function >= FUNCTIONS)
		return;
	u64 stage = stages[function];
	if (queue_within && stage == PREPROCESS && thread->stage == JOIN)
		leave_queue(thread, LEADER, now);
	if (!fits(stage, thread->stage) || !push(thread, stage, context->sp, now))
		return;
	if (stage == EXIT) {
		count_group(ARGUMENT_2(context));
		group_leaves(thread, now);
	}
	if (stage == MEMTABLE_WAIT) {
		struct clock *clock = bpf_map_lookup_elem(&clocks, &thread->queue);
		if (clock)
			clock->pipelined = 1;
	}
	charge(thread, now);
}

static __always_inline void stage_leave(struct pt_regs *context, u64 stack)
{
	u64 now = bpf_ktime_get_ns();
	struct thread *thread = writer();
	/* The queue may end in a jump to the wait: both return at once, and the wait's return is reported first. */
	if (!thread || thread->stage == JOIN)
		return;
	u64 stage = thread->stage;
	if (!pop(thread, stack, now))
		return;
	if (stage == PREPROCESS)
		group_formed(thread, now);
	charge(thread, now);
}

static __always_inline void state_enter(struct pt_regs *context)
{
	if (gate == OPEN)
		state_set(writer(), ARGUMENT_1(context), ARGUMENT_2(context), ARGUMENT_3(context), bpf_ktime_get_ns());
}

WATCH_FUNCTION(write, query_enter, write_leave)
WATCH_FUNCTION(join, join_enter, join_leave)
WATCH_FUNCTION(stage, stage_enter, stage_leave)
WATCH_ENTRY(state, state_enter)

SEC("?tp_btf/sched_waking")
int BPF_PROG(waking, struct task_struct *task)
{
	if (gate != OPEN)
		return 0;
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	if (thread && thread->active && thread->stage == JOIN)
		woken(thread, bpf_ktime_get_ns());
	return 0;
}

static __always_inline bool is_one_of(const volatile s64 *calls, long id)
{
	for (int i = 0; i < CALLS; i++)
		if (id == calls[i])
			return true;
	return false;
}

/* The stage that a system call is, within the present one; STAGES: none of its own. */
static __always_inline u64 call_stage(struct pt_regs *regs, long id, u64 within)
{
	bool log = few ? within == REST : within == WAL;
	if (log && is_one_of(write_calls, id))
		return WAL_WRITE;
	if ((log || within == SYNC) && is_one_of(sync_calls, id))
		return SYNC_CALL;
	if (within != STALL && !(queue_within && within == PREPROCESS))
		return STAGES;
	if (is_one_of(sleep_calls, id))
		return DELAY;
	if (id == NR_FUTEX && (CALL_OPERATION(regs) & FUTEX_COMMAND) == FUTEX_WAIT_BITSET)
		return STOP;
	return STAGES;
}

SEC("tp_btf/sys_enter")
int WHOLE_PROG(syscall_enter, struct pt_regs *regs, long id)
{
	if (gate != OPEN)
		return 0;
	struct thread *thread = writer();
	if (!thread || thread->in_call)
		return 0;
	u64 now = bpf_ktime_get_ns();
	u64 stage = call_stage(regs, id, thread->stage);
	if (stage == STAGES)
		return 0;
	thread->before_call = thread->stage;
	thread->in_call = 1;
	if (stage == SYNC_CALL)
		begin_sync((u64)bpf_get_current_task_btf());
	turn(thread, stage, now);
	charge(thread, now);
	return 0;
}

SEC("tp_btf/sys_exit")
int WHOLE_PROG(syscall_exit, struct pt_regs *regs, long result)
{
	if (gate != OPEN)
		return 0;
	struct thread *thread = writer();
	if (!thread || !thread->in_call)
		return 0;
	u64 now = bpf_ktime_get_ns();
	thread->in_call = 0;
	if (thread->stage >= SYNC_CALL && thread->stage <= SYNC_FLUSH)
		end_sync(thread, (u64)bpf_get_current_task_btf(), now);
	turn(thread, thread->before_call, now);
	charge(thread, now);
	return 0;
}
