#!/bin/bash
# One would guess: with `ann`, `_[i]` marks an interpreted Java frame, and each frame is marked as it ran.
# What happens: `_[0]` is interpreted, `_[1]` compiled by C1, `_[j]` compiled, `_[i]` inlined. By default only the mark of
# the innermost frame is true: under -Xint, where nothing is ever compiled, all its callers are still `_[j]`.
# Why: the default walker asks the JVM (AsyncGetCallTrace), which does not tell how the callers run. `cstack=vm` walks
# the JVM's own structures and knows.
# Follows: one method has up to four spellings in one file, and they depend on its place in the stack. Strip the marks
# before names are matched, summed or compared, and read tiers only from a recording made with cstack=vm.
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
marks() {  # the marks of W's frames in a JVM that only interprets: of callers, of innermost frames
    java -Xint -agentpath:"$tmp/libasyncProfiler.so=start,event=itimer,interval=1ms,collapsed,ann$1,file=folded" W >java.log
    grep '^W\.main' folded >&2
    echo "callers $(grep '^W\.main' folded | grep -o '_\[.\];W' | sort -u | tr -d ';W' | xargs)," \
        "innermost $(grep -o 'W\.[a-z]*_\[.\] ' folded | grep -o '_\[.\]' | sort -u | xargs)"
}
check "default" "$(marks "")" "callers _[j], innermost _[0]"
check "cstack=vm" "$(marks ,cstack=vm)" "callers _[0], innermost _[0]"
java -agentpath:"$tmp/libasyncProfiler.so=start,event=itimer,interval=1ms,collapsed,ann,cstack=vm,file=folded" W >java.log
check "a method that the compiler inlines" "$(grep -o 'W\.inner_\[i\]' folded | sort -u)" "W.inner_[i]"
