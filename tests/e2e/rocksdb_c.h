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
void rocksdb_get_options_from_string(const void *, const char *, void *, char **);
char *rocksdb_property_value(void *, const char *);
void rocksdb_writeoptions_set_sync(void *, unsigned char);
void rocksdb_writeoptions_disable_WAL(void *, int);
void *rocksdb_writebatch_create(void);
void rocksdb_writebatch_clear(void *);
void rocksdb_writebatch_put(void *, const char *, size_t, const char *, size_t);
void rocksdb_write(void *, const void *, void *, char **);
void rocksdb_set_perf_level(int);
void *rocksdb_perfcontext_create(void);
void rocksdb_perfcontext_reset(void *);
char *rocksdb_perfcontext_report(void *, unsigned char);
