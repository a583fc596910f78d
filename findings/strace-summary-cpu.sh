#!/bin/bash
# One would guess: the seconds of `strace -c` are how long the system calls took, as those of `strace -T` are.
# What happens: a sleep of one second is 0.00 s. `-c` sums system CPU time; `-w` beside it makes that wall-clock time.
# Why: strace's manual, -w: "Summarise the time difference between the beginning and end of each system call."
# Follows: a table of `strace -c` has reads from storage as nearly free; its "usecs/call" is no latency.
# Seen with: strace 6.1 (Debian 12). Needs strace and the right to trace a child.
set -euo pipefail
need() { command -v "$1" >/dev/null || { echo "needs $1: $2" >&2; exit 3; }; }
check() { [ "$2" = "$3" ] && echo "$1: $2" || { echo "CHANGED: $1: $2 (was $3)" >&2; exit 1; }; }
need strace "apt install strace"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

seconds() { strace "$@" -o out -e trace=clock_nanosleep sleep 1; awk '/clock_nanosleep/ { print ($2 > 0.9) ? "1 or more" : "below 0.1" }' out; }
strace -V | head -n 1
check "-c" "$(seconds -c)" "below 0.1"
check "-c -w" "$(seconds -c -w)" "1 or more"
