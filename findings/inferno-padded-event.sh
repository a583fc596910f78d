#!/bin/bash
# One would guess: inferno-collapse-perf weights each sample by its period, as it does for a recording of one event.
# What happens: with two events of names of different length it silently counts the samples of the shorter one as 1 each.
# Why: perf pads event names to one width, and inferno takes the word before a single blank for the period: it is empty.
# Follows: check a folded total against `perf report`'s event count. Split at any number of blanks.
# Seen with: inferno 0.12.8 (crates), perf 6.1 (Debian 12). Needs perf, gcc, cargo 1.71, perf_event_paranoid at most 2.
set -euo pipefail
need() { command -v "$1" >/dev/null || { echo "needs $1: $2" >&2; exit 3; }; }
check() { [ "$2" = "$3" ] && echo "$1: $2" || { echo "CHANGED: $1: $2 (was $3)" >&2; exit 1; }; }
need perf "apt install linux-perf"; need gcc "apt install gcc"; need cargo "install Rust 1.71 or newer"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

echo 'volatile unsigned long sum; int main(void) { for (int i = 0; i < 300000000; i++) sum += i; return 0; }' >work.c
gcc -O0 work.c -o work
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
total() {  # of the samples of cpu-clock: how many, their folded weight divided by the period
    perf record -q -e "$1" -c 1000000 -g -o data ./work 2>perf.log || { cat perf.log >&2; exit 3; }
    perf script -i data 2>/dev/null >text
    samples=$(grep -c 'cpu-clock:u:' text)
    grep -m 1 'cpu-clock:u:' text >&2
    weight=$(./target/debug/collapse cpu-clock <text | awk '{ n += $NF } END { printf "%.0f", n }')
    [ "$weight" = "$((samples * 1000000))" ] && echo "periods" || { [ "$weight" = "$samples" ] && echo "samples" || echo "$weight"; }
}
check "one event: the total is in" "$(total cpu-clock:u)" "periods"
check "two events: the total is in" "$(total cpu-clock:u,page-faults:u)" "samples"
