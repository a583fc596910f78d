/* An engine whose queries read by io_uring, or by libaio's calls, made of the system calls alone: uring FILE
 *
 * Files are read with O_DIRECT, 4 KiB at random places. A line on standard input is one order, answered by one line:
 *   "go"        queries of one read, until "stop" (answered with their number)
 *   "K N HOW"   N queries of K reads that are under way at once; answered with N. HOW:
 *     (nothing)   submitted and waited for in one call
 *     apart       submitted in one call and waited for in another
 *     large       one of them is of 1 MiB
 *     workers     by workers of the kernel
 *     polled      submitted by a thread of the kernel that looks for them
 *     libaio      by io_submit and io_getevents
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST = 64, BLOCK = 4096, LARGE = 1 << 20 };

struct ring {
	int fd;
	unsigned flags;
	unsigned *tail, *mask, *places, *flagged; /* of submissions */
	unsigned *done_head, *done_tail, *done_mask;
	struct io_uring_sqe *asked;
	struct io_uring_cqe *done;
};

static int file;
static size_t blocks;
static char *buffers;

static struct ring made(unsigned flags)
{
	struct io_uring_params set = { .flags = flags, .sq_thread_idle = 10000 };
	struct ring ring = { .fd = syscall(SYS_io_uring_setup, MOST, &set), .flags = flags };
	if (ring.fd < 0)
		exit(4);
	int how = PROT_READ | PROT_WRITE;
	char *sq = mmap(0, set.sq_off.array + MOST * sizeof(unsigned), how, MAP_SHARED, ring.fd, IORING_OFF_SQ_RING);
	char *cq = mmap(0, set.cq_off.cqes + set.cq_entries * sizeof(*ring.done), how, MAP_SHARED, ring.fd,
			IORING_OFF_CQ_RING);
	ring.asked = mmap(0, MOST * sizeof(*ring.asked), how, MAP_SHARED, ring.fd, IORING_OFF_SQES);
	if (sq == MAP_FAILED || cq == MAP_FAILED || ring.asked == MAP_FAILED)
		exit(4);
	ring.tail = (unsigned *)(sq + set.sq_off.tail);
	ring.mask = (unsigned *)(sq + set.sq_off.ring_mask);
	ring.flagged = (unsigned *)(sq + set.sq_off.flags);
	ring.places = (unsigned *)(sq + set.sq_off.array);
	ring.done_head = (unsigned *)(cq + set.cq_off.head);
	ring.done_tail = (unsigned *)(cq + set.cq_off.tail);
	ring.done_mask = (unsigned *)(cq + set.cq_off.ring_mask);
	ring.done = (struct io_uring_cqe *)(cq + set.cq_off.cqes);
	return ring;
}

/* Two of them are never side by side, so that no two become one request. */
static size_t anywhere(unsigned bytes)
{
	return (size_t)rand() % ((blocks - bytes / BLOCK) / 2) * 2 * BLOCK;
}

static void read_by_libaio(int reads)
{
	static aio_context_t context;
	static struct io_event done[MOST];
	struct iocb asked[MOST] = {}, *all[MOST];
	if (!context && syscall(SYS_io_setup, MOST, &context))
		exit(4);
	for (int i = 0; i < reads; i++) {
		all[i] = &asked[i];
		asked[i] = (struct iocb){
			.aio_lio_opcode = IOCB_CMD_PREAD,
			.aio_fildes = file,
			.aio_buf = (unsigned long)(buffers + i * BLOCK),
			.aio_nbytes = BLOCK,
			.aio_offset = anywhere(BLOCK),
		};
	}
	if (syscall(SYS_io_submit, context, reads, all) != reads)
		exit(5);
	if (syscall(SYS_io_getevents, context, reads, reads, done, 0) != reads)
		exit(6);
}

static void ask(struct ring *ring, int i, unsigned bytes, unsigned flags)
{
	unsigned tail = *ring->tail, place = tail & *ring->mask;
	ring->asked[place] = (struct io_uring_sqe){
		.opcode = IORING_OP_READ,
		.flags = flags,
		.fd = file,
		.off = anywhere(bytes),
		.addr = (unsigned long)(buffers + i * BLOCK),
		.len = bytes,
		.user_data = bytes,
	};
	ring->places[place] = place;
	__atomic_store_n(ring->tail, tail + 1, __ATOMIC_RELEASE);
}

static void enter(struct ring *ring, unsigned submit, unsigned wait)
{
	unsigned flags = wait ? IORING_ENTER_GETEVENTS : 0;
	if (ring->flags & IORING_SETUP_SQPOLL) {
		__sync_synchronize();
		submit = 0;
		if (*(volatile unsigned *)ring->flagged & IORING_SQ_NEED_WAKEUP)
			flags |= IORING_ENTER_SQ_WAKEUP;
		if (!flags)
			return;
	}
	long got;
	while ((got = syscall(SYS_io_uring_enter, ring->fd, submit, wait, flags, 0, 0)) < 0)
		;
	if (submit && got != submit)
		exit(5);
}

__attribute__((noinline)) void read_at_once(struct ring *ring, int reads, const char *how)
{
	if (!strcmp(how, "libaio")) {
		read_by_libaio(reads);
		return;
	}
	for (int i = 0; i < reads; i++) {
		int odd = i == reads / 2;
		ask(ring, i, odd && !strcmp(how, "large") ? LARGE : BLOCK, strcmp(how, "workers") ? 0 : IOSQE_ASYNC);
	}
	int apart = !strcmp(how, "apart");
	if (apart)
		enter(ring, reads, 0);
	enter(ring, apart ? 0 : reads, reads);
	unsigned head = *ring->done_head;
	for (int i = 0; i < reads; i++, head++) {
		/* Not all that are waited for need be there: a signal may have come. */
		while (head == __atomic_load_n(ring->done_tail, __ATOMIC_ACQUIRE))
			enter(ring, 0, 1);
		struct io_uring_cqe *done = &ring->done[head & *ring->done_mask];
		if (done->res != (int)done->user_data)
			exit(6);
	}
	__atomic_store_n(ring->done_head, head, __ATOMIC_RELEASE);
}

int main(int count, char **words)
{
	char line[64], how[64];
	int reads, n;
	if (count < 2 || (file = open(words[1], O_RDONLY | O_DIRECT)) < 0)
		return 2;
	blocks = lseek(file, 0, SEEK_END) / BLOCK;
	if (posix_memalign((void **)&buffers, BLOCK, MOST * BLOCK + LARGE))
		return 2;
	struct ring own = made(0), polled = {};
	setvbuf(stdout, 0, _IOLBF, 0);
	puts("ready");
	while (fgets(line, sizeof line, stdin)) {
		int done = 0;
		*how = 0;
		if (!strcmp(line, "go\n")) {
			struct pollfd input = { 0, POLLIN, 0 };
			for (; poll(&input, 1, 0) == 0; done++)
				read_at_once(&own, 1, "");
			if (!fgets(line, sizeof line, stdin))
				return 0;
		} else if (sscanf(line, "%d %d %63s", &reads, &n, how) >= 2) {
			if (!strcmp(how, "polled") && !polled.asked)
				polled = made(IORING_SETUP_SQPOLL);
			for (; done < n; done++)
				read_at_once(strcmp(how, "polled") ? &own : &polled, reads, how);
		}
		printf("%d\n", done);
	}
}
