/* Threads that wait in known ways, for tests: waiting SECONDS MODE...
 *
 *   sleep    sleeps 2 ms at a time
 *   lock     two threads take turns with a mutex, each holding it for 2 ms
 *   turns    for a mutex that is held for 4 ms, for a condition that comes after 2 ms, for the end of a thread that
 *            lives for 1 ms; and so on
 *   rwlock, semaphore, timed, priority, own
 *            wait for 2 ms at a time: for a reader-writer lock, a semaphore, a mutex with a time limit, one that inherits
 *            priorities, a futex that the C library knows nothing of
 *   spin     never waits
 *   forever  sleeps once, for all the time
 *   parked, joins, taken
 *            wait for all the time: for a condition, for a thread that sleeps forever, for a mutex
 *   churn    64 threads, each of them alive for about 20 ms, one after the other in eights
 *   hostile  sleeps under a name that is not a name
 *
 * Prints its pid once all threads run. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
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

/* Two threads take it in turns, each of which has it for 2 ms. */
#define IN_TURNS(name, takes, gives)          \
	static void *name(void *unused)       \
	{                                     \
		while (!over) {               \
			takes;                \
			nap(2000000);         \
			gives;                \
			nap(10000);           \
		}                             \
		return unused;                \
	}

static const struct timespec far_away = { 1L << 40, 0 };
static pthread_mutex_t priority = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

IN_TURNS(locks, take(), give())
IN_TURNS(rwlocks, pthread_rwlock_wrlock(&rwlock), pthread_rwlock_unlock(&rwlock))
IN_TURNS(timed, pthread_mutex_timedlock(&mutex, &far_away), pthread_mutex_unlock(&mutex))
IN_TURNS(priorities, pthread_mutex_lock(&priority), pthread_mutex_unlock(&priority))

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;
static volatile int is_held, is_news;
static volatile pid_t waiter;

/* Begins to count when `waiter` waits: on a busy host it may come late. */
static void nap_once_it_waits(long ns)
{
	char name[64], line[256];
	const char *state;

	snprintf(name, sizeof(name), "/proc/self/task/%d/stat", waiter);
	do {
		FILE *file = fopen(name, "r");
		size_t length = file ? fread(line, 1, sizeof(line) - 1, file) : 0;

		line[length] = 0;
		if (file)
			fclose(file);
		state = strrchr(line, ')');
	} while (state && state[2] != 'S');
	nap(ns);
}

static void *holds(void *unused)
{
	pthread_mutex_lock(&held);
	is_held = 1;
	nap_once_it_waits(4000000);
	pthread_mutex_unlock(&held);
	return unused;
}

static void *tells(void *unused)
{
	nap_once_it_waits(2000000);
	pthread_mutex_lock(&held);
	is_news = 1;
	pthread_cond_signal(&news);
	pthread_mutex_unlock(&held);
	return unused;
}

static void *lives(void *unused)
{
	nap_once_it_waits(1000000);
	return unused;
}

static void *turns_(void *unused)
{
	prctl(PR_SET_NAME, "turns");
	waiter = syscall(SYS_gettid);
	while (!over) {
		pthread_t other;
		is_held = is_news = 0;
		pthread_create(&other, 0, holds, 0);
		while (!is_held)
			;
		pthread_mutex_lock(&held);
		pthread_mutex_unlock(&held);
		pthread_join(other, 0);
		pthread_mutex_lock(&held);
		pthread_create(&other, 0, tells, 0);
		while (!is_news)
			pthread_cond_wait(&news, &held);
		pthread_mutex_unlock(&held);
		pthread_join(other, 0);
		pthread_create(&other, 0, lives, 0);
		pthread_join(other, 0);
	}
	return unused;
}

/* One thread gives every 2 ms, the other takes. */
static sem_t semaphore;
static int own;

static void *posts(void *unused)
{
	for (; !over; nap(2000000)) {
		sem_post(&semaphore);
		__atomic_add_fetch(&own, 1, __ATOMIC_SEQ_CST);
		syscall(SYS_futex, &own, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
	}
	return unused;
}

static void *semaphores(void *unused)
{
	pthread_t other;
	sem_init(&semaphore, 0, 0);
	pthread_create(&other, 0, posts, 0);
	while (!over)
		sem_wait(&semaphore);
	return unused;
}

static void *owns(void *unused)
{
	pthread_t other;
	pthread_create(&other, 0, posts, 0);
	while (!over)
		syscall(SYS_futex, &own, FUTEX_WAIT_PRIVATE, __atomic_load_n(&own, __ATOMIC_SEQ_CST), 0, 0, 0);
	return unused;
}

static void *forever(void *unused)
{
	nap(3600L * 1000000000);
	return unused;
}

static void *parked(void *unused)
{
	static pthread_mutex_t of_none = PTHREAD_MUTEX_INITIALIZER;
	static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
	prctl(PR_SET_NAME, "parked");
	pthread_mutex_lock(&of_none);
	while (!over)
		pthread_cond_wait(&never, &of_none);
	return unused;
}

static void *joins(void *unused)
{
	pthread_t other;
	pthread_create(&other, 0, forever, 0);
	prctl(PR_SET_NAME, "joins");
	pthread_join(other, 0);
	return unused;
}

static void *taken(void *unused)
{
	static pthread_mutex_t for_ever = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&for_ever);
	prctl(PR_SET_NAME, "taken");
	pthread_mutex_lock(&for_ever);
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
		{ "sleep", sleeps, 1 }, { "lock", locks, 2 }, { "spin", spins, 1 }, { "forever", forever, 1 },
		{ "churn", churns, 1 }, { "hostile", hostile, 1 }, { "turns", turns_, 1 }, { "rwlock", rwlocks, 2 },
		{ "semaphore", semaphores, 1 }, { "timed", timed, 2 }, { "priority", priorities, 2 }, { "own", owns, 1 },
		{ "parked", parked, 1 }, { "joins", joins, 1 }, { "taken", taken, 1 },
	};
	pthread_t thread;
	pthread_mutexattr_t inherits;
	pthread_mutexattr_init(&inherits);
	pthread_mutexattr_setprotocol(&inherits, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&priority, &inherits);
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
