#!/bin/bash
# One would guess: Austin's binary output (MOJO) has LEB128 integers, as pprof and DWARF have; numbers are decimal.
# What happens: the first byte of an integer has 6 bits of it and a sign in bit 6, each further byte has 7. A thread's
# name is its number in hexadecimal text. Austin 4 writes this format without being asked to.
# Why: memory metrics can be negative (MOJO format, Austin's documentation).
# Follows: a LEB128 reader gets numbers below 64 right and the rest wrong, about double, so small tests pass.
# Seen with: austin-dist 4.0.0 (PyPI), the musl build, as the other (manylinux2010) needs glibc 2.38, newer than Debian 12's.
# Needs Debian's python3 with pip (python3-venv), apt for musl, and the right to read a child's memory.
set -euo pipefail
need() { command -v "$1" >/dev/null || { echo "needs $1: $2" >&2; exit 3; }; }
check() { [ "$2" = "$3" ] && echo "$1: $2" || { echo "CHANGED: $1: $2 (was $3)" >&2; exit 1; }; }
need apt-get "a Debian"; [ "$(uname -m)" = x86_64 ] || { echo "needs x86_64: the wheel is for it" >&2; exit 3; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

/usr/bin/python3 -m venv venv
venv/bin/pip -q download --no-deps --only-binary=:all: --platform musllinux_1_1_x86_64 austin-dist==4.0.0
venv/bin/python -m zipfile -e austin_dist-4.0.0-*.whl austin
apt-get -qq download musl 2>apt.log
dpkg -x musl_*.deb musl
cat >target.py <<'P'
import os, time
with open("pid", "w") as file:
    file.write(str(os.getpid()))
end = time.monotonic() + 1
while time.monotonic() < end:
    pass
P
chmod +x austin/*/scripts/austin
musl/lib/*/libc.so austin/*/scripts/austin -i 10ms -o out.mojo /usr/bin/python3 target.py >austin.log
cat >read.py <<'P'
data, at = open("out.mojo", "rb").read(), 3


def integer(first_bits):
    """The integer at `at`, with so many bits in its first byte."""
    global at
    value, shift = data[at] & ((1 << first_bits) - 1), first_bits
    while data[at] & 0x80:
        at += 1
        value |= (data[at] & 0x7F) << shift
        shift += 7
    at += 1
    return value


def text():
    global at
    end = data.index(0, at)
    at, piece = end + 1, data[at:end]
    return piece.decode()


print("magic", data[:3].decode(), "version", integer(6))
while data[at] == 1:  # metadata
    at += 1
    print("metadata", text(), text())
assert data[at] == 2  # a stack: process, interpreter, thread
at += 1
start, real = at, int(open("pid").read())
by_leb128, at = integer(7), start
by_mojo, interpreter, thread = integer(6), integer(6), text()
print(f"process {real}: 6 bits first {by_mojo}, LEB128 {by_leb128}; thread {thread!r}")
print("6 bits first:", by_mojo == real, "LEB128:", by_leb128 == real, "hexadecimal thread:", int(thread, 16) == real)
P
venv/bin/python read.py | tee read.out
check "result" "$(tail -n 1 read.out)" "6 bits first: True LEB128: False hexadecimal thread: True"
