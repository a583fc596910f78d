#!/bin/bash
# One would guess: reading a .zst whole gives all of it, as `zstd -d` does; files joined by cat (rotated logs) are valid.
# What happens: PyPI zstandard's `decompress` gives the first frame and drops the rest, without an error. Its `open` reads all.
# Why: its documentation: decompress() handles one frame; a zst file may have any number (RFC 8878, 3).
# Follows: a folded profile made of joined files loses all weights but the first file's. Test readers with two frames.
# Seen with: zstandard 0.23.0 (PyPI). Needs python3 with venv.
set -euo pipefail
need() { command -v "$1" >/dev/null || { echo "needs $1: $2" >&2; exit 3; }; }
check() { [ "$2" = "$3" ] && echo "$1: $2" || { echo "CHANGED: $1: $2 (was $3)" >&2; exit 1; }; }
need python3 "apt install python3-venv"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

python3 -m venv venv
venv/bin/pip -q install zstandard==0.23.0
cat >read.py <<'P'
import zstandard

joined = b"".join(zstandard.compress(part) for part in (b"main;a 1\n", b"main;b 2\n"))
print(zstandard.__version__, "decompress:", zstandard.ZstdDecompressor().decompress(joined))
with open("joined.zst", "wb") as file:
    file.write(joined)
print(zstandard.__version__, "open:", zstandard.open("joined.zst").read())
P
venv/bin/python read.py | tee out
check "decompress" "$(sed -n 1p out)" "0.23.0 decompress: b'main;a 1\\n'"
check "open" "$(sed -n 2p out)" "0.23.0 open: b'main;a 1\\nmain;b 2\\n'"
