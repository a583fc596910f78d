/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* Two small jobs of the uprobes: which of several functions is called, and what a trap costs. */
#include "uprobe.h"

#define FUNCTIONS 64

struct calls {
	u64 outer; /* not within another of them */
	u64 inner;
};

MAP(calls, PERCPU_ARRAY, FUNCTIONS, u32, struct calls);
TASK_MAP(depths, u64);

static __always_inline int call_enter(struct pt_regs *context)
{
	if (!gate)
		return SKIP_RETURN;
	u32 function = bpf_get_attach_cookie(context);
	struct task_struct *task = bpf_get_current_task_btf();
	u64 *depth = bpf_task_storage_get(&depths, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct calls *called = bpf_map_lookup_elem(&calls, &function);
	if (!depth || !called)
		return SKIP_RETURN;
	if ((*depth)++)
		called->inner++;
	else
		called->outer++;
	return TRAP_RETURN;
}

static __always_inline void call_leave(struct pt_regs *context)
{
	u64 *depth = bpf_task_storage_get(&depths, bpf_get_current_task_btf(), 0, 0);
	if (depth && *depth)
		(*depth)--;
}

static __always_inline int empty_enter(struct pt_regs *context)
{
	return TRAP_RETURN;
}

static __always_inline int empty_skip(struct pt_regs *context)
{
	return SKIP_RETURN;
}

static __always_inline void empty_leave(struct pt_regs *context)
{
}

WATCH_FUNCTION(call, call_enter, call_leave)
WATCH_FUNCTION(both, empty_enter, empty_leave)
WATCH_FUNCTION(entry_only, empty_skip, empty_leave)
