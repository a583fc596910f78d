// What a stop may break, for tests of the samplers: each thing is done over and over in threads of its own, and counted
// where it did not end as it does without a sampler.
//
// calls MODE SECONDS
//   calls     system calls with a timeout (2 ms, each eighth 150 ms) that a stop would end, or begin anew for ever
//   filtered  the same under a seccomp filter that kills who calls restart_syscall
//   signals   queued real-time signals, timers on one, setuid and pthread_cancel in a process with threads
//
// Prints `ready`, and at its end a line for each: NAME TIMES WRONG. It does not end where one of them hangs. SIGTERM
// ends it as the end of its seconds does.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/aio_abi.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000L
#define SENT 20000

static struct timespec until;
static volatile int ended;
static volatile sig_atomic_t ended_early;

static void must(int fine, const char* what) {
  if (fine) return;
  perror(what);
  _exit(8);
}

static struct timespec in(clockid_t clock, long ms) {
  struct timespec time;
  clock_gettime(clock, &time);
  time.tv_nsec += ms % 1000 * MS;
  time.tv_sec += ms / 1000 + time.tv_nsec / (1000 * MS);
  time.tv_nsec %= 1000 * MS;
  return time;
}

static void end_soon(int number) {
  (void)number;
  ended_early = 1;
}

static int is_over(void) {
  if (ended_early) return 1;
  struct timespec now = in(CLOCK_MONOTONIC, 0);
  return now.tv_sec > until.tv_sec || (now.tv_sec == until.tv_sec && now.tv_nsec >= until.tv_nsec);
}

// How a call is to end: with this value, or with this error.
static int returns(long found, long wanted) { return found == wanted; }
static int fails(long found, int error) { return found == -1 && errno == error; }

static __thread int ends[2] = {-1, -1};

static void set_timeout(int socket, int option, long ms) {
  struct timeval timeout = {ms / 1000, ms % 1000 * 1000};
  must(setsockopt(socket, SOL_SOCKET, option, &timeout, sizeof timeout) == 0, "setsockopt");
}

static int empty_socket(long ms) {
  if (ends[0] < 0) must(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
  set_timeout(ends[0], SO_RCVTIMEO, ms);
  return ends[0];
}

static int full_socket(long ms) {
  static __thread char bytes[1 << 16];
  if (ends[0] < 0) must(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
  while (send(ends[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0) continue;
  set_timeout(ends[0], SO_SNDTIMEO, ms);
  return ends[0];
}

static int listening_socket(struct sockaddr_un* address) {
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  socklen_t size = sizeof(sa_family_t);
  memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  // The kernel gives it an abstract name.
  must(bind(fd, (struct sockaddr*)address, size) == 0 && listen(fd, 0) == 0, "listen");
  return fd;
}

static aio_context_t aio(void) {
  static __thread aio_context_t context;
  if (!context) must(syscall(SYS_io_setup, 8, &context) == 0, "io_setup");
  return context;
}

// A call that takes its time from `ms`, or from `time`.
#define CALL(name, ends) \
  static int name(long ms) { \
    struct timespec time = {0, ms * MS}; \
    char byte = 'x'; \
    (void)time, (void)byte; \
    return ends; \
  }

CALL(a_recv, fails(recv(empty_socket(ms), &byte, 1, 0), EAGAIN))
CALL(a_read, fails(read(empty_socket(ms), &byte, 1), EAGAIN))
CALL(a_recvmsg, fails(recvmsg(empty_socket(ms), &(struct msghdr){0}, 0), EAGAIN))
CALL(a_send, fails(send(full_socket(ms), &byte, 1, 0), EAGAIN))
CALL(a_write, fails(write(full_socket(ms), &byte, 1), EAGAIN))
CALL(a_nanosleep, returns(nanosleep(&time, NULL), 0))
CALL(a_poll, returns(poll(NULL, 0, (int)ms), 0))
CALL(a_ppoll, returns(ppoll(NULL, 0, &time, NULL), 0))
CALL(a_sigtimedwait, fails(sigtimedwait(&(sigset_t){0}, NULL, &time), EAGAIN))
CALL(a_futex, fails(syscall(SYS_futex, &(int){1}, FUTEX_WAIT_PRIVATE, 1, &time, NULL, 0), ETIMEDOUT))
CALL(an_io_getevents, returns(syscall(SYS_io_getevents, aio(), 1, 1, &(struct io_event){0}, &time), 0))
CALL(an_io_pgetevents, returns(syscall(SYS_io_pgetevents, aio(), 1, 1, &(struct io_event){0}, &time, NULL), 0))

static int an_accept(long ms) {
  static __thread struct sockaddr_un address;
  if (ends[0] < 0) ends[0] = listening_socket(&address);
  set_timeout(ends[0], SO_RCVTIMEO, ms);
  return fails(accept(ends[0], NULL, NULL), EAGAIN);
}
static int a_connect(long ms) {
  static __thread struct sockaddr_un address;
  static __thread socklen_t size = sizeof address;
  if (ends[0] < 0) {
    ends[0] = listening_socket(&address);
    must(getsockname(ends[0], (struct sockaddr*)&address, &size) == 0, "getsockname");
    for (int room = 1; room; ends[1] = room ? -1 : ends[1]) {
      ends[1] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
      room = connect(ends[1], (struct sockaddr*)&address, size) == 0;
    }
    close(ends[1]);
    ends[1] = socket(AF_UNIX, SOCK_STREAM, 0);
  }
  set_timeout(ends[1], SO_SNDTIMEO, ms);
  return fails(connect(ends[1], (struct sockaddr*)&address, size), EAGAIN);
}
static int an_epoll_wait(long ms) {
  struct epoll_event event;
  if (ends[0] < 0) ends[0] = epoll_create1(0);
  return returns(epoll_wait(ends[0], &event, 1, (int)ms), 0);
}
static int a_semtimedop(long ms) {
  static __thread int set = -1;
  struct timespec timeout = {0, ms * MS};
  struct sembuf take = {0, -1, 0};
  if (set < 0) must((set = semget(IPC_PRIVATE, 1, 0600)) >= 0, "semget");
  int fine = fails(semtimedop(set, &take, 1, &timeout), EAGAIN);
  semctl(set, 0, IPC_RMID);
  set = -1;
  return fine;
}
static int an_io_uring_enter(long ms) {
  static __thread int ring = -1;
  struct io_uring_params parameters = {0};
  struct __kernel_timespec timeout = {0, ms * MS};
  struct io_uring_getevents_arg extra = {.ts = (uintptr_t)&timeout};
  if (ring == -1 && (ring = (int)syscall(SYS_io_uring_setup, 4, &parameters)) < 0) ring = -2;
  if (ring == -2) return usleep(1000) == 0;  // not allowed here
  unsigned flags = IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG;
  return fails(syscall(SYS_io_uring_enter, ring, 0, 1, flags, &extra, sizeof extra), ETIME);
}
static int a_clock_nanosleep(long ms) {
  struct timespec time = in(CLOCK_MONOTONIC, ms);
  return returns(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL), 0);
}
static int a_condition(long ms) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  struct timespec time = in(CLOCK_REALTIME, ms);
  pthread_mutex_lock(&mutex);
  int found;
  // It may wake up for no reason; a sampler gives it none.
  while ((found = pthread_cond_timedwait(&condition, &mutex, &time)) == 0) continue;
  return found == ETIMEDOUT;
}

static pthread_t receiver;
static volatile long received, ticks;

static void count_received(int signal) { received += signal == SIGRTMIN + 3; }
static void count_tick(int signal) { ticks += signal == SIGRTMIN + 4; }
static void end_receiver(int signal) { ended = signal; }

static void* receive(void* unused) {
  sigset_t mine;
  sigemptyset(&mine);
  sigaddset(&mine, SIGRTMIN + 3);
  sigaddset(&mine, SIGRTMIN + 5);
  pthread_sigmask(SIG_UNBLOCK, &mine, NULL);
  while (!ended) usleep(1000);
  return unused;
}
static int a_queued_signal(long number) {
  (void)number;
  // Where the queue is full there is nothing wrong: the receiver is behind.
  while (pthread_sigqueue(receiver, SIGRTMIN + 3, (union sigval){0}) == EAGAIN) sched_yield();
  return 1;
}
// glibc 2.36 hangs by itself where a thread ends during setuid.
static pthread_mutex_t no_thread_ends = PTHREAD_MUTEX_INITIALIZER;

static int a_setuid(long ms) {
  (void)ms;
  pthread_mutex_lock(&no_thread_ends);
  int found = setuid(getuid());
  pthread_mutex_unlock(&no_thread_ends);
  return returns(found, 0);
}
static void* wait_for_ever(void* unused) {
  for (;;) pause();
  return unused;
}
static int a_cancel(long ms) {
  pthread_t thread;
  void* found;
  (void)ms;
  pthread_mutex_lock(&no_thread_ends);
  must(pthread_create(&thread, NULL, wait_for_ever, NULL) == 0, "pthread_create");
  pthread_cancel(thread);
  pthread_join(thread, &found);
  pthread_mutex_unlock(&no_thread_ends);
  return found == PTHREAD_CANCELED;
}
static int a_tick(long ms) {
  static timer_t timer;
  static int begun;
  if (!begun++) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 4};
    struct itimerspec each = {{0, MS}, {0, MS}};
    event._sigev_un._tid = gettid();
    sigset_t mine;
    sigemptyset(&mine);
    sigaddset(&mine, SIGRTMIN + 4);
    pthread_sigmask(SIG_UNBLOCK, &mine, NULL);
    must(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "timer_create");
    must(timer_settime(timer, 0, &each, NULL) == 0, "timer_settime");
  }
  // A timer whose signal was lost has no next one.
  for (long before = ticks; ticks == before;) poll(NULL, 0, (int)ms);
  return 1;
}

struct work {
  const char* name;
  int (*once)(long ms);
  long times, most, wrong;
  pthread_t thread;
};

static struct work calls[] = {
    {"recv", a_recv}, {"read", a_read}, {"recvmsg", a_recvmsg}, {"send", a_send}, {"write", a_write},
    {"accept", an_accept}, {"connect", a_connect}, {"epoll_wait", an_epoll_wait}, {"semtimedop", a_semtimedop},
    {"sigtimedwait", a_sigtimedwait}, {"io_getevents", an_io_getevents}, {"io_pgetevents", an_io_pgetevents},
    {"io_uring_enter", an_io_uring_enter}, {"nanosleep", a_nanosleep}, {"clock_nanosleep", a_clock_nanosleep},
    {"poll", a_poll}, {"ppoll", a_ppoll}, {"futex", a_futex}, {"condition", a_condition},
    {NULL},
};
static struct work others[] = {
    {"queued", a_queued_signal, .most = SENT}, {"setuid", a_setuid}, {"cancel", a_cancel}, {"tick", a_tick}, {NULL},
};

static pthread_barrier_t all_done;

static void* repeat(void* argument) {
  struct work* work = argument;
  prctl(PR_SET_NAME, work->name);
  while (work->most ? work->times < work->most : !is_over()) {
    if (!work->once(work->times % 8 == 7 ? 150 : 2)) {
      if (work->wrong++ == 0) perror(work->name);
    }
    work->times++;
    if (work->most && work->times % 10 == 0) usleep(1000);
  }
  pthread_barrier_wait(&all_done);
  return NULL;
}

static void refuse_restart_syscall(void) {
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_restart_syscall, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
  must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "PR_SET_NO_NEW_PRIVS");
  must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "PR_SET_SECCOMP");
}

int main(int argc, char** argv) {
  must(argc == 3, "calls MODE SECONDS");
  int signals = strcmp(argv[1], "signals") == 0;
  sigset_t blocked;
  sigemptyset(&blocked);
  for (int number = 3; number <= 5; number++) sigaddset(&blocked, SIGRTMIN + number);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, NULL);
  signal(SIGRTMIN + 3, count_received);
  signal(SIGRTMIN + 4, count_tick);
  signal(SIGRTMIN + 5, end_receiver);
  if (strcmp(argv[1], "filtered") == 0) refuse_restart_syscall();
  until = in(CLOCK_MONOTONIC, (long)(atof(argv[2]) * 1000));
  struct work* work = signals ? others : calls;
  unsigned threads = 0;
  while (work[threads].name) threads++;
  pthread_barrier_init(&all_done, NULL, threads);
  if (signals) must(pthread_create(&receiver, NULL, receive, NULL) == 0, "pthread_create");
  for (struct work* each = work; each->name; each++)
    must(pthread_create(&each->thread, NULL, repeat, each) == 0, "pthread_create");
  // To nobody but this thread: a call that it ends would count as wrong.
  signal(SIGTERM, end_soon);
  sigset_t own;
  sigemptyset(&own);
  sigaddset(&own, SIGTERM);
  pthread_sigmask(SIG_UNBLOCK, &own, NULL);
  puts("ready");
  fflush(stdout);
  for (struct work* each = work; each->name; each++) pthread_join(each->thread, NULL);
  if (signals) {
    // Delivered after all that have a smaller number.
    pthread_kill(receiver, SIGRTMIN + 5);
    pthread_join(receiver, NULL);
    others[0].wrong = others[0].times - received;
  }
  for (struct work* each = work; each->name; each++) printf("%s %ld %ld\n", each->name, each->times, each->wrong);
  return 0;
}
