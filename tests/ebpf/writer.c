/* writer DIRECTORY OPTIONS: writes when told to, and says what the engine itself measured of it.
 *
 * An order "THREADS WRITES SYNC NO_LOG BATCH NAP_US" is a line: so many threads write so many batches each, of so many keys;
 * each fdatasync of the process is followed by a nap. The answer: ns of the perf contexts, wal, memtable and delay, and of
 * the naps. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../e2e/rocksdb_c.h"

enum { MOST_THREADS = 64, TIMES_BUT_OF_MUTEXES = 4 };

static void *db;
static int writes, sync_each, no_log, batch_keys, nap_us;
static const char *const timers[] = { "write_wal_time = ", "write_memtable_time = ", "write_delay_time = " };
static unsigned long long measured[3], napped;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned long long now_ns(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

/* Taken by the engine instead of the C library's: the program's own symbols come first. */
int fdatasync(int file)
{
	int result = syscall(SYS_fdatasync, file);
	struct timespec nap = { 0, nap_us * 1000L };
	if (nap_us) {
		unsigned long long begun = now_ns();
		nanosleep(&nap, NULL);
		__atomic_fetch_add(&napped, now_ns() - begun, __ATOMIC_RELAXED);
	}
	return result;
}

static void *write_batches(void *number)
{
	char key[32], value[100] = "value", *error = NULL;
	void *options = rocksdb_writeoptions_create(), *batch = rocksdb_writebatch_create();
	rocksdb_writeoptions_set_sync(options, sync_each);
	rocksdb_writeoptions_disable_WAL(options, no_log);
	rocksdb_set_perf_level(TIMES_BUT_OF_MUTEXES);
	void *context = rocksdb_perfcontext_create();
	rocksdb_perfcontext_reset(context);
	for (int n = 0; n < writes && !error; n++) {
		rocksdb_writebatch_clear(batch);
		for (int k = 0; k < batch_keys; k++) {
			int length = snprintf(key, sizeof key, "%ld %d %d", (long)number, n, k);
			rocksdb_writebatch_put(batch, key, length, value, sizeof value);
		}
		rocksdb_write(db, options, batch, &error);
	}
	if (error) {
		fprintf(stderr, "%s\n", error);
		exit(3);
	}
	char *report = rocksdb_perfcontext_report(context, 0);
	pthread_mutex_lock(&lock);
	for (int i = 0; i < 3; i++) {
		char *found = strstr(report, timers[i]);
		measured[i] += found ? strtoull(found + strlen(timers[i]), NULL, 10) : 0;
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

int main(int count, char **words)
{
	char *error = NULL, line[256];
	if (count != 3)
		return 2;
	void *options = rocksdb_options_create(), *given = rocksdb_options_create();
	rocksdb_options_set_create_if_missing(options, 1);
	rocksdb_get_options_from_string(options, words[2], given, &error);
	if (!error)
		db = rocksdb_open(given, words[1], &error);
	if (error) {
		fprintf(stderr, "%s\n", error);
		return 3;
	}
	setlinebuf(stdout);
	puts("ready");
	while (fgets(line, sizeof line, stdin)) {
		pthread_t threads[MOST_THREADS];
		int users;
		if (sscanf(line, "%d %d %d %d %d %d", &users, &writes, &sync_each, &no_log, &batch_keys, &nap_us) != 6)
			return 2;
		memset(measured, 0, sizeof measured);
		napped = 0;
		for (long n = 0; n < users && n < MOST_THREADS; n++)
			pthread_create(&threads[n], NULL, write_batches, (void *)n);
		for (int n = 0; n < users && n < MOST_THREADS; n++)
			pthread_join(threads[n], NULL);
		nap_us = 0;
		printf("%llu %llu %llu %llu\n", measured[0], measured[1], measured[2], napped);
	}
	return 0;
}
