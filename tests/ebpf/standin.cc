// A stand-in for an engine, whose every query is asked for: a line on standard input is one order, answered by one line.
//   FILE is read with O_DIRECT, blocks of 8 KiB at random.
//   "go"      queries that read once, until "stop" (answered with their number)
//   "K N"     N queries of kind K: answered with K reads; of kind -1 with one read of all of the file
//   "churn T N"  T threads, one after the other, N queries of one read each
// SHAPE says who calls whom: 1 the overload with a timestamp, 2 the one without, which calls the one with, 3 GetImpl
// alone (Get was inlined), 4 MultiGet, whose overload calls the other one.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#define OUT_OF_LINE __attribute__((noinline, noclone))

namespace rocksdb {
struct ReadOptions {};
struct ColumnFamilyHandle {};
struct Slice { int kind; };
struct PinnableSlice {};

constexpr size_t kBlock = 8192;
int fd = -1;
size_t blocks = 0;

class RandomAccessFileReader {
 public:
  long Read(unsigned long offset, size_t n, char* scratch) const;
};
OUT_OF_LINE long RandomAccessFileReader::Read(unsigned long offset, size_t n, char* scratch) const {
  long got = pread(fd, scratch, n, (long)offset);
  asm volatile("" ::: "memory");
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
  if (key.kind < 0) {
    static char* whole = static_cast<char*>(aligned_alloc(4096, blocks * kBlock));
    if (reader.Read(0, blocks * kBlock, whole) != (long)(blocks * kBlock)) exit(3);
  }
  for (int i = 0; i < key.kind; i++)
    if (reader.Read((rand_r(&seed) % blocks) * kBlock, kBlock, buffer) != (long)kBlock) exit(3);
  asm volatile("" ::: "memory");
  return key.kind;
}
OUT_OF_LINE int DBImpl::Get(const ReadOptions& o, ColumnFamilyHandle*, const Slice& key, PinnableSlice* v, std::string*) {
  int done = GetImpl(o, key, v);
  asm volatile("" ::: "memory");
  return done;
}
OUT_OF_LINE int DBImpl::Get(const ReadOptions& o, ColumnFamilyHandle* f, const Slice& key, PinnableSlice* v) {
  int done = Get(o, f, key, v, nullptr);
  asm volatile("" ::: "memory");
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
  asm volatile("" ::: "memory");
  return done;
}
}  // namespace rocksdb

static void query(int kind) {
  rocksdb::DBImpl db;
  rocksdb::ReadOptions options;
  rocksdb::ColumnFamilyHandle family;
  rocksdb::PinnableSlice value;
  rocksdb::Slice key{kind};
#if SHAPE == 1
  db.Get(options, &family, key, &value, nullptr);
#elif SHAPE == 2
  db.Get(options, &family, key, &value);
#elif SHAPE == 3
  db.GetImpl(options, key, &value);
#else
  db.MultiGet(options, key);
#endif
}

int main(int argc, char** argv) {
  rocksdb::fd = open(argv[1], O_RDONLY | O_DIRECT);
  if (argc < 2 || rocksdb::fd < 0) return 2;
  rocksdb::blocks = (size_t)lseek(rocksdb::fd, 0, SEEK_END) / rocksdb::kBlock;
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
