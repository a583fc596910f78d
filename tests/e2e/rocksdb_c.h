/* What the tests' programs call of rocksdb/c.h, which the tests' hosts need not have. */
#include <stddef.h>

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
