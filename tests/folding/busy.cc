// What stack folders get wrong, in one program: runs for the given number of milliseconds of CPU time.
// usage: busy MILLISECONDS [LIBRARY_TO_DELETE | jit | newline | deep LEVELS]

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>

#define APART __attribute__((noinline, noclone))

static volatile unsigned sink;

static inline __attribute__((always_inline)) void turn(unsigned times) {
  for (unsigned i = 0; i < times; i++) sink = sink * 31 + i;
}

namespace {
APART void hidden() { turn(20000); sink = sink + 1; }
}  // namespace

namespace engine {

template <typename T, unsigned long N>
struct Pointer {
  APART Pointer* operator->() { turn(20000); return this; }
  APART Pointer& operator<<(int) { turn(20000); return *this; }
  APART void operator()(T value) { turn(20000); sink = sink + value; }
  int field = 0;
};

APART void deep(int levels) {
  if (levels > 0) deep(levels - 1);
  else turn(60000);
  sink = sink + 1;
}

APART unsigned long long operator""_turns(unsigned long long times) {
  turn(static_cast<unsigned>(times));
  return times;
}

APART void call(const std::function<void(int)>& function) { function(1); sink = sink + 1; }

}  // namespace engine

using Work = void (*)();

// Code made at run time, and its name written down where perf looks for it.
static Work compile() {
#ifdef __x86_64__
  // push rbp; mov rbp, rsp; mov ecx, 131072; again: dec ecx; jnz again; pop rbp; ret
  const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xb9, 0, 0, 2, 0, 0xff, 0xc9, 0x75, 0xfc, 0x5d, 0xc3};
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  std::memcpy(page, code, sizeof code);
  char path[64];
  std::snprintf(path, sizeof path, "/tmp/perf-%d.map", static_cast<int>(getpid()));
  if (FILE* map = std::fopen(path, "w")) {
    std::fprintf(map, "%lx %zx a->b(int; x)\n", reinterpret_cast<unsigned long>(page), sizeof code);
    std::fclose(map);
  }
  return reinterpret_cast<Work>(page);
#else
  return nullptr;
#endif
}

int main(int argc, char** argv) {
  const int milliseconds = argc > 1 ? std::atoi(argv[1]) : 100;
  const char* kind = argc > 2 ? argv[2] : "";
  prctl(PR_SET_NAME, std::strcmp(kind, "newline") == 0 ? "two\nlines" : "my pool;12 x");
  const int levels = argc > 3 && std::strcmp(kind, "deep") == 0 ? std::atoi(argv[3]) : 300;
  Work work = nullptr;
  if (std::strcmp(kind, "jit") == 0) {
    work = compile();
  } else if (kind[0] == '/') {
    void* library = dlopen(argv[2], RTLD_NOW);
    if (library == nullptr) return 1;
    work = reinterpret_cast<Work>(dlsym(library, "library_work"));
    unlink(argv[2]);
  }
  engine::Pointer<int, 8> pointer;
  // Its own time on the CPU: as many samples on a busy machine as on another.
  const std::clock_t end = std::clock() + static_cast<std::clock_t>(milliseconds) * (CLOCKS_PER_SEC / 1000);
  while (std::clock() < end) {
    hidden();
    pointer->field++;
    pointer << 3;
    pointer(4);
    engine::deep(levels);
    using engine::operator""_turns;
    sink = sink + static_cast<unsigned>(20000_turns);
    engine::call([](int value) { turn(20000); sink = sink + value; });
    if (work != nullptr) work();
    // Memory that is touched for the first time.
    char* page = static_cast<char*>(std::malloc(1 << 20));
    for (int i = 0; i < 1 << 20; i += 4096) page[i] = 1;
    std::free(page);
  }
  return 0;
}
