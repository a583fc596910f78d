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
	struct hlist_node *alias = BPF_CORE_READ(inode, i_dentry.first);
	struct dentry *dentry = alias ? (void *)alias - bpf_core_field_offset(struct dentry, d_u.d_alias) : 0;
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

/* The mapping that a page belongs to; 0 where it is no file's. index: in pages of the file */
static __always_inline u64 mapping_of(u64 page, u64 *index)
{
	u64 first = page, head = 0;
	struct page *given = (void *)page;
	if (!page)
		return 0;
	if (bpf_core_field_exists(given->compound_head))
		head = BPF_CORE_READ(given, compound_head);
	if (head & 1)
		first = head - 1;
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
	flight->offset = (index << page_shift) + at + bio->bi_iter.bi_bvec_done;
	return host;
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
	struct direct *direct = bpf_task_storage_get(&directs, task, 0, 0);
	if (direct && !direct->left)
		direct = 0;
	/* A file's page within a direct call is what the caller reads into, such as the page cache above a loop device. */
	if (host && under && (under == disk || !direct)) {
		flight->found = CACHED;
		flight->file = key_of(host);
		keep_name(&flight->file, host);
		return;
	}
	flight->mapping = 0;
	flight->offset = 0;
	if (flight->flags & meta_flag)
		return;
	flight->found = NOT_FOUND;
	if (!direct)
		return;
	flight->found = DIRECT;
	flight->file = direct->file;
	keep_name(&flight->file, (struct inode *)direct->inode);
	flight->offset = direct->offset;
	direct->offset += flight->bytes;
	direct->left = direct->left > flight->bytes ? direct->left - flight->bytes : 0;
}
