/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* What every program shares: the gate, the process it looks at, log-linear histograms, declared losses. */
#pragma once

#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

/* Set by user space once every program is attached, and cleared before the first is detached: probes attach one by one. */
volatile int gate = 0;

/* The process, by its pid in the pid namespace of the loader (device and inode of /proc/self/ns/pid). */
const volatile u64 pidns_dev = 0;
const volatile u64 pidns_ino = 0;
const volatile u32 target_tgid = 0;

/* Nonzero where sched_switch says in which state a thread leaves its CPU: from Linux 5.18 on. */
const volatile u32 switch_has_state = 0;

/* Nonzero where the kernel may preempt programs of tracepoints (from Linux 7.0 on): while one has its CPU taken, the same
 * program of another thread there is left out, and what belongs to that CPU is not its own. */
const volatile u32 preemptible = 0;

extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;

/* A program of process context as BPF_PROG makes it, which is not preempted. */
#define WHOLE_PROG(name, args...)                                                                                      \
	name(unsigned long long *ctx);                                                                                 \
	static __always_inline int whole_##name(unsigned long long *ctx, ##args);                                      \
	int name(unsigned long long *ctx)                                                                              \
	{                                                                                                              \
		bool hold = preemptible && bpf_ksym_exists(bpf_preempt_disable);                                       \
		if (hold)                                                                                              \
			bpf_preempt_disable();                                                                         \
		_Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wint-conversion\"")                  \
		whole_##name(___bpf_ctx_cast(args));                                                                   \
		_Pragma("GCC diagnostic pop")                                                                          \
		if (hold)                                                                                              \
			bpf_preempt_enable();                                                                          \
		return 0;                                                                                              \
	}                                                                                                              \
	static __always_inline int whole_##name(unsigned long long *ctx, ##args)

/* Makes the constants of an enum known to user space: the skeleton has the types that variables and maps have. */
#define SHOW_ENUM(name) const volatile enum name shown_##name = 0

#define MAP(name, kind, entries, key_type, value_type)                                                                 \
	struct {                                                                                                       \
		__uint(type, BPF_MAP_TYPE_##kind);                                                                     \
		__uint(max_entries, entries);                                                                          \
		__type(key, key_type);                                                                                 \
		__type(value, value_type);                                                                             \
	} name SEC(".maps")

/* Of values that belong to threads, and go with them. */
#define TASK_MAP(name, value_type)                                                                                     \
	struct {                                                                                                       \
		__uint(type, BPF_MAP_TYPE_TASK_STORAGE);                                                               \
		__uint(map_flags, BPF_F_NO_PREALLOC);                                                                  \
		__type(key, int);                                                                                      \
		__type(value, value_type);                                                                             \
	} name SEC(".maps")

/* The value of a key, which begins as `fresh`; NULL where the map is full. Two CPUs may both find it missing: one of them
 * adds it, and each then looks it up. */
static __always_inline void *find_or_add(void *map, const void *key, const void *fresh)
{
	void *value = bpf_map_lookup_elem(map, key);
	if (value)
		return value;
	bpf_map_update_elem(map, key, fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(map, key);
}

/* Buckets: exact below 32 ns, then each power of two in 32 parts, so a bucket is at most 1/32 (3.1 %) wide. */
#define SUB_BITS 5
#define SUB (1 << SUB_BITS)
#define MAX_EXPONENT 36 /* 2^37 ns = 137 s; longer ones count in the last bucket and in `overflow` */
#define BUCKETS ((MAX_EXPONENT - SUB_BITS + 2) * SUB)

static __always_inline u32 log2_u64(u64 v)
{
	u32 r = 0;
#pragma unroll
	for (int shift = 32; shift > 0; shift >>= 1)
		if (v >> shift) {
			v >>= shift;
			r += shift;
		}
	return r;
}

static __always_inline u32 bucket_of(u64 ns)
{
	if (ns < SUB)
		return ns;
	u32 exponent = log2_u64(ns);
	if (exponent > MAX_EXPONENT)
		return BUCKETS - 1;
	return (exponent - SUB_BITS + 1) * SUB + ((ns >> (exponent - SUB_BITS)) & (SUB - 1));
}

/* Its numbers are the kernel's; we name what is new. */
enum bpf_func_id___known {
	BPF_FUNC_get_current_task_btf___known = 158, /* Linux 5.11 */
	BPF_FUNC_task_pt_regs___known = 175,         /* Linux 5.15 */
};
#define HAS_HELPER(name) bpf_core_enum_value_exists(enum bpf_func_id___known, BPF_FUNC_##name##___known)

/* Where that helper is missing, no pointer that may be followed. */
static __always_inline struct task_struct *current_task(void)
{
	return HAS_HELPER(get_current_task_btf) ? bpf_get_current_task_btf() : (void *)bpf_get_current_task();
}

struct ids {
	u32 tgid;
	u32 tid;
};

/* The first pid namespace of the machine always has this inode (PROC_PID_INIT_INO); there the kernel's numbers are ours. */
#define FIRST_PID_NAMESPACE 0xEFFFFFFCu
#define MAX_PID_NAMESPACES 32 /* the kernel's own limit (MAX_PID_NS_LEVEL) */

/* A pid as the loader's namespace numbers it; 0 where it is not visible there. A process in a container below ours has one
 * number for each namespace above it. */
static __always_inline u32 number_of(struct pid *pid)
{
	u32 level = BPF_CORE_READ(pid, level);
	for (u32 i = 0; i < MAX_PID_NAMESPACES; i++) {
		if (i > level)
			break;
		struct upid upid;
		if (bpf_core_read(&upid, sizeof(upid), &pid->numbers[i]))
			break;
		if (BPF_CORE_READ(upid.ns, ns.inum) == (u32)pidns_ino)
			return upid.nr;
	}
	return 0;
}

/* A thread as its own pid namespace, the innermost, numbers it: what gettid() says to it. */
static __always_inline u32 own_number(struct task_struct *task)
{
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	u32 level = BPF_CORE_READ(pid, level);
	struct upid upid = {};
	if (level < MAX_PID_NAMESPACES)
		bpf_core_read(&upid, sizeof(upid), &pid->numbers[level]);
	return upid.nr;
}

/* When a task's process was created: an exec keeps it, and no two processes of one number have the same. */
static __always_inline u64 start_of(struct task_struct *task)
{
	return BPF_CORE_READ(task, group_leader, start_time);
}

/* Process and thread as the loader's pid namespace numbers them; zeros for a task that it cannot see. */
static __always_inline struct ids ids_of(struct task_struct *task)
{
	struct ids ids = {};
	if ((u32)pidns_ino == FIRST_PID_NAMESPACE) {
		ids.tgid = BPF_CORE_READ(task, tgid);
		ids.tid = BPF_CORE_READ(task, pid);
		return ids;
	}
	ids.tid = number_of(BPF_CORE_READ(task, thread_pid));
	ids.tgid = number_of(BPF_CORE_READ(task, group_leader, thread_pid));
	return ids;
}

static __always_inline struct ids current_ids(void)
{
	struct ids ids = {};
	if ((u32)pidns_ino == FIRST_PID_NAMESPACE) {
		u64 both = bpf_get_current_pid_tgid();
		ids.tgid = both >> 32;
		ids.tid = (u32)both;
		return ids;
	}
	struct bpf_pidns_info info = {};
	if (bpf_get_ns_current_pid_tgid(pidns_dev, pidns_ino, &info, sizeof(info)) == 0) {
		ids.tgid = info.tgid;
		ids.tid = info.pid;
		return ids;
	}
	/* It is in another namespace, perhaps below ours. */
	return ids_of((struct task_struct *)bpf_get_current_task());
}
