/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* The kernel's types, as far as we read them. Only names count: CO-RE relocates each field to where the running kernel
 * keeps it, so no vmlinux.h of some other kernel is carried along. */
#pragma once

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;
typedef u32 dev_t;
typedef _Bool bool;

enum { false = 0, true = 1 };

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_PROG_ARRAY = 3,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

enum { BPF_ANY = 0, BPF_NOEXIST = 1, BPF_EXIST = 2 };
enum { BPF_RB_NO_WAKEUP = 1 };
enum { BPF_F_NO_PREALLOC = 1U << 0, BPF_F_USER_STACK = 1U << 8, BPF_LOCAL_STORAGE_GET_F_CREATE = 1U << 0 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct gendisk {
	int major;
	int first_minor;
};

struct block_device {
	dev_t bd_dev;
	struct gendisk *bd_disk; /* from Linux 5.11 on */
};

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct super_block {
	dev_t s_dev;
	unsigned long s_magic;
	struct block_device *s_bdev;
};

struct address_space {
	struct inode *host;
};

struct inode {
	struct super_block *i_sb;
	struct address_space *i_mapping;
	unsigned long i_ino;
	u32 i_generation;
	struct hlist_head i_dentry;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
	union {
		struct hlist_node d_alias;
	} d_u;
};

/* From Linux 7.1 on the union has no name. */
struct dentry___no_union {
	struct hlist_node d_alias;
};

struct file {
	struct inode *f_inode;
};

struct kiocb {
	struct file *ki_filp;
	s64 ki_pos;
};

struct iov_iter {
	unsigned long count;
};

struct page {
	unsigned long compound_head;
};

/* From Linux 7.1 on: of a page that is not the first of several the first one's address plus 1, or what to mask its own
 * address with. */
struct page___info {
	unsigned long compound_info;
};

/* Where a page, or several that are one, belongs: the first of them has the same address. */
struct folio {
	struct address_space *mapping;
	unsigned long index;
};

struct bio_vec {
	struct page *bv_page;
	unsigned int bv_offset;
};

struct bvec_iter {
	u64 bi_sector;
	unsigned int bi_size;
	unsigned int bi_idx;
	unsigned int bi_bvec_done;
};

/* What it is called from Linux 7.3 on. */
struct bvec_iter___offset {
	unsigned int bi_offset;
};

struct kernfs_node {
	u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

struct blkcg {
	struct cgroup_subsys_state css;
};

struct blkcg_gq {
	struct blkcg *blkcg;
};

struct bio {
	struct bio *bi_next;
	struct block_device *bi_bdev;
	unsigned int bi_opf;
	struct bvec_iter bi_iter;
	struct bio_vec *bi_io_vec;
	const void *bi_end_io;
	void *bi_private;
	struct blkcg_gq *bi_blkg; /* where the kernel has groups for IO */
};

/* Before Linux 5.12. */
struct bio___with_disk {
	struct gendisk *bi_disk;
};

struct request_queue {
	struct gendisk *disk;
};

struct request {
	struct request_queue *q;
	unsigned int cmd_flags;
	unsigned int __data_len;
	unsigned int rq_flags;
	struct bio *bio;
	struct bio *biotail;
	struct block_device *part;
};

/* Before 5.17 the disk hung on the request. */
struct request___with_disk {
	struct gendisk *rq_disk;
};

struct sched_entity {
	u64 sum_exec_runtime;
};

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
};

struct task_struct {
	int pid;
	int tgid;
	unsigned int __state;
	unsigned int flags;
	void *worker_private;
	int on_cpu; /* not on kernels for one CPU */
	u64 start_time;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	struct signal_struct *signal;
	char comm[16];
	unsigned int in_iowait : 1;
	struct sched_entity se;
};

/* Before Linux 5.14. */
struct task_struct___before_5_14 {
	long state;
};

/* From Linux 7.2 on. */
struct task_struct___byte {
	__u8 on_cpu;
};

/* What a thread gave its system call, and where it made it. */
struct pt_regs {
	unsigned long sp;
#if defined(__TARGET_ARCH_x86)
	unsigned long ip, bp, si, dx, di, orig_ax, r14;
#elif defined(__TARGET_ARCH_arm64)
	u64 regs[31];
	u64 pc;
	s32 syscallno;
#endif
};

#pragma clang attribute pop

struct bpf_pidns_info {
	__u32 pid;
	__u32 tgid;
};
