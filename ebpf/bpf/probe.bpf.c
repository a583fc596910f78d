/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* One tiny program of each kind, to be loaded and attached one at a time. */
#include "common.h"

u64 hits = 0;

SEC("?tp_btf/sched_switch")
int try_tp_btf(void *context)
{
	__sync_fetch_and_add(&hits, 1);
	return 0;
}

SEC("?tracepoint/sched/sched_switch")
int try_tracepoint(void *context)
{
	__sync_fetch_and_add(&hits, 1);
	return 0;
}

SEC("?fentry/vfs_read")
int try_fentry(void *context)
{
	__sync_fetch_and_add(&hits, 1);
	return 0;
}

SEC("?kprobe/vfs_read")
int try_kprobe(void *context)
{
	__sync_fetch_and_add(&hits, 1);
	return 0;
}

SEC("?uprobe")
int try_uprobe(void *context)
{
	__sync_fetch_and_add(&hits, 1);
	return 0;
}
