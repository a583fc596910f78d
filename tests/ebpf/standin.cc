// A stand-in for an engine, whose every query is asked for: a line on standard input is one order, answered by one line.
//   standin FILE [SHAPE]: FILE is read with O_DIRECT, blocks of 8 KiB at random.
//   "go"      queries that read once, until "stop" (answered with their number)
//   "K N"     N queries of kind K, answered with N: of K reads, or
//             -1 one read of all of the file           -2 one read that another thread answers 200 us after it sleeps
//             -3 a page of the file that is mapped     -4 sleeps 5 ms       -5 computes 1 to 3 ms     -6 computes 20 ms
//             -7 takes a mutex which the thread `holder` has until it sleeps, and 2 ms more
//   "churn T N"  T threads, one after the other, N queries of one read each
// SHAPE says who calls whom: 1 the overload with a timestamp, 2 the one without, which calls the one with, 3 GetImpl
// alone (Get was inlined), 4 MultiGet, whose overload calls the other one.
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#define OUT_OF_LINE __attribute__((noinline, noclone))
#define LAST asm volatile("" ::: "memory") /* no tail call: the caller is to be on the stack */

static int lock_asked[2], lock_held[2];
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

/* The C library keeps no frame pointer, so that the caller of its functions is on no stack. */
OUT_OF_LINE void pause_us(unsigned us) {
  usleep(us);
  LAST;
}

/* A host may keep a thread off its CPU for longer than any pause: who is to be waited for looks that it is.
   Who was woken is no longer asleep when the call that woke it returns. */
static void until_it_sleeps(pid_t thread) {
  char path[64], line[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
  for (char state = 0; state != 'S'; sched_yield()) {
    int stat = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = read(stat, line, sizeof line - 1);
    if (got <= 0 || close(stat)) exit(3);
    line[got] = 0;
    state = strrchr(line, ')')[2];
  }
}

static void ask(int pipe) {
  pid_t self = gettid();
  if (write(pipe, &self, sizeof self) != sizeof self) exit(3);
}

static void hold() {
  prctl(PR_SET_NAME, "holder");
  pid_t asker;
  while (read(lock_asked[0], &asker, sizeof asker) == sizeof asker) {
    pthread_mutex_lock(&held);
    if (write(lock_held[1], "!", 1) != 1) exit(3);
    until_it_sleeps(asker);
    pause_us(2000);
    pthread_mutex_unlock(&held);
  }
}

OUT_OF_LINE void planted_nap() {
  pause_us(5000);
  LAST;
}

static void compute(long ns) {
  timespec begun, now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begun);
  do {
    for (volatile int turn = 0; turn < 10000; turn = turn + 1) {}
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  } while ((now.tv_sec - begun.tv_sec) * 1000000000L + now.tv_nsec - begun.tv_nsec < ns);
}

OUT_OF_LINE void usual_spin() {
  static thread_local unsigned seed = 17;
  compute(1000000 + rand_r(&seed) % 2000000);
  LAST;
}

OUT_OF_LINE void planted_spin() {
  compute(20000000);
  LAST;
}

OUT_OF_LINE void take_it() {
  pthread_mutex_lock(&held);
  pthread_mutex_unlock(&held);
  LAST;
}

OUT_OF_LINE void planted_lock() {
  char answer;
  ask(lock_asked[1]);
  if (read(lock_held[0], &answer, 1) != 1) exit(3);
  take_it();
  LAST;
}

namespace rocksdb {
struct ReadOptions {};
struct ColumnFamilyHandle {};
struct Slice { int kind; };
struct PinnableSlice {};

constexpr size_t kBlock = 8192;
int fd = -1;
size_t blocks = 0;
int asked[2], answered[2];

class RandomAccessFileReader {
 public:
  long Read(unsigned long offset, size_t n, char* scratch) const;
};
OUT_OF_LINE long RandomAccessFileReader::Read(unsigned long offset, size_t n, char* scratch) const {
  long got = pread(fd, scratch, n, (long)offset);
  LAST;
  return got;
}

class DBImpl {
 public:
  int GetImpl(const ReadOptions&, const Slice& key, PinnableSlice*);
  int Get(const ReadOptions&, ColumnFamilyHandle*, const Slice&, PinnableSlice*, std::string* timestamp);
  int Get(const ReadOptions&, ColumnFamilyHandle*, const Slice&, PinnableSlice*);
  int MultiGet(const ReadOptions&, const Slice& key);
  int MultiGet(const ReadOptions&, const Slice& key, bool sorted);
};
OUT_OF_LINE int DBImpl::GetImpl(const ReadOptions&, const Slice& key, PinnableSlice*) {
  static thread_local char* buffer = static_cast<char*>(aligned_alloc(4096, kBlock));
  static thread_local unsigned seed = 17;
  RandomAccessFileReader reader;
  char answer = 0;
  switch (key.kind) {
    case -1: {
      static char* whole = static_cast<char*>(aligned_alloc(4096, blocks * kBlock));
      if (reader.Read(0, blocks * kBlock, whole) != (long)(blocks * kBlock)) exit(3);
      break;
    }
    case -2:
      ask(asked[1]);
      if (read(answered[0], &answer, 1) != 1) exit(3);
      break;
    case -3: {
      // A page of each block, and none that is in the page cache.
      static volatile char* mapped = nullptr;
      static size_t next = 0;
      if (!mapped) {
        if (fsync(fd) || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED)) exit(3);
        mapped = static_cast<char*>(mmap(nullptr, blocks * kBlock, PROT_READ, MAP_SHARED, fd, 0));
        if (mapped == MAP_FAILED || madvise((void*)mapped, blocks * kBlock, MADV_RANDOM)) exit(3);
      }
      (void)mapped[next++ % blocks * kBlock];
      break;
    }
    case -4: planted_nap(); break;
    case -5: usual_spin(); break;
    case -6: planted_spin(); break;
    case -7: planted_lock(); break;
  }
  for (int i = 0; i < key.kind; i++)
    if (reader.Read((rand_r(&seed) % blocks) * kBlock, kBlock, buffer) != (long)kBlock) exit(3);
  LAST;
  return key.kind;
}
OUT_OF_LINE int DBImpl::Get(const ReadOptions& o, ColumnFamilyHandle*, const Slice& key, PinnableSlice* v, std::string*) {
  int done = GetImpl(o, key, v);
  LAST;
  return done;
}
OUT_OF_LINE int DBImpl::Get(const ReadOptions& o, ColumnFamilyHandle* f, const Slice& key, PinnableSlice* v) {
  int done = Get(o, f, key, v, nullptr);
  LAST;
  return done;
}
OUT_OF_LINE int DBImpl::MultiGet(const ReadOptions&, const Slice& key, bool) {
  static thread_local char* buffer = static_cast<char*>(aligned_alloc(4096, kBlock));
  for (int i = 0; i < key.kind; i++)
    if (pread(fd, buffer, kBlock, 0) != (long)kBlock) exit(3);
  return key.kind;
}
OUT_OF_LINE int DBImpl::MultiGet(const ReadOptions& o, const Slice& key) {
  int done = MultiGet(o, key, false);
  LAST;
  return done;
}
}  // namespace rocksdb

static int shape = 1;

static void query(int kind) {
  rocksdb::DBImpl db;
  rocksdb::ReadOptions options;
  rocksdb::ColumnFamilyHandle family;
  rocksdb::PinnableSlice value;
  rocksdb::Slice key{kind};
  if (shape == 1)
    db.Get(options, &family, key, &value, nullptr);
  else if (shape == 2)
    db.Get(options, &family, key, &value);
  else if (shape == 3)
    db.GetImpl(options, key, &value);
  else
    db.MultiGet(options, key);
}

int main(int argc, char** argv) {
  rocksdb::fd = open(argv[1], O_RDONLY | O_DIRECT);
  if (argc < 2 || rocksdb::fd < 0) return 2;
  rocksdb::blocks = (size_t)lseek(rocksdb::fd, 0, SEEK_END) / rocksdb::kBlock;
  if (argc > 2) shape = atoi(argv[2]);
  if (pipe(rocksdb::asked) || pipe(rocksdb::answered) || pipe(lock_asked) || pipe(lock_held)) return 2;
  std::thread(hold).detach();
  std::thread([] {
    pid_t asker;
    while (read(rocksdb::asked[0], &asker, sizeof asker) == sizeof asker) {
      until_it_sleeps(asker);
      usleep(200);
      if (write(rocksdb::answered[1], "!", 1) != 1) exit(3);
    }
  }).detach();
  setvbuf(stdout, nullptr, _IOLBF, 0);
  puts("ready");
  char line[64];
  while (fgets(line, sizeof line, stdin)) {
    int first = 0, n = 0;
    long done = 0;
    if (strcmp(line, "go\n") == 0) {
      pollfd input{0, POLLIN, 0};
      for (; poll(&input, 1, 0) == 0; done++) query(1);
      if (!fgets(line, sizeof line, stdin)) return 0;
    } else if (sscanf(line, "churn %d %d", &first, &n) == 2) {
      for (int t = 0; t < first; t++, done += n)
        std::thread([n] { for (int i = 0; i < n; i++) query(1); }).join();
    } else if (sscanf(line, "%d %d", &first, &n) == 2) {
      for (; done < n; done++) query(first);
    }
    printf("%ld\n", done);
  }
}
