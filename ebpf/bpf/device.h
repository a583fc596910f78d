/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* Requests of the one block device that is looked at. */
#pragma once

#include "operations.h"

const volatile u32 device_major = 0;
const volatile u32 device_minor = 0;
/* 1: the device is a partition, and its requests are those whose bio was sent to it. */
const volatile u32 device_is_partition = 0;

SHOW_ENUM(operation);

static __always_inline int is_device(struct gendisk *disk)
{
	return disk->major == (int)device_major && disk->first_minor == (int)device_minor;
}

/* Before Linux 5.12 a bio does not tell its partition. */
static __always_inline int is_of_partition(struct bio *bio)
{
	return bpf_core_field_exists(bio->bi_bdev) && bio->bi_bdev->bd_dev == (device_major << 20 | device_minor);
}

static __always_inline int is_ours(struct request *rq)
{
	if (device_is_partition) {
		struct bio *bio = rq->bio;
		return bio && is_of_partition(bio);
	}
	if (bpf_core_field_exists(rq->q->disk))
		return is_device(rq->q->disk);
	struct request___with_disk *old = (void *)rq;
	return is_device(old->rq_disk);
}

/* The same of a request whose bio has been handed back. */
static __always_inline int was_ours(struct request *rq)
{
	if (device_is_partition)
		return rq->part && rq->part->bd_dev == (device_major << 20 | device_minor);
	return is_ours(rq);
}

static __always_inline struct gendisk *disk_of(struct bio *bio)
{
	struct bio___with_disk *old = (void *)bio;
	return bpf_core_field_exists(bio->bi_bdev) ? bio->bi_bdev->bd_disk : old->bi_disk;
}

static __always_inline int is_our_bio(struct bio *bio)
{
	return device_is_partition ? is_of_partition(bio) : is_device(disk_of(bio));
}
