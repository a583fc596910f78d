#!/bin/bash
# One would guess: a collapse script keeps every frame that perf printed.
# What happens: inferno drops frames whose name begins with "(": a C++ function in a top-level anonymous namespace is gone,
# and its time is a caller's.
# Why: old perf printed "(command)" for some frames, and those were to be skipped.
# Follows: internal functions of C++ libraries are missing from such graphs, without a word; rules for them never match.
# Seen with: inferno 0.12.8 (crates), perf 6.1 (Debian 12). Needs perf, g++, cargo 1.71, perf_event_paranoid at most 2.
set -euo pipefail
need() { command -v "$1" >/dev/null || { echo "needs $1: $2" >&2; exit 3; }; }
check() { [ "$2" = "$3" ] && echo "$1: $2" || { echo "CHANGED: $1: $2 (was $3)" >&2; exit 1; }; }
need perf "apt install linux-perf"; need g++ "apt install g++"; need cargo "install Rust 1.71 or newer"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

cat >work.cc <<'C'
volatile unsigned long sum;
namespace {
__attribute__((noinline)) void lookup() { for (int i = 0; i < 300000000; i++) sum = sum + i; }
}
int main() { lookup(); sum = sum + 1; return 0; }
C
g++ -O1 -fno-omit-frame-pointer work.cc -o work
mkdir src
cat >Cargo.toml <<'T'
[package]
name = "collapse"
version = "0.1.0"
edition = "2021"
[dependencies]
inferno = { version = "=0.12.8", default-features = false }
T
cat >src/main.rs <<'R'
use inferno::collapse::{perf::{Folder, Options}, Collapse};

fn main() {
    let mut options = Options::default();
    options.event_filter = std::env::args().nth(1);
    Folder::from(options).collapse(std::io::stdin().lock(), std::io::stdout()).unwrap();
}
R
cargo build -q -j1
perf record -q -e cpu-clock:u -c 1000000 -g -o data ./work 2>perf.log || { cat perf.log >&2; exit 3; }
perf script -i data 2>/dev/null >text
./target/debug/collapse <text >folded
cat folded
check "lookup in perf's text" "$(grep -o '(anonymous namespace)::lookup' text | sort -u)" "(anonymous namespace)::lookup"
check "lines of it, folded" "$(grep -c lookup folded || true)" 0
