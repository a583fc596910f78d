// A process whose threads each do one thing in a function of their own, for tests of the samplers.
//
// threads MODE [COUNT]
//   mixed  one thread waits for a mutex (wait_for_lock), one burns (burn), one reads a pipe (read_pipe)
//   churn  COUNT threads at a time, each ends after a moment and another begins
//   epoll  one thread waits in epoll_wait; ends with 7 if that is interrupted
//   crowd  COUNT threads burn and sleep by turns
//   hollow the same, each under a frame of 12 KiB that is never written to
//   stuck  one thread waits in state D (for a child of vfork) until a byte comes on standard input, then in S
//   leaderless  one thread burns, the first one has ended
//
// Prints `ready` when all have begun.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t begun;
static volatile uint64_t work;

static void begin(const char* name) {
  prctl(PR_SET_NAME, name);
  pthread_barrier_wait(&begun);
}

__attribute__((noinline)) void* wait_for_lock(void* unused) {
  begin("a;b\nc d) R 1");
  pthread_mutex_lock(&held);
  work++;
  return unused;
}

__attribute__((noinline)) void* burn(void* unused) {
  begin("\xff\xfe hot");
  for (;;) work++;
  return unused;
}

__attribute__((noinline)) void* read_pipe(void* fds) {
  char byte;
  begin("Thread 9 (LWP 1");
  while (read(((int*)fds)[0], &byte, 1) >= 0) work++;
  return NULL;
}

__attribute__((noinline)) void* short_life(void* unused) {
  for (volatile int i = 0; i < 20000; i++) work++;
  usleep(500);
  return unused;
}

__attribute__((noinline)) void* one_of_many(void* unused) {
  begin("crowd");
  for (;;) {
    for (volatile int i = 0; i < 20000; i++) work++;
    usleep(1000);
  }
  return unused;
}

__attribute__((noinline)) static void under(const volatile char* unused) {
  if (unused != NULL) one_of_many(NULL);
  work++;
}

__attribute__((noinline)) void* over_a_hole(void* unused) {
  volatile char never_written[12288];
  under(never_written);
  return unused;
}

__attribute__((noinline)) void* stuck(void* unused) {
  char byte;
  begin("stuck");
  // The parent of a vfork sleeps uninterruptibly until its child ends.
  if (vfork() == 0) _exit((int)read(0, &byte, 1));
  for (;;) pause();
  return unused;
}

__attribute__((noinline)) void* wait_for_events(void* unused) {
  int poll = epoll_create1(0);
  struct epoll_event event;
  begin("epoll");
  if (epoll_wait(poll, &event, 1, -1) < 0 && errno == EINTR) _exit(7);
  return unused;
}

static pthread_t start(void* (*body)(void*), void* argument) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, body, argument) != 0) _exit(8);
  return thread;
}

static void ready(void) {
  puts("ready");
  fflush(stdout);
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "mixed";
  int count = argc > 2 ? atoi(argv[2]) : 1;
  int fds[2];
  if (strcmp(mode, "mixed") == 0) {
    if (pipe(fds) != 0) return 8;
    pthread_barrier_init(&begun, NULL, 4);
    pthread_mutex_lock(&held);
    start(wait_for_lock, NULL);
    start(burn, NULL);
    start(read_pipe, fds);
    pthread_barrier_wait(&begun);
  } else if (strcmp(mode, "churn") == 0) {
    ready();
    pthread_t* threads = calloc((size_t)count, sizeof *threads);
    for (;;) {
      for (int i = 0; i < count; i++) threads[i] = start(short_life, NULL);
      for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    }
  } else if (strcmp(mode, "leaderless") == 0 || strcmp(mode, "stuck") == 0) {
    pthread_barrier_init(&begun, NULL, 2);
    start(mode[0] == 'l' ? burn : stuck, NULL);
    pthread_barrier_wait(&begun);
    if (mode[0] == 'l') {
      ready();
      pthread_exit(NULL);
    }
  } else if (strcmp(mode, "epoll") == 0) {
    pthread_barrier_init(&begun, NULL, 2);
    start(wait_for_events, NULL);
    pthread_barrier_wait(&begun);
  } else {
    pthread_barrier_init(&begun, NULL, (unsigned)count + 1);
    void* (*body)(void*) = strcmp(mode, "hollow") == 0 ? over_a_hole : one_of_many;
    for (int i = 0; i < count; i++) start(body, NULL);
    pthread_barrier_wait(&begun);
  }
  ready();
  for (;;) pause();
}
