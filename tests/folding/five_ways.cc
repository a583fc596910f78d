// One program whose middle is built in five ways, -DWAY=...; what the rest does is the same in all.
// usage: five_ways QUERIES

#include <cstdlib>

#define PLAIN 0
#define INLINED 1
#define RENAMED 2
#define SPLIT 3
#define MOVED 4
#define SLOWER 5  // no way of building: the function that never changes costs four times as much

#define APART __attribute__((noinline, noclone, used))
#ifdef __clang__
#undef APART
#define APART __attribute__((noinline, used))
#endif

static volatile unsigned sink;

// A function that calls nothing has no frame of its own unless it asks for it, and then its caller is not on the stack.
static void* volatile frame;

static inline __attribute__((always_inline)) void turn(unsigned times) {
  frame = __builtin_frame_address(0);
  for (unsigned i = 0; i < times; i++) sink = sink * 31 + i;
}

namespace eng {

// What never changes. The write behind the loop keeps the call from being the caller's last act.
APART void checksum() { turn(WAY == SLOWER ? 12000 : 3000); sink = sink + 1; }
APART void prepare() { turn(2000); sink = sink + 1; }

#if WAY == INLINED
struct Engine {
  static inline __attribute__((always_inline)) void process() { turn(2000); checksum(); sink = sink + 1; }
};
#elif WAY == RENAMED
struct Engine {
  APART static void handle_all() { turn(2000); checksum(); sink = sink + 1; }
};
#elif WAY == SPLIT
struct Engine {
  APART static void begin() { turn(1000); checksum(); sink = sink + 1; }
  APART static void end() { turn(1000); sink = sink + 1; }
};
#else
#if WAY == MOVED
#define Engine Machine
#endif
struct Engine {
  APART static void process() { turn(2000); checksum(); sink = sink + 1; }
};
#endif

APART void query() {
  prepare();
#if WAY == SPLIT
  Engine::begin();
  Engine::end();
#elif WAY == RENAMED
  Engine::handle_all();
#else
  Engine::process();
#endif
  sink = sink + 1;
}

}  // namespace eng

int main(int, char** arguments) {
  for (int left = std::atoi(arguments[1]); left > 0; left--) eng::query();
}
