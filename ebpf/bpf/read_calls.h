/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* Which system calls read: the loader tells, by the numbers of this machine. */
#pragma once

#include "common.h"

#define READ_CALLS 8
const volatile s64 read_calls[READ_CALLS] = { -1, -1, -1, -1, -1, -1, -1, -1 };

static __always_inline bool is_read(long id)
{
	for (int i = 0; i < READ_CALLS; i++)
		if (id == read_calls[i])
			return true;
	return false;
}
