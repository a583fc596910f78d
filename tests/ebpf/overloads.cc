// Overloads of a method that run for ever, each as often as the other; of one the compiler puts a part out of the way.
//
// overloads: in this process; overloads fork: in a child for each round, which is waited for.
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

volatile long sink;

namespace {
__attribute__((noinline, cold)) void rare(int number) { sink = sink + number; }
}  // namespace

namespace space {
struct Class {
    int get(long number);
    int get(int number) const;
    int get_more(int number);
};
__attribute__((noinline)) int Class::get(long number) { return static_cast<int>(sink + number); }
__attribute__((noinline)) int Class::get(int number) const {
    sink = sink + 1;
    if (number > 7) {
        for (int left = number; left > 0; left--) rare(left);
        rare(number);
    }
    return static_cast<int>(sink);
}
__attribute__((noinline)) int Class::get_more(int number) { return number + static_cast<int>(sink); }
}  // namespace space

int main(int count, char **) {
    space::Class one;
    for (;;) {
        if (count > 1 && fork() > 0) {
            wait(nullptr);
            continue;
        }
        one.get(static_cast<long>(1));
        std::as_const(one).get(9);
        one.get_more(1);
        if (count > 1) _exit(0);
        usleep(100);
    }
}
