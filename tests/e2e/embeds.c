/* embeds DIRECTORY: a program with RocksDB in it that forks: two processes read a database each, for ever. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of rocksdb/c.h, which the tests' hosts need not have. */
void *rocksdb_options_create(void);
void rocksdb_options_set_create_if_missing(void *, unsigned char);
void *rocksdb_open(const void *, const char *, char **);
void *rocksdb_writeoptions_create(void);
void *rocksdb_readoptions_create(void);
void *rocksdb_flushoptions_create(void);
void rocksdb_flush(void *, const void *, char **);
void rocksdb_put(void *, const void *, const char *, size_t, const char *, size_t, char **);
char *rocksdb_get(void *, const void *, const char *, size_t, size_t *, char **);
void rocksdb_free(void *);

int main(int count, char **words)
{
	char place[4096], key[16], *error = NULL;
	size_t length;
	if (count != 2)
		return 2;
	snprintf(place, sizeof place, "%s/%s", words[1], fork() ? "parent" : "child");
	void *options = rocksdb_options_create();
	rocksdb_options_set_create_if_missing(options, 1);
	void *db = rocksdb_open(options, place, &error);
	if (error) {
		fprintf(stderr, "%s\n", error);
		return 3;
	}
	void *writes = rocksdb_writeoptions_create(), *reads = rocksdb_readoptions_create();
	for (int n = 0; n < 10000; n++) {
		snprintf(key, sizeof key, "%015d", n);
		rocksdb_put(db, writes, key, sizeof key, key, sizeof key, &error);
	}
	rocksdb_flush(db, rocksdb_flushoptions_create(), &error);
	for (unsigned n = 0;; n++) {
		snprintf(key, sizeof key, "%015u", n * 7919 % 10000);
		rocksdb_free(rocksdb_get(db, reads, key, sizeof key, &length, &error));
	}
}
