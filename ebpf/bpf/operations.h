/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* What a request asks a device to do (enum req_op of linux/blk_types.h). */
#pragma once

#include "common.h"

enum operation { READ, WRITE, FLUSH, DISCARD, OTHER, OPERATIONS };

#define REQ_OP_MASK 0xff

enum { REQ_OP_READ = 0, REQ_OP_FLUSH = 2, REQ_OP_DISCARD = 3, REQ_OP_SECURE_ERASE = 5, REQ_OP_WRITE_ZEROES = 9 };

/* The groups of /proc/diskstats (op_stat_group of block/blk-core.h), with commands to the drive apart. */
static __always_inline u32 group_of(u32 operation)
{
	if (operation == REQ_OP_READ)
		return READ;
	if (operation == REQ_OP_FLUSH)
		return FLUSH;
	if (operation == REQ_OP_DISCARD)
		return DISCARD;
	return operation & 1 ? WRITE : OTHER;
}
