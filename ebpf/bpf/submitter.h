/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* Whose request a worker of io_uring makes: each thread that submits has workers of its own. */
#pragma once

#include "held_back.h"

struct io_wq {
	struct task_struct *task;
} __attribute__((preserve_access_index));

struct io_worker {
	struct io_wq *wq; /* before Linux 6.4 one structure further */
} __attribute__((preserve_access_index));

#define PF_IO_WORKER 0x10

/* The thread that submitted what this one works on, to be released; NULL where it is no worker, or this is not known. */
static __always_inline struct task_struct *submitter_of(struct task_struct *task)
{
	struct io_worker *worker = task->worker_private;
	if (!(task->flags & PF_IO_WORKER) || !worker)
		return 0;
	if (!bpf_core_field_exists(worker->wq) || !bpf_ksym_exists(bpf_task_from_pid))
		return 0;
	return bpf_task_from_pid(BPF_CORE_READ(worker, wq, task, pid));
}
