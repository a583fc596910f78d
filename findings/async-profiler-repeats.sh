#!/bin/bash
# One would guess: folded output has each stack once, as a collapse script's has.
# What happens: the same text stands in several lines, each with a count of its own.
# Why: the profiler counts frames by method and by how they ran (interpreted, C1, C2, inlined); without `ann` the text
# does not show how they ran, and lines that now look alike are not added up.
# Follows: add up equal lines. A reader that assigns (`weights[stack] = n`) keeps one of them and loses the rest.
# Seen with: async-profiler 4.0 (Maven tools.profiler:async-profiler), OpenJDK 17. Needs mvn, a JDK, unzip.
set -euo pipefail
need() { command -v "$1" >/dev/null || { echo "needs $1: $2" >&2; exit 3; }; }
check() { [ "$2" = "$3" ] && echo "$1: $2" || { echo "CHANGED: $1: $2 (was $3)" >&2; exit 1; }; }
need mvn "apt install maven"; need javac "apt install default-jdk-headless"; need unzip "apt install unzip"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

mvn -q -B dependency:copy -Dartifact=tools.profiler:async-profiler:4.0 -DoutputDirectory="$tmp" >maven.log
unzip -q -j async-profiler-4.0.jar "linux-$(uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/')/*"
cat >W.java <<'J'
public class W {
    static volatile long sum;
    static int inner(int x) { return x * 31 + 7; }
    static long outer(int n) { long t = 0; for (int i = 0; i < n; i++) t += inner(i); return t; }
    public static void main(String[] a) {
        for (long end = System.nanoTime() + 2_000_000_000L; System.nanoTime() < end; ) sum += outer(2000);
    }
}
J
javac W.java
java -agentpath:"$tmp/libasyncProfiler.so=start,event=itimer,interval=1ms,collapsed,file=folded" W >java.log
grep '^W\.main' folded
awk '{ n = $NF; sub(/ [0-9]+$/, ""); sum += n; last[$0] = n }
     END { for (s in last) kept += last[s]; printf "samples: %d; kept by a reader that assigns: %d\n", sum, kept }' folded
check "a stack stands in several lines" "$(sed 's/ [0-9]*$//' folded | sort | uniq -d | grep -q '^W\.main' && echo yes)" "yes"
