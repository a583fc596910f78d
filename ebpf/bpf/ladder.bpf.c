/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* The latency ladder: one query in N of a process, followed through
 *   query -> file reader -> read call -> block queue -> device -> wake-up -> run queue -> back.
 * Each followed query leaves eleven points in time on one clock, so its ten stages add up to it exactly. A thread keeps its
 * points in task storage. A request is known by its address, and its points reach the thread at its wake-up: before
 * the request is freed, and so before another read can take its address. */
#include "threads.h"
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

/* What a followed query turned out to be. Only ONE_READ has stages. */
enum class {
	ONE_READ,     /* one read call, one request, slept until it was done */
	NO_READ,      /* no read call: found in the engine's cache or memtable */
	SEVERAL,      /* more than one read call, or more than one request */
	NO_REQUEST,   /* one read call without a request of its own, and no sleep: page cache */
	FOREIGN,      /* one read call without a request of its own that slept: another thread asked for the data */
	AWAKE,        /* the request was done before the thread slept, or something else woke it */
	URING,        /* io_uring or libaio: the reads are not the thread's own calls */
	DISORDER,     /* a point is missing, or before the one it follows */
	CLASSES,
};

#define ROW_CLASS STAGES
#define ROW_OUTSIDE (ROW_CLASS + CLASSES)
#define ROWS (ROW_OUTSIDE + 1)

enum counter {
	QUERIES,       /* begun while the gate was open, followed or not */
	FOLLOWED,      /* of these */
	THREADS,       /* that began any */
	LOST_THREAD,   /* no room for a thread's state: its query is not followed */
	LOST_REQUEST,  /* the map of requests in flight was full */
	LOST_DEVICE,   /* the map of devices was full */
	NESTED,        /* a query within a followed query: part of the outer one */
	ABANDONED,     /* a followed query that never returned (an exception went through it) */
	REQUEUED,      /* a followed request issued more than once: its last issue counts */
	OVERFLOW,      /* longer than the last bucket begins */
	ASYNC_CALLS,   /* that ask for reads which no read call waits for, where the ladder starts at the read call */
	COUNTERS,
};

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
const volatile u32 sample = 1;      /* one query in so many */
#define READ_CALLS 5
const volatile s64 read_calls[READ_CALLS] = { -1, -1, -1, -1, -1 };
#define ASYNC_CALLS_KNOWN 2
const volatile s64 async_calls[ASYNC_CALLS_KNOWN] = { -1, -1 };

struct thread {
	u64 at[POINTS];
	u64 own[STAGES]; /* ns that the programs themselves ran within each stage */
	u64 request;
	u64 stack;       /* stack pointer at the query's entry */
	u64 left;        /* when the last followed query returned; 0 once the next one began */
	u64 own_left;    /* ns that the program at its return ran */
	u64 device;
	u32 skip;        /* queries until the next followed one */
	u32 reads;
	u32 requests;
	u32 sleeps;
	u32 depth;
	u32 phase;
	u32 uring;
	u32 known;
};

struct flight {
	u64 issued;
	u64 completed;
	u64 own_issued;
	u64 own_completed;
	u32 owner; /* the thread, by the kernel's own number */
};

struct row {
	u64 count;
	u64 ns;
	u64 least_flipped; /* ~least: the greatest of the flipped ones, so that nothing yet is 0 here, too */
	u64 most;
	u64 own_ns;
	u64 buckets[BUCKETS];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct flight);
} flights SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ROWS);
	__type(key, u32);
	__type(value, struct row);
} rows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, u32);
	__type(value, u64);
} counters SEC(".maps");

/* Requests of followed reads by disk: major << 32 | minor. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 256);
	__type(key, u64);
	__type(value, u64);
} devices SEC(".maps");

/* Programs of uprobes can be preempted by another thread's on the same CPU, in the middle of an addition. */
#define ADD(place, n) __sync_fetch_and_add(&(place), n)

/* And between a comparison and what is stored for it. Each new attempt is another preemption within nanoseconds. */
#define ATTEMPTS 8
static __always_inline void raise_to(u64 *place, u64 value)
{
	for (int i = 0; i < ATTEMPTS; i++) {
		u64 seen = *(volatile u64 *)place;
		if (value <= seen || __sync_val_compare_and_swap(place, seen, value) == seen)
			return;
	}
}

static __always_inline void bump(u32 what)
{
	u64 *n = bpf_map_lookup_elem(&counters, &what);
	if (n)
		ADD(*n, 1);
}

static __always_inline void count(u32 number, u64 from, u64 to, u64 own)
{
	struct row *row = bpf_map_lookup_elem(&rows, &number);
	if (!row)
		return;
	u64 ns = to - from;
	u32 bucket = bucket_of(ns);
	if (ns >> (MAX_EXPONENT + 1))
		bump(OVERFLOW);
	if (bucket < BUCKETS)
		ADD(row->buckets[bucket], 1);
	raise_to(&row->least_flipped, ~ns);
	raise_to(&row->most, ns);
	ADD(row->count, 1);
	ADD(row->ns, ns);
	ADD(row->own_ns, own);
}

static __always_inline struct thread *thread_of(struct task_struct *task)
{
	return bpf_task_storage_get(&threads, task, 0, 0);
}

/* What this program took, from the point's time to now, is part of the stage that the point begins. */
static __always_inline void charge(struct thread *thread, enum point point, u64 since)
{
	thread->own[point] += bpf_ktime_get_ns() - since;
}

/* The calling thread's state, where it is to be followed from now on; NULL where it is not. */
static __always_inline struct thread *begin(struct task_struct *task, u64 stack, u64 now)
{
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	bump(QUERIES);
	if (!thread) {
		bump(LOST_THREAD);
		return 0;
	}
	if (!thread->known) {
		thread->known = 1;
		bump(THREADS);
	}
	if (thread->left) {
		count(ROW_OUTSIDE, thread->left, now, thread->own_left);
		thread->left = 0;
	}
	if (thread->skip > 1) {
		thread->skip--;
		return 0;
	}
	/* A gap drawn evenly from 1 .. 2N - 1 is N on average, and in step with no pattern of the workload's. */
	thread->skip = sample > 1 ? 1 + bpf_get_prandom_u32() % (2 * sample - 1) : 1;
	__builtin_memset(thread->at, 0, sizeof(thread->at));
	__builtin_memset(thread->own, 0, sizeof(thread->own));
	thread->request = 0;
	thread->reads = 0;
	thread->requests = 0;
	thread->sleeps = 0;
	thread->depth = 0;
	thread->uring = 0;
	thread->stack = stack;
	bump(FOLLOWED);
	return thread;
}

static __always_inline enum class class_of(struct thread *thread)
{
	if (thread->uring)
		return URING;
	if (!thread->reads)
		return NO_READ;
	if (thread->reads > 1 || thread->requests > 1)
		return SEVERAL;
	if (!thread->requests)
		return thread->sleeps ? FOREIGN : NO_REQUEST;
	if (!thread->at[RUNNING])
		return AWAKE;
	for (int point = 1; point < POINTS; point++)
		if (thread->at[point] < thread->at[point - 1])
			return DISORDER;
	return ONE_READ;
}

static __always_inline void finish(struct thread *thread, u64 now)
{
	thread->phase = IDLE;
	if (!gate)
		return;
	thread->at[QUERY_END] = now;
	if (!with_reader) {
		thread->at[READER] = thread->at[SYSCALL];
		thread->at[READER_END] = thread->at[SYSCALL_END];
	}
	enum class class = class_of(thread);
	u64 own = 0;
	if (class == ONE_READ) {
		for (int stage = 0; stage < STAGES; stage++) {
			int there = stage == READER || stage == SYSCALL_END ? with_reader :
				    stage == QUERY || stage == READER_END ? with_query : 1;
			own += thread->own[stage];
			if (there)
				count(stage, thread->at[stage], thread->at[stage + 1], thread->own[stage]);
		}
		u64 none = 0, *n = find_or_add(&devices, &thread->device, &none);
		if (n)
			ADD(*n, 1);
		else
			bump(LOST_DEVICE);
	}
	count(ROW_CLASS + class, thread->at[QUERY], now, own);
	thread->left = with_query ? now : 0;
	thread->own_left = bpf_ktime_get_ns() - now;
}

static __always_inline int query_enter(struct pt_regs *context)
{
	if (!gate)
		return SKIP_RETURN;
	u64 now = bpf_ktime_get_ns();
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = thread_of(task);
	if (thread && thread->phase != IDLE) {
		if (context->sp < thread->stack) {
			thread->depth++;
			bump(NESTED);
			return TRAP_RETURN;
		}
		thread->phase = IDLE;
		bump(ABANDONED);
	}
	thread = begin(task, context->sp, now);
	if (!thread)
		return SKIP_RETURN;
	thread->phase = IN_QUERY;
	thread->at[QUERY] = now;
	charge(thread, QUERY, now);
	return TRAP_RETURN;
}

static __always_inline void query_leave(struct pt_regs *context)
{
	u64 now = bpf_ktime_get_ns();
	struct thread *thread = thread_of(bpf_get_current_task_btf());
	if (!thread || thread->phase == IDLE)
		return;
	if (thread->depth)
		thread->depth--;
	else
		finish(thread, now);
}

static __always_inline int reader_enter(struct pt_regs *context)
{
	if (!gate)
		return SKIP_RETURN;
	struct thread *thread = thread_of(bpf_get_current_task_btf());
	if (!thread || thread->phase != IN_QUERY)
		return SKIP_RETURN;
	u64 now = bpf_ktime_get_ns();
	thread->at[READER] = now;
	thread->phase = IN_READER;
	charge(thread, READER, now);
	return TRAP_RETURN;
}

static __always_inline void reader_leave(struct pt_regs *context)
{
	u64 now = bpf_ktime_get_ns();
	struct thread *thread = thread_of(bpf_get_current_task_btf());
	if (!thread)
		return;
	/* Without a read call of its own (a prefetch buffer, memory-mapped files) the query may still read later on. */
	if (thread->phase == IN_READER) {
		thread->phase = IN_QUERY;
	} else if (thread->phase == READ_DONE) {
		thread->at[READER_END] = now;
		thread->phase = READER_DONE;
		charge(thread, READER_END, now);
	}
}

WATCH_FUNCTION(query, query_enter, query_leave)
WATCH_FUNCTION(reader, reader_enter, reader_leave)

static __always_inline int is_read(long id)
{
	for (int i = 0; i < READ_CALLS; i++)
		if (id == read_calls[i])
			return 1;
	return 0;
}

static __always_inline int is_async(long id)
{
	for (int i = 0; i < ASYNC_CALLS_KNOWN; i++)
		if (id == async_calls[i])
			return 1;
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(syscall_enter, struct pt_regs *regs, long id)
{
	if (!gate)
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread;
	if (with_query) {
		thread = thread_of(task);
		if (!thread || thread->phase == IDLE)
			return 0;
	}
	u64 now = bpf_ktime_get_ns();
	if (is_async(id)) {
		if (with_query)
			thread->uring = 1;
		else if (is_target(task))
			bump(ASYNC_CALLS);
		return 0;
	}
	if (!is_read(id))
		return 0;
	if (!with_query) {
		if (!is_target(task))
			return 0;
		thread = begin(task, 0, now);
		if (!thread)
			return 0;
		thread->at[QUERY] = now;
	}
	thread->reads++;
	if (thread->reads > 1)
		return 0;
	thread->at[SYSCALL] = now;
	thread->phase = IN_SYSCALL;
	charge(thread, SYSCALL, now);
	return 0;
}

SEC("tp_btf/block_io_start")
int BPF_PROG(io_start, struct request *rq)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = thread_of(task);
	if (!thread || thread->phase < IN_SYSCALL || thread->phase > AWAKE_AGAIN)
		return 0;
	u64 now = bpf_ktime_get_ns();
	thread->requests++;
	if (thread->requests > 1)
		return 0;
	struct flight flight = { .owner = task->pid };
	u64 key = (u64)rq;
	if (bpf_map_update_elem(&flights, &key, &flight, BPF_ANY))
		bump(LOST_REQUEST);
	thread->request = key;
	struct gendisk *disk = rq->q->disk;
	thread->device = (u64)disk->major << 32 | (u32)disk->first_minor;
	thread->at[STARTED] = now;
	thread->phase = ASKED;
	charge(thread, STARTED, now);
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(rq_issue, struct request *rq)
{
	u64 now = bpf_ktime_get_ns(), key = (u64)rq;
	struct flight *flight = bpf_map_lookup_elem(&flights, &key);
	if (!flight)
		return 0;
	if (flight->issued)
		bump(REQUEUED);
	flight->issued = now;
	flight->own_issued = bpf_ktime_get_ns() - now;
	return 0;
}

/* Before the thread is woken (block_io_done comes after it). A request may complete in parts: the last one counts. */
SEC("tp_btf/block_rq_complete")
int BPF_PROG(rq_complete, struct request *rq, int error, unsigned int bytes)
{
	u64 now = bpf_ktime_get_ns(), key = (u64)rq;
	struct flight *flight = bpf_map_lookup_elem(&flights, &key);
	if (!flight)
		return 0;
	flight->completed = now;
	flight->own_completed = bpf_ktime_get_ns() - now;
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(waking, struct task_struct *task)
{
	struct thread *thread = thread_of(task);
	if (!thread || (thread->phase != ASLEEP && thread->phase != ASKED))
		return 0;
	u64 now = bpf_ktime_get_ns(), key = thread->request;
	struct flight *flight = bpf_map_lookup_elem(&flights, &key);
	/* Woken for another reason: it will find its read undone and sleep again. */
	if (!flight || flight->owner != (u32)task->pid || !flight->completed)
		return 0;
	thread->at[ISSUED] = flight->issued;
	thread->at[COMPLETED] = flight->completed;
	thread->own[ISSUED] = flight->own_issued;
	thread->own[COMPLETED] = flight->own_completed;
	bpf_map_delete_elem(&flights, &key);
	thread->request = 0;
	thread->at[WAKING] = now;
	thread->phase = thread->phase == ASLEEP ? WOKEN : WOKEN_EARLY;
	charge(thread, WAKING, now);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switching, _Bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int state)
{
	struct thread *thread = thread_of(prev);
	if (thread && !preempt && state) {
		if (thread->phase == ASKED)
			thread->phase = ASLEEP;
		else if (thread->phase == WOKEN_EARLY)
			thread->phase = WOKEN;
		if (thread->phase == IN_SYSCALL || thread->phase == ASLEEP)
			thread->sleeps++;
	}
	thread = thread_of(next);
	if (thread && thread->phase == WOKEN) {
		u64 now = bpf_ktime_get_ns();
		thread->at[RUNNING] = now;
		thread->phase = AWAKE_AGAIN;
		charge(thread, RUNNING, now);
	}
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(syscall_exit, struct pt_regs *regs, long result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = thread_of(task);
	if (!thread || thread->phase < IN_SYSCALL || thread->phase > AWAKE_AGAIN)
		return 0;
	u64 now = bpf_ktime_get_ns(), key = thread->request;
	if (key) {
		struct flight *flight = bpf_map_lookup_elem(&flights, &key);
		if (flight && flight->owner == (u32)task->pid)
			bpf_map_delete_elem(&flights, &key);
	}
	thread->at[SYSCALL_END] = now;
	thread->phase = READ_DONE;
	if (with_query)
		charge(thread, SYSCALL_END, now);
	else
		finish(thread, now);
	return 0;
}
