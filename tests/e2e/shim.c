// Preloaded into a client: each read call first spins, or one in SHIM_SLEEP_EVERY sleeps, for so many nanoseconds.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static ssize_t (*real)(int, void*, size_t, off_t);
static uint64_t ticks;
static struct timespec sleeps;
static long every = 1;
static _Thread_local long calls;

static uint64_t nanoseconds(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * 1000000000ULL + at.tv_nsec;
}

__attribute__((constructor)) static void begin(void) {
  const char* spin = getenv("SHIM_SPIN_NS");
  const char* sleep = getenv("SHIM_SLEEP_NS");
  real = (ssize_t(*)(int, void*, size_t, off_t))dlsym(RTLD_NEXT, "pread64");
  const char* seldom = getenv("SHIM_SLEEP_EVERY");
  sleeps.tv_nsec = sleep ? atol(sleep) : 0;
  every = seldom ? atol(seldom) : 1;
  if (spin && atol(spin)) {
    // The counter is read in the function itself: a clock's own frames would hide whose time it is.
    uint64_t begun = nanoseconds(), first = __builtin_ia32_rdtsc();
    while (nanoseconds() - begun < 20000000) {
    }
    uint64_t last = __builtin_ia32_rdtsc();
    ticks = (uint64_t)((double)(last - first) * atol(spin) / (nanoseconds() - begun));
  }
}

ssize_t pread64(int fd, void* buffer, size_t count, off_t offset) {
  if (sleeps.tv_nsec && ++calls % every == 0) nanosleep(&sleeps, NULL);
  for (uint64_t first = __builtin_ia32_rdtsc(); __builtin_ia32_rdtsc() - first < ticks;) {
  }
  ssize_t got = real(fd, buffer, count, offset);
  __asm__ volatile("");  // no tail call: the frame stays
  return got;
}

// By which name a library calls it depends on how it was compiled.
ssize_t pread(int fd, void* buffer, size_t count, off_t offset) __attribute__((alias("pread64")));
