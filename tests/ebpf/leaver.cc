// Calls that are left in ways that a return trampoline does not survive: a line is one order, answered by how many returned.
//   leaver throws | catches | jumps | switches
//   "go"  calls until "stop"        "N"  N calls, of which each 100th does it
#include <poll.h>
#include <setjmp.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#define OUT_OF_LINE __attribute__((noinline, noclone))
#define LAST asm volatile("" ::: "memory") /* no tail call: each has a frame of its own */

static const char* mode;
static long calls, returned;
static jmp_buf back;

constexpr int kRoutines = 4, kStack = 1 << 16;
static ucontext_t outside, routines[kRoutines];
static int current, wanted;

static void next_routine() {
  int from = current;
  current = (current + 1) % kRoutines;
  swapcontext(&routines[from], &routines[current]);
}

OUT_OF_LINE static void leave(long n) {
  if (n % 100 == 99) {
    if (!strcmp(mode, "throws") || !strcmp(mode, "catches")) throw std::runtime_error("left");
    if (!strcmp(mode, "jumps")) longjmp(back, 1);
  }
  if (!strcmp(mode, "switches") && wanted) next_routine();
  LAST;
}

namespace store {
OUT_OF_LINE void prepare() { LAST; }
OUT_OF_LINE long get(long n) {
  prepare();
  leave(n);
  LAST;
  return n;
}
OUT_OF_LINE long get_all(long n) noexcept {
  try {
    leave(n);
  } catch (const std::runtime_error&) {
    LAST;
  }
  LAST;
  return n;
}
}  // namespace store

static void call() {
  long n = calls++;
  if (!strcmp(mode, "catches")) {
    store::get_all(n);
  } else if (!strcmp(mode, "jumps")) {
    if (setjmp(back)) return;
    store::get(n);
  } else {
    try {
      store::get(n);
    } catch (const std::runtime_error&) {
      return;
    }
  }
  returned++;
}

static void routine() {
  while (true) {
    while (wanted > 0) wanted--, call();
    if (current) {
      next_routine();
    } else {
      swapcontext(&routines[0], &outside);
    }
  }
}

static void carry_out(int n) {
  calls = 0;
  if (strcmp(mode, "switches")) {
    while (n--) call();
    return;
  }
  wanted = n;
  current = 0;
  swapcontext(&outside, &routines[0]);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  mode = argv[1];
  for (auto& one : routines) {
    getcontext(&one);
    one.uc_stack.ss_sp = malloc(kStack);
    one.uc_stack.ss_size = kStack;
    makecontext(&one, routine, 0);
  }
  setvbuf(stdout, nullptr, _IOLBF, 0);
  puts("ready");
  char line[64];
  while (fgets(line, sizeof line, stdin)) {
    long before = returned;
    if (!strcmp(line, "go\n")) {
      pollfd input{0, POLLIN, 0};
      while (poll(&input, 1, 0) == 0) carry_out(101);
      if (!fgets(line, sizeof line, stdin)) return 0;
    } else {
      carry_out(atoi(line));
    }
    printf("%ld\n", returned - before);
  }
}
