/* A librocksdb whose Get takes MORE instructions than the one it is linked with. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

typedef void *get_pinned(void *, void *, const char *, size_t, char **);

static get_pinned *real;

__attribute__((constructor)) static void find(void) { real = (get_pinned *)dlsym(RTLD_NEXT, "rocksdb_get_pinned"); }

#define TEXT(x) #x
#define NOPS(n) ".rept " TEXT(n) "\n nop\n .endr"

void *rocksdb_get_pinned(void *db, void *options, const char *key, size_t size, char **error) {
  __asm__ volatile(NOPS(MORE));
  return real(db, options, key, size, error);
}
