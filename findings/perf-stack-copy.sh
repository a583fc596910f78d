#!/bin/bash
# One would guess: `perf record --call-graph dwarf,65528`, the largest size that perf takes, copies 65,528 bytes of a stack.
# What happens: each sample has 65,280 at most, and perf says nothing; the attributes in the file still say 65,528.
# Why: a record's size has 16 bits, so the copy gets what the sample's other fields leave of 65,535 (kernel,
# perf_sample_ustack_size). With more registers or a longer kernel chain it is less still.
# Follows: a copy shorter than asked for is no sign that the stack ended. Compare it with what the record could hold, and
# do not advise a larger size where the record is full: only frame pointers help there.
# Seen with: perf 6.1 (Debian 12) on kernel 6.18, x86_64. Needs perf, gcc, perf_event_paranoid at most 2.
set -euo pipefail
need() { command -v "$1" >/dev/null || { echo "needs $1: $2" >&2; exit 3; }; }
check() { [ "$2" = "$3" ] && echo "$1: $2" || { echo "CHANGED: $1: $2 (was $3)" >&2; exit 1; }; }
need perf "apt install linux-perf"; need gcc "apt install gcc"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

cat >deep.c <<'C'
#include <stddef.h>
volatile unsigned long sum;
__attribute__((noinline)) void leaf(void) { for (int i = 0; i < 200000000; i++) sum += i; }
int main(void) {
    volatile char big[300000]; /* above the frame of leaf: deeper than a copy can be */
    for (size_t i = 0; i < sizeof big; i++) big[i] = 1;
    leaf();
    return big[sum % sizeof big] == 0;
}
C
gcc -O1 deep.c -o deep
perf --version
perf record -q -e cpu-clock:u -F 99 --call-graph dwarf,65528 -o data ./deep 2>perf.log || { cat perf.log; exit 3; }
echo "perf said: '$(cat perf.log)'"
perf script -D -i data 2>/dev/null | grep -ao 'ustack: size [0-9]*' | sort | uniq -c | tee sizes
check "asked for" "$(perf evlist -v -i data | grep -o 'sample_stack_user: [0-9]*')" "sample_stack_user: 65528"
check "perf's words" "$(cat perf.log)" ""
check "a sample has all it was asked for" "$(grep -c 65528 sizes || true)" 0
check "largest copy" "$(awk '$4 > most { most = $4 } END { print (most > 65000 && most < 65528) ? "65000 to 65527" : most }' sizes)" "65000 to 65527"
