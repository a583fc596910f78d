/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* One tiny program of each kind, to be loaded and attached one at a time. */
#include "common.h"

u64 hits = 0;

#define TRY(kind, event)                                                                                               \
	SEC("?" event)                                                                                                 \
	int try_##kind(void *context)                                                                                  \
	{                                                                                                              \
		__sync_fetch_and_add(&hits, 1);                                                                        \
		return 0;                                                                                              \
	}

TRY(tp_btf, "tp_btf/sched_switch")
TRY(tracepoint, "tracepoint/sched/sched_switch")
TRY(fentry, "fentry/vfs_read")
TRY(kprobe, "kprobe/vfs_read")
TRY(uprobe, "uprobe")
