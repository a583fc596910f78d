/* Threads that wait in known ways, for tests: waiting SECONDS MODE...
 *
 *   sleep    sleeps 2 ms at a time
 *   lock     two threads take turns with a mutex, each holding it for 2 ms
 *   spin     never waits
 *   forever  sleeps once, for all the time
 *   churn    64 threads, each of them alive for about 20 ms, one after the other in eights
 *   hostile  sleeps under a name that is not a name
 *
 * Prints its pid once all threads run. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static volatile int over;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile unsigned long turns;

/* libc keeps no frame pointers, so that the caller of its functions is lost: these three, and not the threads'. */
static __attribute__((noinline)) void nap(long ns)
{
	struct timespec time = { ns / 1000000000, ns % 1000000000 };
	nanosleep(&time, 0);
}

static __attribute__((noinline)) void take(void)
{
	pthread_mutex_lock(&mutex);
	turns++;
}

static __attribute__((noinline)) void give(void)
{
	pthread_mutex_unlock(&mutex);
	turns++;
}

static void *sleeps(void *unused)
{
	while (!over)
		nap(2000000);
	return unused;
}

static void *spins(void *unused)
{
	while (!over)
		turns++;
	return unused;
}

static void *locks(void *unused)
{
	while (!over) {
		take();
		nap(2000000);
		give();
		nap(10000);
	}
	return unused;
}

static void *forever(void *unused)
{
	nap(3600L * 1000000000);
	return unused;
}

static void *hostile(void *unused)
{
	prctl(PR_SET_NAME, "a;b 1\n-9/2 \xff[k");
	return sleeps(unused);
}

static void *brief(void *unused)
{
	for (int i = 0; i < 10; i++)
		nap(2000000);
	return unused;
}

static void *churns(void *unused)
{
	while (!over) {
		pthread_t threads[8];
		for (int round = 0; round < 8; round++) {
			for (int i = 0; i < 8; i++)
				pthread_create(&threads[i], 0, brief, 0);
			for (int i = 0; i < 8; i++)
				pthread_join(threads[i], 0);
		}
	}
	return unused;
}

int main(int count, char **words)
{
	static const struct {
		const char *name;
		void *(*run)(void *);
		int threads;
	} modes[] = {
		{ "sleep", sleeps, 1 }, { "lock", locks, 2 },     { "spin", spins, 1 },
		{ "forever", forever, 1 }, { "churn", churns, 1 }, { "hostile", hostile, 1 },
	};
	pthread_t thread;
	for (int i = 2; i < count; i++)
		for (unsigned m = 0; m < sizeof(modes) / sizeof(*modes); m++)
			for (int n = 0; !strcmp(words[i], modes[m].name) && n < modes[m].threads; n++)
				pthread_create(&thread, 0, modes[m].run, 0);
	printf("%d\n", getpid());
	fflush(stdout);
	nap((long)(atof(words[1]) * 1e9));
	over = 1;
	/* Those that sleep forever end with the process. */
	_exit(0);
}
