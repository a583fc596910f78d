/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* A function watched at its entry and its return, in two ways. A session (Linux 6.13) is one program for both, and its
 * entry decides whether this call's return is trapped at all; a pair (uprobe and uretprobe) always traps both. */
#pragma once

#include "common.h"

extern _Bool bpf_session_is_return(void) __ksym __weak;

/* What an entry says about its return. */
enum { TRAP_RETURN = 0, SKIP_RETURN = 1 };

/* Programs NAME_session, NAME_entry and NAME_return from two functions of the context: ENTRY and LEAVE. */
#define WATCH_FUNCTION(name, enter, leave)                                                                             \
	SEC("?uprobe.session")                                                                                         \
	int name##_session(struct pt_regs *context)                                                                    \
	{                                                                                                              \
		if (bpf_session_is_return()) {                                                                         \
			leave(context);                                                                                \
			return 0;                                                                                      \
		}                                                                                                      \
		/* The verifier must see 0 or 1, whatever the compiler makes of the branches. */                       \
		int answer = enter(context);                                                                           \
		barrier_var(answer);                                                                                   \
		return answer & 1;                                                                                     \
	}                                                                                                              \
	SEC("?uprobe")                                                                                                 \
	int name##_entry(struct pt_regs *context)                                                                      \
	{                                                                                                              \
		enter(context);                                                                                        \
		return 0;                                                                                              \
	}                                                                                                              \
	SEC("?uretprobe")                                                                                              \
	int name##_return(struct pt_regs *context)                                                                     \
	{                                                                                                              \
		leave(context);                                                                                        \
		return 0;                                                                                              \
	}
