#!/bin/bash
# One would guess: a mangled C++ name has one demangled form.
# What happens: of GNU c++filt, LLVM's and the crate cpp_demangle each has its own. An empty pack is `Foo<1>` or `Foo<1, >`;
# the third lambda of main is `{lambda(int)#3}` at GNU, `'lambda1'(int)` at LLVM: without a number, then from 0.
# Why: the Itanium ABI says how names are mangled and leaves the text open; LLVM prints the encoded number, GNU that plus two.
# Follows: rules and differences by name need one demangler for all inputs, text from perf (GNU's or libstdc++'s) included.
# Seen with: c++filt 2.40 (binutils), llvm-cxxfilt 14 (Debian 12), cpp_demangle 0.4.4 (crates). Needs g++, llvm, cargo 1.70.
set -euo pipefail
need() { command -v "$1" >/dev/null || { echo "needs $1: $2" >&2; exit 3; }; }
check() { [ "$2" = "$3" ] && echo "$1: $2" || { echo "CHANGED: $1: $2 (was $3)" >&2; exit 1; }; }
need g++ "apt install g++"; need llvm-cxxfilt-14 "apt install llvm-14"; need cargo "install Rust 1.70 or newer"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

cat >names.cc <<'C'
template <class F> __attribute__((noinline)) int call(F f) { return f(3); }
template <int N, class... T> struct Foo { __attribute__((noinline)) int bar() { return N + sizeof...(T); } };
int main(int c, char **) {
    auto first = [](int x) { return x; };
    auto second = [c](int x) { return x - c; };
    auto third = [c](int x) { return x + c; };
    return call(first) + call(second) + call(third) + Foo<1>().bar();
}
C
g++ -O1 -fno-inline -o names names.cc
nm names | awk '{ print $NF }' | grep -E '3FooILi1|EUliE1_clEi|UliE1_clEi' | sort >mangled
mkdir src
cat >Cargo.toml <<'T'
[package]
name = "names"
version = "0.1.0"
edition = "2021"
[dependencies]
cpp_demangle = "=0.4.4"
T
cat >src/main.rs <<'R'
fn main() {
    for line in std::io::stdin().lines().map(Result::unwrap) {
        println!("{}", cpp_demangle::Symbol::new(line.as_str()).unwrap().demangle(&Default::default()).unwrap());
    }
}
R
cargo build -q -j1
cat mangled
c++filt --version | head -n 1
gnu=$(c++filt <mangled) llvm=$(llvm-cxxfilt-14 <mangled) crate=$(./target/debug/names <mangled)
check "GNU" "$(echo "$gnu" | paste -sd';')" "Foo<1>::bar();main::{lambda(int)#3}::operator()(int) const"
check "LLVM" "$(echo "$llvm" | paste -sd';')" "Foo<1>::bar();main::'lambda1'(int)::operator()(int) const"
check "crate" "$(echo "$crate" | paste -sd';')" "Foo<1, >::bar();main::{lambda(int)#3}::operator()(int) const"
