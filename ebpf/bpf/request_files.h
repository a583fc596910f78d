/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* What is kept of a request until it is reported, and which file its pages belong to. */
#pragma once

#include "device.h"
#include "targets.h"

#define PF_KTHREAD 0x00200000u
#define BDEVFS_MAGIC 0x62646576ul
/* Of folio.mapping: what is set of pages that are no file's. */
#define NO_FILE_MAPPING 3ul


/* How the file of a request was found. */
enum found {
	CACHED,      /* its pages are a file's: read into the page cache, or written from it */
	DIRECT,      /* between a file and memory of the process (O_DIRECT): the thread's direct call that is under way */
	FILE_SYSTEM, /* metadata or journal, or the device itself read as a file */
	NO_DATA,     /* a flush, a discard: no pages */
	SWAP,
	NOT_FOUND,
	FOUNDS,
};

enum submitter { OTHERS, PROCESS, KERNEL, SUBMITTERS };

enum tally {
	LOST_START,  /* the map of requests in flight was full */
	LOST_RECORD, /* the ring was full: the request is not in the rows */
	LOST_NAME,   /* the map of names was full: the file has none */
	LOST_DIRECT, /* no memory for what a thread reads or writes directly */
	LOST_STACK,  /* the map of stacks was full */
	NO_STACK,    /* the kernel could not walk it */
	NO_START,    /* completed; its start was before the programs were attached, or not seen */
	NO_END,      /* its address began another request, and its end was not seen */
	NEGATIVE,    /* an end before its start: clocks of two CPUs */
	REQUEUED,    /* handed back by the driver, and issued again later */
	MERGED,      /* merged into another request, which counts for both */
	HELD_BACK,   /* by an IO limit of a control group, before it began here */
	TALLIES,
};

SHOW_ENUM(found);
SHOW_ENUM(submitter);
SHOW_ENUM(tally);

u64 tallies[TALLIES] = {};

static __always_inline void lose(u32 what)
{
	if (gate)
		__sync_fetch_and_add(&tallies[what], 1);
}

#include "stacks.h"

/* Inode numbers are reused: the generation distinguishes the old file from the new one. */
struct file_key {
	u64 inode;
	u32 device; /* the file system's */
	u32 generation;
};

/* What is known of a request, and told when it has ended. */
struct flight {
	u64 started;
	u64 issued;
	u64 ended;
	u64 offset; /* in the file, of its first byte */
	u64 mapping; /* of its first page, where that is a file's: what is merged into it may be another's */
	u64 stack;
	struct file_key file;
	u32 flags;
	u32 bytes;
	u32 found;
	u32 submitter;
	u32 tid;
	u32 tgid;
	u32 several; /* pages of another file were merged into it */
	u32 unused;
	char comm[16];
};

/* The last parts of a path, the file's own first. */
#define PARTS 5
#define NAME_BYTES 64

struct part {
	u64 inode;
	char name[NAME_BYTES];
};

struct path {
	struct part parts[PARTS];
};

/* What a thread reads or writes directly, as far as no request has been made of it yet. */
struct direct {
	struct file_key file;
	u64 inode; /* its address: the file is open until the call returns */
	u64 offset;
	u64 left;
};

MAP(flights, HASH, 65536, u64, struct flight);
MAP(names, HASH, 16384, struct file_key, struct path);
MAP(blank, PERCPU_ARRAY, 1, u32, struct path);
TASK_MAP(directs, struct direct);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} records SEC(".maps");

const volatile u32 page_shift = 12;
/* Nonzero: no event tells of direct calls (before Linux 6.6). */
const volatile u32 direct_by_bio = 0;
/* Flags of this kernel, as masks; 0 where it has no such flag. */
const volatile u32 meta_flag = 0;
const volatile u32 swap_flag = 0;
/* One read of the process in so many has a stack, and one of its other requests; 0: none. */
const volatile u32 stack_each_read = 0;
const volatile u32 stack_each_other = 0;

static __always_inline struct file_key key_of(struct inode *inode)
{
	struct file_key key = {
		.inode = BPF_CORE_READ(inode, i_ino),
		.device = BPF_CORE_READ(inode, i_sb, s_dev),
		.generation = BPF_CORE_READ(inode, i_generation),
	};
	return key;
}

static __always_inline struct dentry *first_name_of(struct inode *inode)
{
	void *alias = BPF_CORE_READ(inode, i_dentry.first);
	struct dentry *dentry = 0;
	if (!alias)
		return 0;
	if (bpf_core_field_exists(dentry->d_u))
		return alias - bpf_core_field_offset(dentry->d_u.d_alias);
	struct dentry___no_union *bare = 0;
	return alias - bpf_core_field_offset(bare->d_alias);
}

/* Keeps the path of a file that is seen for the first time: a file that is deleted later keeps it, and one that gets
 * another name has the first. */
static __always_inline void keep_name(struct file_key *key, struct inode *inode)
{
	u32 zero = 0;
	if (bpf_map_lookup_elem(&names, key))
		return;
	struct path *path = bpf_map_lookup_elem(&blank, &zero);
	if (!path)
		return;
	__builtin_memset(path, 0, sizeof(*path));
	struct dentry *dentry = first_name_of(inode);
	for (u32 i = 0; i < PARTS; i++) {
		if (!dentry)
			break;
		struct dentry *parent = BPF_CORE_READ(dentry, d_parent);
		path->parts[i].inode = BPF_CORE_READ(dentry, d_inode, i_ino);
		/* The root of a file system is its own parent, and its name is in no path. */
		if (parent == dentry)
			break;
		bpf_probe_read_kernel_str(path->parts[i].name, NAME_BYTES, BPF_CORE_READ(dentry, d_name.name));
		dentry = parent;
	}
	if (bpf_map_update_elem(&names, key, path, BPF_ANY))
		lose(LOST_NAME);
}

/* Above it a number is no page's address, but what to mask one with: on x86-64 and arm64 pages end before it. */
#define LEAST_MASK (-(1ull << 30))

/* The first of the pages that this one is one with, by its address. */
static __always_inline u64 first_page(u64 page)
{
	struct page *given = (void *)page;
	struct page___info *later = (void *)page;
	u64 info = 0;
	if (bpf_core_field_exists(given->compound_head))
		info = BPF_CORE_READ(given, compound_head);
	else if (bpf_core_field_exists(later->compound_info))
		info = BPF_CORE_READ(later, compound_info);
	if (!(info & 1))
		return page;
	return info >= LEAST_MASK ? page & info : info - 1;
}

/* The mapping that a page belongs to; 0 where it is no file's. index: in pages of the file */
static __always_inline u64 mapping_of(u64 page, u64 *index)
{
	if (!page)
		return 0;
	u64 first = first_page(page);
	struct folio *folio = (void *)first;
	u64 mapping = (u64)BPF_CORE_READ(folio, mapping);
	if (!mapping || mapping & NO_FILE_MAPPING)
		return 0;
	*index = BPF_CORE_READ(folio, index) + (page - first) / bpf_core_type_size(struct page);
	return mapping;
}

static __always_inline struct bio_vec *first_vector(struct bio *bio)
{
	u64 vectors = (u64)BPF_CORE_READ(bio, bi_io_vec);
	return vectors ? (void *)(vectors + BPF_CORE_READ(bio, bi_iter.bi_idx) * bpf_core_type_size(struct bio_vec)) : 0;
}

/* Bytes of the vector that a bio is at which it has done. */
static __always_inline u32 done_of(struct bio *bio)
{
	if (bpf_core_field_exists(bio->bi_iter.bi_bvec_done))
		return bio->bi_iter.bi_bvec_done;
	struct bvec_iter___offset *iter = (void *)&bio->bi_iter;
	return bpf_core_field_exists(iter->bi_offset) ? BPF_CORE_READ(iter, bi_offset) : 0;
}

/* The file that the first page of a bio belongs to; 0 where it is none's: memory of a process, of the kernel, of a file
 * that lies on no device. The kernel's own memory may look like anything: only a mapping that its host knows is one. */
static __always_inline struct inode *host_of(struct bio *bio, struct flight *flight)
{
	struct bio_vec *vector = bio->bi_io_vec;
	u64 page, at, index = 0;
	if (vector && !bio->bi_iter.bi_idx) {
		/* Most are so: loads cost less than reads through a helper. The page is calculated with, and no pointer. */
		page = (u64)BPF_CORE_READ(vector, bv_page);
		at = vector->bv_offset;
	} else {
		vector = first_vector(bio);
		page = (u64)BPF_CORE_READ(vector, bv_page);
		at = BPF_CORE_READ(vector, bv_offset);
	}
	u64 mapping = mapping_of(page, &index);
	struct inode *host = mapping ? BPF_CORE_READ((struct address_space *)mapping, host) : 0;
	if (!host || (u64)BPF_CORE_READ(host, i_mapping) != mapping)
		return 0;
	flight->mapping = mapping;
	flight->offset = (index << page_shift) + at + done_of(bio);
	return host;
}

/* The file of the direct call that a bio is of, by that alone; NULL for none. */
static __always_inline struct inode *direct_file(struct bio *bio, u64 *offset)
{
	u64 left;
	struct iomap_dio *call = direct_call(bio, &left);
	if (!call || !bpf_core_field_exists(call->iocb) || !bpf_core_field_exists(call->size))
		return 0;
	*offset = BPF_CORE_READ(call, iocb, ki_pos) + BPF_CORE_READ(call, size) - left;
	return BPF_CORE_READ(call, iocb, ki_filp, f_inode);
}

/* Gives a request to a file; disk: that it goes to; task: that made it. */
static __always_inline void find_file(struct flight *flight, struct bio *bio, struct gendisk *disk,
				      struct task_struct *task)
{
	u32 operation = flight->flags & REQ_OP_MASK;
	flight->found = NO_DATA;
	if (!flight->bytes || !bio || operation == REQ_OP_FLUSH || operation == REQ_OP_DISCARD ||
	    operation == REQ_OP_SECURE_ERASE || operation == REQ_OP_WRITE_ZEROES)
		return;
	flight->found = SWAP;
	if (flight->flags & swap_flag)
		return;
	struct inode *host = host_of(bio, flight);
	struct super_block *super = host ? BPF_CORE_READ(host, i_sb) : 0;
	flight->found = FILE_SYSTEM;
	if (super && BPF_CORE_READ(super, s_magic) == BDEVFS_MAGIC)
		return;
	struct gendisk *under = super ? BPF_CORE_READ(super, s_bdev, bd_disk) : 0;
	u64 offset = 0;
	struct inode *of_call = direct_by_bio ? direct_file(bio, &offset) : 0;
	struct direct *direct = direct_by_bio ? 0 : bpf_task_storage_get(&directs, task, 0, 0);
	if (direct && !direct->left)
		direct = 0;
	bool is_direct = direct_by_bio ? of_call != 0 : direct != 0;
	asm volatile("" : "+r"(is_direct)); /* no pointers combined, which the verifier refuses */
	/* A file's page within a direct call is what the caller reads into, such as the page cache above a loop device. */
	if (host && under && (under == disk || !is_direct)) {
		flight->found = CACHED;
		flight->file = key_of(host);
		keep_name(&flight->file, host);
		return;
	}
	flight->mapping = 0;
	flight->offset = 0;
	if (flight->flags & meta_flag)
		return;
	if (direct_by_bio) {
		flight->found = of_call ? DIRECT : NOT_FOUND;
		if (of_call) {
			flight->file = key_of(of_call);
			keep_name(&flight->file, of_call);
			flight->offset = offset;
		}
		return;
	}
	flight->found = direct ? DIRECT : NOT_FOUND;
	if (!direct)
		return;
	flight->file = direct->file;
	keep_name(&flight->file, (struct inode *)direct->inode);
	flight->offset = direct->offset;
	direct->offset += flight->bytes;
	direct->left = direct->left > flight->bytes ? direct->left - flight->bytes : 0;
}
