/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* Counts the calls of functions. */
#include "common.h"

u64 hits = 0;

SEC("uprobe")
int entry(void *context)
{
	__sync_fetch_and_add(&hits, 1);
	return 0;
}
