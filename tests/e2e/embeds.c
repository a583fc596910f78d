/* embeds DIRECTORY: a program with RocksDB in it that forks: two processes read a database each, for ever. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rocksdb_c.h"

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
