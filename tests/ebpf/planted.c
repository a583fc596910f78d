// What slows single reads down, planted where an engine reads (LD_PRELOAD; with frame pointers, so that it is seen on stacks).
//   PLANTED=nap   one pread in a hundred, by chance, sleeps 5 ms first
//   PLANTED=spin  one in a hundred computes for 5 ms
//   PLANTED=lock  each pread takes a mutex, which a thread called `holder` has for 2 ms, every 50 ms
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define OUT_OF_LINE __attribute__((noinline, noclone))
#define LAST asm volatile("" ::: "memory") /* no tail call: the caller is to be on the stack */

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static enum { NOTHING, NAP, SPIN, LOCK } planted;
static __thread unsigned seed;

static void pause_ms(long ms)
{
	struct timespec time = { 0, ms * 1000000 };
	nanosleep(&time, 0);
	LAST;
}

OUT_OF_LINE void planted_nap(void)
{
	pause_ms(5);
	LAST;
}

OUT_OF_LINE void planted_spin(void)
{
	struct timespec begun, now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begun);
	do {
		for (volatile int turn = 0; turn < 10000; turn++)
			;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	} while ((now.tv_sec - begun.tv_sec) * 1000000000L + now.tv_nsec - begun.tv_nsec < 5000000);
	LAST;
}

/* The C library's lock keeps no frame pointer, so that its caller is on no stack. */
OUT_OF_LINE void take_it(void)
{
	pthread_mutex_lock(&held);
	pthread_mutex_unlock(&held);
	LAST;
}

OUT_OF_LINE void planted_lock(void)
{
	take_it();
	LAST;
}

static void *hold(void *unused)
{
	prctl(PR_SET_NAME, "holder");
	for (;;) {
		pthread_mutex_lock(&held);
		pause_ms(2);
		pthread_mutex_unlock(&held);
		pause_ms(50);
	}
	return unused;
}

__attribute__((constructor)) static void begin(void)
{
	const char *what = getenv("PLANTED");
	pthread_t thread;
	planted = !what ? NOTHING : !strcmp(what, "nap") ? NAP : !strcmp(what, "spin") ? SPIN : !strcmp(what, "lock") ? LOCK : NOTHING;
	if (planted == LOCK)
		pthread_create(&thread, 0, hold, 0);
}

OUT_OF_LINE ssize_t pread64(int file, void *to, size_t size, off_t at)
{
	if (!seed)
		seed = (unsigned)syscall(SYS_gettid);
	if (planted != LOCK && rand_r(&seed) % 100 == 0) {
		if (planted == NAP)
			planted_nap();
		else if (planted == SPIN)
			planted_spin();
	} else if (planted == LOCK)
		planted_lock();
	ssize_t got = syscall(SYS_pread64, file, to, size, at);
	LAST;
	return got;
}

ssize_t pread(int file, void *to, size_t size, off_t at)
{
	ssize_t got = pread64(file, to, size, at);
	LAST;
	return got;
}
