#!/bin/bash
# One would guess: `perf data convert --to-json` has what a profile needs: stacks with their weight.
# What happens: a sample has time, process, thread, command and chain, but neither its period nor its event.
# `perf script`'s own stackcollapse.py has the stacks, and counts each sample as 1.
# Why: perf's data-convert-json.c does not write them; stackcollapse.py adds 1 and does not use the period it is given.
# Follows: with two events, or with periods that vary (the default, -F), no weights can be had from these outputs.
# Take perf script's text or read perf.data.
# Seen with: perf 6.1 (Debian 12). Needs perf, gcc, python3, perf_event_paranoid at most 2.
set -euo pipefail
need() { command -v "$1" >/dev/null || { echo "needs $1: $2" >&2; exit 3; }; }
check() { [ "$2" = "$3" ] && echo "$1: $2" || { echo "CHANGED: $1: $2 (was $3)" >&2; exit 1; }; }
need perf "apt install linux-perf"; need gcc "apt install gcc"; need python3 "apt install python3"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

cat >work.c <<'C'
#include <stdlib.h>
volatile unsigned long sum;
int main(void) {
    for (int i = 0; i < 300000000; i++) sum += i;
    char *pages = malloc(4096 * 2000);
    for (int i = 0; i < 2000; i++) pages[4096 * i] = 1;
    return 0;
}
C
gcc -O0 work.c -o work
perf --version
perf record -q -e cpu-clock/period=1000000/u,page-faults/period=100/u -g -o data ./work 2>perf.log || { cat perf.log; exit 3; }
perf data convert --to-json out.json -i data 2>/dev/null
perf script -i data -F event,period | sort | uniq -c
keys=$(python3 -c "import json; print(*sorted({key for sample in json.load(open('out.json'))['samples'] for key in sample}))")
check "keys of a sample" "$(echo "$keys" | sed 's/ cpu / /')" "callchain comm pid tid timestamp"
stackcollapse=$(perf --exec-path)/scripts/python/stackcollapse.py
folded=$(perf script -s "$stackcollapse" -i data 2>/dev/null | awk '{ n += $NF } END { print n }')
samples=$(perf script -i data -F event | wc -w)
check "stackcollapse.py's total is the number of samples" "$folded" "$samples"
