#!/bin/bash
# One would guess: where /tmp/perf-PID.map has several entries of one start, the last one counts, as a JIT appends in time.
# What happens: of two entries perf takes the first, of three the second, whatever their sizes and names.
# Why: the entries go into a balanced tree (symbols__insert), and a look-up ends at the first that it meets from the root.
# Follows: after a JIT has used an address again, perf's name for it is as good as drawn by lot. A reader of maps should
# take the last entry, and not expect to agree with perf there.
# Seen with: perf 6.1 (Debian 12). Needs perf, gcc, x86_64, perf_event_paranoid at most 2.
set -euo pipefail
need() { command -v "$1" >/dev/null || { echo "needs $1: $2" >&2; exit 3; }; }
check() { [ "$2" = "$3" ] && echo "$1: $2" || { echo "CHANGED: $1: $2 (was $3)" >&2; exit 1; }; }
need perf "apt install linux-perf"; need gcc "apt install gcc"
[ "$(uname -m)" = x86_64 ] || { echo "needs x86_64: the code in the map is for it" >&2; exit 3; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

cat >jit.c <<'C'
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
    unsigned char loop[] = {0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3}; /* dec rdi; jnz back; ret */
    void *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, loop, sizeof loop);
    char name[64];
    snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(name, "w");
    for (int i = 1; i < argc; i++) fprintf(map, "%lx 40 %s\n", (unsigned long)code, argv[i]);
    fclose(map);
    puts(name);
    fflush(stdout);
    ((void (*)(long))code)(1000000000L);
    return 0;
}
C
gcc -O1 jit.c -o jit
perf --version
shown() {  # the name that perf prints for code with these entries of one start
    map=$(perf record -q -e cpu-clock:u -F 499 -o data ./jit "$@" 2>perf.log) || { cat perf.log >&2; exit 3; }
    perf script -i data -F ip,sym 2>/dev/null | sort | uniq -c | sort -rn | awk 'NR == 1 { print $3 }'
    rm -f "$map"
}
check "of one, two" "$(shown one two)" "one"
check "of longer_name_one, two" "$(shown longer_name_one two)" "longer_name_one"
check "of one, longer_name_two" "$(shown one longer_name_two)" "one"
check "of one, two, three" "$(shown one two three)" "two"
