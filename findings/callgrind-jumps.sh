#!/bin/bash
# One would guess: `jcnd=` is as Callgrind's manual has it, "jcnd=exe-count jump-count target-position"; jump lines only
# serve a viewer's arrows, so a reader of costs may skip all of them.
# What happens: the line is `jcnd=JUMPED/EXECUTED TARGET`, the other way round and with a slash. Targets in another file
# have a line `jfi=` before, which the manual does not have; and they *define* names: `jfi=(18) path` may be the only
# line that says which file (18) is, while cost lines follow under `fi=(18)`.
# Why: names are written in full once, at their first use, whichever line that is (valgrind's callgrind/dump.c).
# Follows: a reader that skips jump lines has costs in files without names; it must read their names.
# Seen with: valgrind 3.19.0 (Debian 12). Needs gcc, valgrind, python3.
set -euo pipefail
need() { command -v "$1" >/dev/null || { echo "needs $1: $2" >&2; exit 3; }; }
check() { [ "$2" = "$3" ] && echo "$1: $2" || { echo "CHANGED: $1: $2 (was $3)" >&2; exit 1; }; }
need valgrind "apt install valgrind"; need gcc "apt install gcc"; need python3 "apt install python3"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

cat >loop.c <<'C'
int main(void) {
    volatile int even = 0;
    for (int i = 0; i < 1000; i++)
        if (i % 4 == 0) even++;
    return 0;
}
C
gcc -O0 -g loop.c -o loop
valgrind --version
valgrind -q --tool=callgrind --collect-jumps=yes --callgrind-out-file=out ./loop
cat >read.py <<'P'
import re

defined, only_by_jumps = {}, {}
for line in open("out"):
    if found := re.match(r"(jfi|fl|fi|fe|cfi|cfl)=\((\d+)\)(.*)", line):
        spec, number, name = found[1], found[2], found[3].strip()
        if name:
            defined[number] = (spec, name)
        elif spec != "jfi" and defined.get(number, ("",))[0] == "jfi":
            only_by_jumps[number] = defined[number][1]
for number, name in list(only_by_jumps.items())[:3]:
    print(f"({number}) {name}: named by jfi= alone, used by lines with costs")
print("names that only jump lines define:", "some" if only_by_jumps else "none")
P
python3 read.py | tee read.out
grep '/1000 ' out
# `even++` is left out by 750 of 1,000: by the manual's order 1,000 comes first.
check "the branch of i % 4" "$(grep -o '^jcnd=[0-9]*/1000' out)" "jcnd=750/1000"
check "read.py" "$(tail -n 1 read.out)" "names that only jump lines define: some"
