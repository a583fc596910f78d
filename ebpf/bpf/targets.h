/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* The processes looked at, when there may be several, or children of theirs. Each is known by its number and by when it was
 * created, so that a number that is given to another process is not taken for it: the end of a process may go unseen. */
#pragma once

#include "held_back.h"

/* tgid in the loader's pid namespace -> start_time, 0 until it is first seen */
MAP(targets, HASH, 16384, u32, u64);

/* Their control groups, by id, but for the root: of a bio that a limit held back the group alone says whose it is. */
MAP(target_groups, HASH, 1024, u64, u32);

u64 targets_ended = 0;
u64 targets_lost = 0; /* children that did not fit into the map */

/* Whether a task is of one of them; tgid: its own. */
static __always_inline int is_target(struct task_struct *task, u32 tgid)
{
	u64 *start = tgid ? bpf_map_lookup_elem(&targets, &tgid) : 0;
	if (!start)
		return 0;
	/* By loads, where they can be: this runs at each request. */
	u64 own = HAS_HELPER(get_current_task_btf) ? task->group_leader->start_time : start_of(task);
	if (!*start)
		*start = own;
	return *start == own;
}

static __always_inline bool is_of_target_group(struct bio *bio)
{
	if (!bio || !bpf_core_field_exists(bio->bi_blkg))
		return false;
	u64 id = BPF_CORE_READ(bio, bi_blkg, blkcg, css.cgroup, kn, id);
	return bpf_map_lookup_elem(&target_groups, &id);
}

SEC("?tp_btf/sched_process_fork")
int WHOLE_PROG(target_forks, struct task_struct *parent, struct task_struct *child)
{
	u64 unknown = 0;
	u32 tgid = ids_of(parent).tgid;
	if (!is_target(parent, tgid))
		return 0;
	u32 born = ids_of(child).tgid;
	if (born && born != tgid && bpf_map_update_elem(&targets, &born, &unknown, BPF_ANY))
		__sync_fetch_and_add(&targets_lost, 1);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int WHOLE_PROG(target_exits, struct task_struct *task)
{
	/* 0 with the last of its threads. */
	if (task->signal->live.counter > 0)
		return 0;
	u32 tgid = ids_of(task).tgid;
	if (bpf_map_delete_elem(&targets, &tgid) == 0)
		__sync_fetch_and_add(&targets_ended, 1);
	return 0;
}
