/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* Two small jobs of the uprobes: which of several functions is called, and what a trap costs. */
#include "uprobe.h"

#define FUNCTIONS 64

struct calls {
	u64 outer; /* not within another of them */
	u64 inner;
};

MAP(calls, PERCPU_ARRAY, FUNCTIONS, u32, struct calls);
TASK_MAP(threads, struct call);

static __always_inline void call_enter(struct pt_regs *context)
{
	if (!gate)
		return;
	u32 function = bpf_get_attach_cookie(context);
	struct task_struct *task = bpf_get_current_task_btf();
	struct call *call = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct calls *called = bpf_map_lookup_elem(&calls, &function);
	if (!call || !called)
		return;
	if (call->at && is_within(call, context)) {
		called->inner++;
	} else {
		called->outer++;
		call_begins(call, context);
	}
}

static __always_inline void call_leave(struct pt_regs *context, u64 stack)
{
	struct call *call = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
	if (call && call->at && call_ends(call, context, stack))
		call->at = 0;
}

static __always_inline void empty_enter(struct pt_regs *context)
{
}

static __always_inline void empty_leave(struct pt_regs *context, u64 stack)
{
}

WATCH_FUNCTION(call, call_enter, call_leave)
WATCH_FUNCTION(empty, empty_enter, empty_leave)
