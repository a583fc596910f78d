// The toy's client: one file of blocks, read at random, with a thread beside that tidies up. Prints what engine.py reads.
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#define NOINLINE __attribute__((noinline))

using Clock = std::chrono::steady_clock;

static std::atomic<long> gets{0};
static std::atomic<long> found{0};
static std::atomic<bool> over{false};

namespace toy {

class Store {
 public:
  Store(const std::string &path, bool direct, long size) : size_(size) {
    file_ = open(path.c_str(), O_RDONLY | (direct ? O_DIRECT : 0));
    blocks_ = lseek(file_, 0, SEEK_END) / size;
  }
  ~Store() { close(file_); }
  long blocks() const { return blocks_; }
  NOINLINE bool Get(long block, char *into);

 private:
  NOINLINE long ReadBlock(long block, char *into);
  int file_;
  long size_, blocks_;
};

NOINLINE uint64_t Sum(const char *data, long size) {
  uint64_t sum = 0;
  for (int round = 0; round < 8; round++)
    for (long i = 0; i < size; i++) sum = sum * 31 + static_cast<unsigned char>(data[i]);
  return sum;
}

long Store::ReadBlock(long block, char *into) {
  long got = pread(file_, into, size_, block * size_);
  asm volatile("" ::: "memory");  // no tail call: the caller stays on the stack
  return got;
}

bool Store::Get(long block, char *into) { return ReadBlock(block, into) == size_ && Sum(into, size_) != 1; }

NOINLINE void Tidy() {
  for (volatile long i = 0; i < 2000000; i++) {
  }
}

}  // namespace toy

static void read_blocks(toy::Store *store, long size, long seed) {
  char *block = static_cast<char *>(aligned_alloc(4096, size));
  std::mt19937_64 random(seed);
  while (!over) {
    found += store->Get(random() % store->blocks(), block);
    gets++;
  }
  free(block);
}

static void write_blocks(const std::string &path, long bytes, long size) {
  FILE *out = fopen(path.c_str(), "w");
  std::vector<char> block(size, 'x');
  for (long written = 0; written < bytes; written += size) fwrite(block.data(), 1, size, out);
  fclose(out);
}

int main(int count, char **words) {
  std::map<std::string, std::string> flags;
  for (int i = 1; i < count; i++) {
    std::string word = words[i];
    auto equals = word.find('=');
    if (word == "--help") {
      puts("toy_bench 1.0\n--benchmarks --file --bytes --block_size --threads --seed --duration --report --direct");
      return 0;
    }
    flags[word.substr(2, equals - 2)] = word.substr(equals + 1);
  }
  const std::string path = flags["file"];
  const long size = atol(flags["block_size"].c_str());
  if (flags["benchmarks"] == "write,tree") write_blocks(path, atol(flags["bytes"].c_str()), size);
  if (flags["benchmarks"] != "get") {
    FILE *file = fopen(path.c_str(), "r");
    fseek(file, 0, SEEK_END);
    printf("tree: bytes=%ld files=1\n", ftell(file));
    fclose(file);
    return 0;
  }
  toy::Store store(path, flags["direct"] == "true", size);
  FILE *report = fopen(flags["report"].c_str(), "w");
  fputs("gets,second\n", report);
  fflush(report);
  std::vector<std::thread> threads;
  for (long i = 0; i < atol(flags["threads"].c_str()); i++)
    threads.emplace_back(read_blocks, &store, size, atol(flags["seed"].c_str()) + i);
  threads.emplace_back([] {
    pthread_setname_np(pthread_self(), "toy:tidy0");
    while (!over) {
      toy::Tidy();
      usleep(20000);
    }
  });
  const auto begun = Clock::now();
  long before = 0, seconds = atol(flags["duration"].c_str());
  for (long second = 1; second <= seconds; second++) {
    std::this_thread::sleep_until(begun + std::chrono::seconds(second));
    const long now = gets;
    fprintf(report, "%ld,%ld\n", now - before, second);
    fflush(report);
    before = now;
  }
  over = true;
  for (auto &thread : threads) thread.join();
  printf("get: %ld gets, %ld found, %ld s\ntidied: 0.00 GB\n", gets.load(), found.load(), seconds);
}
